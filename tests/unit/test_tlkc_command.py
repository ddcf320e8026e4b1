"""`veilstream anonymize` and the mechanism of publications: JSON, exit codes, what is in the released file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import read_log, write_log
from models.errors import BoundError, InputError
from models.eventlog import EventLog
from stream.commands import execute as run
from stream.release.contract import Exposure
from stream.release.manifest import promise
from stream.release.mechanisms import mechanism

MINUTE = 60_000_000_000


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Eight cases: six of `a b`, two with a rare order; resources, a disease, and an attribute nobody asked for."""
    traces = ["ab"] * 6 + ["ba", "abc"]
    cases = [f"patient-{n}" for n, trace in enumerate(traces) for _ in trace]
    names = [name for trace in traces for name in trace]
    times = np.asarray([MINUTE * place + 1_700_000_000_000_000_000 for trace in traces for place in range(len(trace))])
    staff = [{"a": "ann", "b": "bob", "c": "cy"}[name] for name in names]
    values = {"disease": {f"patient-{n}": "xy"[n % 2] for n in range(len(traces))}}
    log = EventLog.from_events(cases, names, times, staff, values, {"secret": ["s"] * len(names)}, unit="ns")
    path = tmp_path / "source.xes"
    write_log(log, path)
    return path


def _json(capfdbinary: Any, *arguments: str) -> tuple[int, Any]:
    code = run(["anonymize", *arguments, "--json"])
    out = capfdbinary.readouterr().out
    return code, json.loads(out) if out else None


def test_documented_json(source: Path, tmp_path: Path, capfdbinary: Any) -> None:
    """Every documented key, and the numbers of a log that can be counted by hand."""
    out = tmp_path / "out.xes"
    code, result = _json(
        capfdbinary, str(source), "-o", str(out),
        "--sensitive", "disease", "--K", "3", "--C", "0.6", "--suppression", "local",
    )  # fmt: skip
    assert code == 0
    assert result["mechanism"]["kind"] == "tlkc"
    assert result["events"] == {"in": 17, "out": 15}
    assert result["cases"] == {"in": 8, "out": 8}
    assert result["variants"] == {"in": 3, "out": 2}
    assert result["suppressed"] == ["c"]
    assert (result["n_actual"], result["satisfied"]) == (1, True)
    assert result["seconds"] >= 0
    assert result["details"]["minimality"]["audited"] >= 1


def test_released_file_holds_nothing_else(source: Path, tmp_path: Path) -> None:
    """Fresh ids and ordinal times; no attribute that was not asked for, no resource, no source id or time."""
    out, asked = tmp_path / "out.xes", tmp_path / "asked.xes"
    command = ["anonymize", str(source), "--sensitive", "disease", "--K", "3", "--C", "0.6", "-o"]
    assert run([*command, str(out)]) == 0
    assert run([*command, str(asked), "--release-attributes", "disease"]) == 0
    text = out.read_text()
    assert not any(word in text for word in ("patient-", "secret", "ann", "2023", "disease"))
    released = read_log(out)
    assert set(released.case_attributes) == set()
    assert set(read_log(asked).case_attributes) == {"disease"}
    assert released.time.max() < 60 * MINUTE
    assert "privacy:anonymizations" in text


def test_relative_times_leave_with_the_source_anchor(source: Path, tmp_path: Path, capfdbinary: Any) -> None:
    """rel: after the suppression of all first events, `b` still is at minute 1."""
    out = tmp_path / "out.xes"
    code, result = _json(
        capfdbinary, str(source), "-o", str(out), "--knowledge", "rel", "--K", "7", "--L", "1", "--C", "1"
    )
    assert (code, result["time_basis"]) == (0, "relative")
    released = read_log(out)
    kept = {(activity, time) for activity, time in zip(released.activity.decode(), released.time.tolist(), strict=True)}
    assert kept == {("a", 0), ("b", MINUTE)}
    code, result = _json(
        capfdbinary, str(source), "-o", str(out), "--knowledge", "rel", "--K", "7", "--L", "2", "--C", "1"
    )
    assert result["suppressed"] == [["a", 1], ["b", 0], ["c", 2]]


def test_resources_get_pseudonyms_by_default(source: Path, tmp_path: Path) -> None:
    """Names of resources leave only with --keep-resources."""
    out = tmp_path / "out.xes"
    arguments = ["anonymize", str(source), "-o", str(out), "--attribute", "re", "--K", "2", "--L", "1", "--C", "1"]
    assert run(arguments) == 0
    assert all(name.startswith("r-") for name in read_log(out).resource.values)
    assert run([*arguments, "--keep-resources"]) == 0
    assert set(read_log(out).resource.values) == {"ann", "bob"}


