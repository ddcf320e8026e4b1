"""Files of a process map: what they hold, names with markup, when they were made, and what reading them back finds."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from models.dp.process_map import MapTimes, NoisyMedian, NoisyNumber, StepCounts
from models.utility import map_model
from models.utility.discovery import quiet_pm4py
from stream.release import map_files

MARKUP = "<script>alert('x')</script> & \"quoted\""
CONTROL = "bell\x07"
LABELS = (MARKUP, CONTROL, "start")
TRACES = {(0, 1): 40, (0, 1, 1): 20, (0, 2): 30}
STEPS = {(3, 0): 90, (0, 1): 60, (0, 2): 30, (1, 1): 20, (1, 3): 60, (2, 3): 30}


def counts(traces: dict[tuple[int, ...], int], labels: tuple[str, ...] = LABELS) -> StepCounts:
    """The map of some traces, with an interval of ten steps to both sides."""
    border = len(labels)
    table = np.zeros((border + 1, border + 1), dtype=np.int64)
    for trace, cases in traces.items():
        for before, after in itertools.pairwise((border, *trace, border)):
            table[before, after] += cases
    cases_of_all = NoisyNumber(91, 85, 97)
    return StepCounts(labels, cases_of_all, 5, table, np.maximum(table - 10, 0), table + 10, 5.1, traces)


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return map_files.map_files(counts(TRACES))


def written(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_counts_of_a_map(files: dict[str, bytes]) -> None:
    """Steps by count, then by label; null for start and end; a bound for every other pair."""
    document = json.loads(files["dfg.json"])
    assert [(row["from"], row["to"], row["count"]) for row in document["steps"]] == [
        (None, MARKUP, 90), (MARKUP, CONTROL, 60), (CONTROL, None, 60), (MARKUP, "start", 30), ("start", None, 30),
        (CONTROL, CONTROL, 20),
    ]  # fmt: skip
    assert all((row["low"], row["high"]) == (row["count"] - 10, row["count"] + 10) for row in document["steps"])
    assert document["cases"] == {"count": 91, "low": 85, "high": 97}
    assert document["unlisted"] == {"count": 0, "high": 10}
    assert document["activities"] == [
        {"name": MARKUP, "count": 90}, {"name": CONTROL, "count": 80}, {"name": "start", "count": 30}
    ]  # fmt: skip
    assert (document["version"], document["coverage"], document["case_weight"]) == (1, 0.95, 5)


def test_a_pair_with_a_lower_bound_is_listed() -> None:
    """Its count is 0 and its steps are not."""
    steps = counts(TRACES)
    steps.low[2, 0] = 1
    rows = map_files.document(steps)["steps"]
    assert {"from": "start", "to": MARKUP, "count": 0, "low": 1, "high": 10} in rows


def test_markup_in_names_is_text_in_every_file(files: dict[str, bytes]) -> None:
    """No file has an element that a name wrote, and characters that XML lacks are replaced."""
    for name in ("model.bpmn", "model.pnml", "map.svg", "map.html"):
        text = files[name].decode()
        assert "<script" not in text
        assert "\x07" not in text
        root = ElementTree.fromstring(text)
        tags = {part.tag.rpartition("}")[2] for part in root.iter()}
        assert "script" not in tags
        shown = " ".join([*root.itertext(), *(value for part in root.iter() for value in part.attrib.values())])
        assert "<script>alert('x')" in shown
        assert "bell\ufffd" in shown
    policies = [part.get("content", "") for part in ElementTree.fromstring(files["map.html"]).iter("meta")]
    assert "default-src 'none'; style-src 'unsafe-inline'" in policies


def test_the_start_has_another_name_than_an_activity(files: dict[str, bytes]) -> None:
    """The activity `start` and the start of cases are two boxes."""
    names = [part.text for part in ElementTree.fromstring(files["map.svg"]).iter() if part.get("class") == "node-name"]
    assert {"start", "(start)", "end"} <= set(names)


def test_bands_are_as_wide_as_the_intervals(files: dict[str, bytes]) -> None:
    """Each line is as wide as its least count, and is drawn on a band as wide as its largest."""
    root = ElementTree.fromstring(files["map.svg"])
    paths = [part for part in root.iter() if part.get("class") in ("edge", "edge-range")]
    bands, lines = (
        [float(part.attrib["stroke-width"]) for part in paths if part.get("class") == kind]
        for kind in ("edge-range", "edge")
    )
    numbers = sorted(STEPS.values(), reverse=True)
    assert bands == [pytest.approx(0.8 + 3.4 * ((n + 10) / 90) ** 0.5, abs=0.006) for n in numbers]
    assert lines == [pytest.approx(0.8 + 3.4 * ((n - 10) / 90) ** 0.5, abs=0.006) for n in numbers]


def test_models_have_the_activities_of_the_map(files: dict[str, bytes], tmp_path: Path) -> None:
    """Both notations, as their readers see them."""
    folder = written(tmp_path, files)
    with quiet_pm4py() as pm4py:
        for name in ("model.bpmn", "model.pnml"):
            labels = map_model.visible_labels(pm4py, folder / name)
            assert labels == tuple(sorted([MARKUP, "bell\ufffd", "start"]))


def test_the_model_allows_the_frequent_paths(tmp_path: Path, files: dict[str, bytes]) -> None:
    """Both paths of the map fit the net; a path in the other order does not."""
    folder = written(tmp_path, files)
    with quiet_pm4py() as pm4py:
        import pandas as pd

        net = pm4py.read_pnml(str(folder / "model.pnml"))

        def fits(trace: list[str]) -> bool:
            frame = pd.DataFrame(
                {
                    "case:concept:name": "1",
                    "concept:name": trace,
                    "time:timestamp": pd.to_datetime(range(len(trace)), unit="s", utc=True),
                }
            )
            return bool(pm4py.fitness_alignments(frame, *net)["log_fitness"] > 0.999)

        assert fits([MARKUP, "bell\ufffd"])
        assert fits([MARKUP, "start"])
        assert not fits(["start", MARKUP])


def test_files_do_not_show_when_they_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A net that pm4py named by the moment would. Ids of the models are random, or in the order of a set."""
    first = map_files.map_files(counts(TRACES))
    later = itertools.count(2_000_000_000)
    monkeypatch.setattr(time, "time", lambda: float(next(later)))
    second = map_files.map_files(counts(TRACES))
    assert {name for name in first if first[name] != second[name]} <= {"model.bpmn", "model.pnml"}
    assert next(later) > 2_000_000_000  # the moment was asked for
    assert [name for name in second if b"20000000" in second[name]] == []