def test_violations_are_listed(source: Path, capfdbinary: Any) -> None:
    """--list-violations needs no output file and says what is wrong with each set."""
    code, result = _json(
        capfdbinary, str(source), "--list-violations", "--sensitive", "disease", "--K", "2", "--C", "0.6"
    )
    assert code == 0
    assert result == {
        "violations": [
            {"candidate": ["c"], "cases": 1, "reason": "fewer than K cases"},
            {"candidate": ["b", "a"], "cases": 1, "reason": "fewer than K cases"},
        ]
    }


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--K", "9"], 2, "K = 9 is infeasible: the log has 8 cases"),
        (["--K", "2", "--C", "0.1", "--sensitive", "disease"], 2, "disease has 2 values"),
        (["--sensitive", "shoe"], 2, "'shoe'"),
        (["--mechanism", "nothing"], 2, "'nothing'"),
        (["--mechanism", "pretsa", "--K", "2", "--theta", "0.5"], 2, "theta is not an option"),
        (["--knowledge", "tree"], 2, "knowledge"),
        (["--knowledge", "rel", "--T", "seconds", "--K", "2"], 2, "T = seconds is finer"),
        (["--bins", "disease"], 2, "--bins"),
        (["--set", "L"], 2, "--set"),
        (["--K", "2", "--set", "effort=5", "--suppression", "pruned"], 2, 'effort is of suppression = "local"'),
        (["--K", "2", "--alpha", "0.7"], 2, "alpha = 0.7"),
        (["--K", "2", "--bins", "age=60,40"], 2, "the bins of age do not ascend"),
        (["--mechanism", "baseline-1", "--K", "7"], 3, "all 8 cases"),
        (["--knowledge", "rel", "--K", "8", "--L", "1"], 3, "all 8 cases"),
    ],
)
def test_clear_answers(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    """Bad input ends with 2, nothing left with 3, one line each, and no file."""
    out = tmp_path / "out.xes"
    assert run(["anonymize", str(source), "-o", str(out), *arguments]) == code
    captured = capfd.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not out.exists()


def test_the_log_itself_is_not_overwritten(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Under any name of it; what is in it stays."""
    before = source.read_bytes()
    other = source.parent / "link.xes"
    other.symlink_to(source)
    for name in (source, other):
        assert run(["anonymize", str(source), "-o", str(name), "--K", "2", "--C", "1"]) == 2
        assert "is the log itself" in capfd.readouterr().err
    assert source.read_bytes() == before


def test_no_resource_column(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """re on a log without resources is bad input."""
    path = tmp_path / "plain.xes"
    write_log(EventLog.from_traces([("ab", "x"), ("ab", "y")]), path)
    assert (
        run(["anonymize", str(path), "-o", str(tmp_path / "o.csv"), "--attribute", "re", "--K", "1", "--C", "1"]) == 2
    )
    assert "no resource" in capfd.readouterr().err


def test_other_mechanisms(source: Path, tmp_path: Path, capfdbinary: Any) -> None:
    """Baselines run by the same command; --set reaches any key of a mechanism."""
    for kind, events in (("baseline-1", 12), ("baseline-2", 14), ("pretsa", 15)):
        code, result = _json(
            capfdbinary, str(source), "-o", str(tmp_path / "o.csv.gz"), "--mechanism", kind, "--set", "K=3"
        )
        assert code == 0
        assert result["satisfied"]
        assert result["events"]["out"] == events


def _exposure() -> Exposure:
    log = EventLog.from_traces([("ab", "x"), ("ab", "y"), ("ab", "z"), ("c", "x")])
    return Exposure(log, np.ones(4, dtype=np.bool_), ("sensitive",), 0)


def test_mechanism_of_a_publication() -> None:
    """The build says what was suppressed and why in counts only; items and details stay with the operator."""
    build = mechanism({"kind": "tlkc", "L": 2, "K": 2, "C": 0.5}).build(_exposure())
    assert build.public["suppressed"] == {"items": 1, "events": 1, "cases": 1, "why": {"below_k": 1, "above_c": 0}}
    assert (build.cases_dropped, build.n_actual, build.carries) == (1, 0, ("activity",))
    assert build.operator["suppressed"] == ["c"]
    assert build.applies["anonymity"].status == "cases_dropped"
    assert '"c"' not in json.dumps(dict(build.public))


def test_every_mechanism_that_removes_says_what_it_removed() -> None:
    """Cases and events that are gone, and the most events of one case, in the manifest of each kind."""
    for table, events in (
        ({"kind": "baseline-1", "K": 2}, 1),
        ({"kind": "baseline-2", "K": 2}, 1),
        ({"kind": "pretsa", "K": 2}, 1),
        ({"kind": "lcs-start", "K": 2}, 1),
    ):
        public = mechanism(table).build(_exposure()).public
        assert public["suppressed"]["events"] == events
        assert public["suppressed"]["cases"] == 1
        assert (public["n_actual"], public["satisfied"]) == (0, True)


def test_a_case_without_any_event_is_not_said_to_be_suppressed() -> None:
    """Nothing of it was exposed, so nothing of it went."""
    log = EventLog.from_traces([("ab", "x"), ("ab", "y"), ("", "z"), ("c", "z")])
    build = mechanism({"kind": "tlkc", "K": 2}).build(Exposure(log, np.ones(4, dtype=np.bool_), ("sensitive",), 0))
    assert build.public["suppressed"]["cases"] == build.cases_dropped == 1


def test_a_cohort_states_of_its_local_suppression_what_a_release_of_tlkc_does() -> None:
    """The minimality audit for the operator, the reasons as counts and the risks in the promise for everybody."""
    log = EventLog.from_traces([("ab", "x"), ("ab", "y"), ("ab", "x"), ("ab", "y"), ("ba", "x")], "sensitive")
    exposure = Exposure(log, np.ones(5, dtype=np.bool_), ("sensitive",), 0)
    cohorts = mechanism({"kind": "tlkc-cohorts", "K": 3, "C": 0.75, "suppression": "local", "patience": 0})
    build = cohorts.build(exposure)
    alone = mechanism({"kind": "tlkc", "K": 3, "C": 0.75, "suppression": "local", "effort": 100}).build(exposure)
    assert build.operator["minimality"] == alone.operator["minimality"]
    assert set(alone.operator["minimality"]) == {"audited", "below_k", "least_cases"}
    assert build.public["newest"]["why"] == {"below_k": 1, "above_c": 0}
    assert "rules of local suppression" in promise(cohorts, build, sensitive=True)["not_guaranteed"]
    exact = mechanism({"kind": "tlkc-cohorts", "K": 3, "C": 0.75})
    assert "rules" not in promise(exact, exact.build(exposure), sensitive=True)["not_guaranteed"]


def test_infeasible_publications_are_withheld_not_misconfigured() -> None:
    """In a stream an early cut may be too small: that is a broken bound of this cut, not of the configuration."""
    with pytest.raises(BoundError, match="the log has 4 cases"):
        mechanism({"kind": "tlkc", "K": 20}).build(_exposure())


def test_an_unknown_kind_is_refused() -> None:
    """The line names the key."""
    with pytest.raises(InputError, match="mechanism kind"):
        mechanism({"kind": "tlk"})


def _configured(folder: Path, mechanism_: str, completion: str = "") -> str:
    path = folder / "veilstream.toml"
    lines = ["[process]", completion, "[[publication]]", 'name = "p"', "window = { new_cases = 4 }"]
    path.write_text("\n".join([*lines, f"mechanism = {mechanism_}"]))
    return str(path)


def test_times_coarser_than_asked_for_are_refused_in_a_replay_too(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whole minutes cannot be protected to the second, by tlkc or by cohorts; nothing is written."""
    for kind in ("tlkc", "tlkc-cohorts"):
        file = _configured(tmp_path, f'{{ kind = "{kind}", knowledge = "rel", T = "seconds", K = 2 }}')
        assert run(["replay", str(source), "-c", file, "-o", str(tmp_path / "out")]) == 2
        assert "publication 'p': T = seconds is finer than the log" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


def test_cohorts_of_cases_that_never_complete_are_warned_of(tmp_path: Path, capfdbinary: Any) -> None:
    """check-config says that nothing would be released; a rule of completion is enough. And of retention."""
    for completion, warned in (("", True), ('retention = "90d"\ncompletion = { inactivity = "30d" }', False)):
        file = _configured(tmp_path, '{ kind = "tlkc-cohorts" }', completion)
        assert run(["check-config", file, "--json"]) == 0
        warnings = json.loads(capfdbinary.readouterr().out)["warnings"]
        assert any("nothing will be released" in warning for warning in warnings) == warned
        assert any("can fall below K" in warning for warning in warnings) != warned


def test_columns_of_constants() -> None:
    """A sensitive attribute with no value anywhere binds nothing."""
    log = EventLog.from_traces([("ab", None)] * 3)
    exposure = Exposure(log, np.ones(3, dtype=np.bool_), ("sensitive",), 0)
    assert log.case_values("sensitive").values == ()
    assert mechanism({"kind": "tlkc", "L": 2, "K": 3, "C": 0.1}).build(exposure).log.n_events == 6