def test_a_map_without_steps_has_all_files(tmp_path: Path) -> None:
    """They are read back like others."""
    empty = map_files.map_files(counts({}))
    assert set(empty) == set(map_files.FILES)
    assert map_files.faults(written(tmp_path, empty), empty) == []


def test_more_edges_than_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says how many are in the table alone."""
    monkeypatch.setattr(map_files, "MOST_EDGES", 4)
    page = map_files.map_files(counts(TRACES))["map.html"].decode()
    assert "The picture has the 4 most frequent steps; 2 others are in the table." in page


def test_files_as_written_have_no_fault(files: dict[str, bytes], tmp_path: Path) -> None:
    assert map_files.faults(written(tmp_path, files), files) == []


@pytest.mark.parametrize("name", map_files.FILES)
def test_changed_bytes_are_found(files: dict[str, bytes], tmp_path: Path, name: str) -> None:
    """A writer or a disk that changes one byte is found before the seal."""
    folder = written(tmp_path, files)
    (folder / name).write_bytes(files[name][:-1])
    assert map_files.faults(folder, files) == [f"read back from {name}: its bytes are not those that were written"]


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("model.bpmn", b"<bpmn", "it cannot be read"),
        ("model.pnml", b"<pnml", "it cannot be read"),
        ("map.svg", b"<svg", "it cannot be read"),
        ("map.svg", b"<svg><script/></svg>", "it has a script"),
        ("map.html", b"<html><body><script/></body></html>", "it has a script"),
    ],
)
def test_files_that_readers_refuse_are_found(
    files: dict[str, bytes], tmp_path: Path, name: str, content: bytes, fault: str
) -> None:
    """Also if the bytes are as they were written."""
    changed = {**files, name: content}
    (line,) = map_files.faults(written(tmp_path, changed), changed)
    assert line.startswith(f"read back from {name}: {fault}")


def test_an_activity_that_the_counts_lack_is_found(files: dict[str, bytes], tmp_path: Path) -> None:
    """A model must not show more than the counts."""
    other = map_files.map_files(counts({(0,): 5}, ("unheard",)))
    changed = {**files, "model.pnml": other["model.pnml"]}
    assert map_files.faults(written(tmp_path, changed), changed) == [
        "read back from model.pnml: an activity that the counts do not have"
    ]


TIMES = MapTimes(
    {
        (0, 1): NoisyMedian(7_200_000, 3_600_000, 172_800_000, is_readable=True),
        (0, 2): NoisyMedian(500, 0, 9_000, is_readable=False),
    },
    90_000,
    259_200_000,
)


def test_times_of_a_map() -> None:
    """In seconds, next to the counts; none of the start, of the end, and of a pair without a median."""
    document = map_files.document(counts(TRACES), TIMES)
    found = {(row["from"], row["to"]): row.get("seconds") for row in document["steps"]}
    assert found == {
        (None, MARKUP): None, (CONTROL, None): None, ("start", None): None, (CONTROL, CONTROL): None,
        (MARKUP, CONTROL): {"median": 7200.0, "low": 3600.0, "high": 172800.0, "readable": True},
        (MARKUP, "start"): {"median": 0.5, "low": 0.0, "high": 9.0, "readable": False},
    }  # fmt: skip
    assert document["throughput_seconds"] == {"median": 90.0, "quantile_90": 259200.0}
    assert "throughput_seconds" not in map_files.document(counts(TRACES))


def test_times_on_the_page(tmp_path: Path) -> None:
    """In the largest unit; a median that is mostly noise is not shown."""
    files = map_files.map_files(counts(TRACES), TIMES)
    page = files["map.html"].decode()
    assert "2.0 h (1.0 h to 2.0 d)" in page
    assert page.count("too noisy") == 1
    assert "Half of the cases take up to 1.5 min, nine tenths up to 3.0 d." in page
    assert map_files.faults(written(tmp_path, files), files) == []
