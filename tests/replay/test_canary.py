"""Planted identifiers: what is in no published file, log line or message, whichever mechanism made it.

Standard output of `replay` and `releases` is the operator's, as audit.json is: it reveals the time of each cut, which
in a replay is the time of the event that brought it. Nothing else of a source time appears there.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from stream.commands import execute
from stream.release import mechanisms
from tests.conftest import DECLARED

PERSONS = ("CANARYCASE", "CANARYSSN", "CANARYNOTE")
"""Of the source and never of a release: raw case ids, and attributes that the configuration does not list."""
RESOURCE = "CANARYNURSE"
TIMES = ("2031-07", "13:37")

HEADER = "case:concept:name,concept:name,time:timestamp,org:resource,case:diagnosis,case:ssn,note"
DATA_CUTS = "gate = { public_cut = true }"
PUBLICATIONS = {
    "identity": '{ kind = "identity", attribute = "ar" }',
    "resources": '{ kind = "identity", attribute = "re" }',
    "relative": '{ kind = "tlkc", knowledge = "rel", T = "hours", L = 1, K = 2, C = 1.0 }',
    "tlkc": '{ kind = "tlkc", attribute = "ar", L = 1, K = 2, C = 1.0 }',
    "roles": '{ kind = "tlkc", attribute = "ar", L = 1, K = 2, C = 1.0 }\nresources = "roles"',
    "local": '{ kind = "tlkc", suppression = "local", L = 2, K = 2, C = 1.0 }',
    "repaired": '{ kind = "tlkc", L = 1, K = 2, C = 1.0 }\ngate = { min_ka = 3, min_ba = 3, on_violation = "repair" }',
    "refused": '{ kind = "tlkc", attribute = "ar", L = 1, K = 2, C = 1.0 }\ngate = { min_ka = 999 }',
    "warned": '{ kind = "identity" }\ngate = { min_ka = 999, on_violation = "warn" }',
    "infeasible": '{ kind = "baseline-1", K = 999 }',
    "cohorts": '{ kind = "tlkc-cohorts", L = 1, K = 2, C = 1.0 }',
    "lcs-start": '{ kind = "lcs-start", L = 1, K = 2, C = 1.0 }',
    "baseline-1": '{ kind = "baseline-1", K = 2 }',
    "baseline-2": '{ kind = "baseline-2", K = 2 }',
    "pretsa": '{ kind = "pretsa", K = 2 }',
    "amun": f'{{ kind = "amun", variant = "sampling", delta = 0.2 }}\n{DATA_CUTS}',
    "dp-log": f'{{ kind = "dp-log", epsilon = 9.0, delta_dp = 0.1, max_duration = "1d" }}\n{DATA_CUTS}',
    "dp-synthetic": f'{{ kind = "dp-synthetic", epsilon = 30.0, delta_dp = 0.1, max_labels = 3 }}\n{DATA_CUTS}',
    "dp-model": f'{{ kind = "dp-model", epsilon = 30.0, delta_dp = 0.1, max_labels = 3 }}\n{DATA_CUTS}',
    "dp-variants": f'{{ kind = "dp-variants", epsilon = 9.0, delta_dp = 0.1 }}\n{DATA_CUTS}',
}
STAFF = 'resource_roles = { assistant = ["CANARYNURSE0", "CANARYNURSE1"], doctor = ["CANARYNURSE2"] }'
NOISED = {"amun", "dp-log"}
NOISED_TIMES = tuple(
    f"{1 + number // 3:02d}T0{step}:13:37.{part:03d}"
    for number in range(60)
    for step in range(3)
    for part in (number, 0)
)
"""Every source time to the millisecond and to the second. The second alone proves nothing: among some hundred times
with noise, one in a hundred runs falls into one of these sixty seconds by chance."""
"""Their times are drawn: a noised time may be in the same month, and on the same second of an hour by chance."""


def canaries(folder: Path) -> Path:
    """Sixty cases of three events, at times that nothing else has; one in ten is short."""
    rows = [HEADER]
    for number in range(60):
        for step, activity in enumerate(("register", "visit", "release")[: 2 if number % 10 == 0 else 3]):
            moment = f"2031-07-{1 + number // 3:02d}T0{step}:13:37.{number:03d}Z"
            person = f"CANARYCASE{number},{activity},{moment},CANARYNURSE{step},flu,CANARYSSN{number},CANARYNOTE"
            rows.append(person)
    (folder / "log.csv").write_text("\n".join(rows) + "\n")
    return folder / "log.csv"


def configured(folder: Path) -> Path:
    """Every kind of mechanism and every answer of the gate."""
    lines = ['[process]\nname = "canary"\nsensitive = ["diagnosis"]\ncompletion = "log_end"\n' + STAFF]
    for name, mechanism in PUBLICATIONS.items():
        formats = "" if name == "dp-model" else 'formats = ["xes", "csv", "parquet"]\n'
        window = f'name = "{name}"\naudience = "{name}"\n{formats}window = {{ new_cases = 30 }}'
        lines.append(f"[[publication]]\n{window}\nmechanism = {mechanism}")
    (folder / "c.toml").write_text("\n".join(lines) + DECLARED)
    return folder / "c.toml"


def everything(folder: Path) -> str:
    """All that the files of a folder say, unpacked, and their names."""
    parts = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            parts += [
                str(path.relative_to(folder)),
                (gzip.decompress(data) if path.suffix == ".gz" else data).decode("latin-1"),
            ]
            if path.suffix == ".parquet":
                parts += [pd.read_parquet(path).to_csv(), str(pq.read_schema(path).metadata)]
    return "\n".join(parts)


def found(text: str, *planted: str) -> list[str]:
    """Return the planted texts that it contains."""
    return [one for one in planted if one in text]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("canary")
    log, config = canaries(folder), configured(folder)
    textfile = folder / "metrics.prom"
    arguments = ["replay", str(log), "-c", str(config), "-o", str(folder / "out"), "--metrics-textfile", str(textfile)]
    assert execute(arguments) == 3
    return folder


def test_the_search_finds_what_is_there(world: Path) -> None:
    """Negative control: everything planted is in the source, and raw resources are found where they are asked for."""
    assert found((world / "log.csv").read_text(), *PERSONS, RESOURCE, *TIMES) == [*PERSONS, RESOURCE, *TIMES]
    raw = world / "raw.toml"
    window = 'window = { new_cases = 60 }\nformats = ["parquet"]\nmechanism = { kind = "identity", attribute = "re" }'
    raw.write_text(f'[process]\nraw_resources = true\n[[publication]]\nname = "p"\n{window}\n')
    assert execute(["replay", str(world / "log.csv"), "-c", str(raw), "-o", str(world / "raw")]) == 0
    assert found(everything(world / "raw" / "public"), *PERSONS, RESOURCE, *TIMES) == [RESOURCE]


def test_no_kind_of_mechanism_is_left_out() -> None:
    """A new kind joins here too."""
    kinds = {table.split('"')[1] for table in PUBLICATIONS.values()}
    assert kinds == set(mechanisms.kinds())


@pytest.mark.parametrize("name", sorted(set(PUBLICATIONS) - {"refused", "infeasible"}))
def test_no_published_file_holds_what_was_planted(world: Path, name: str) -> None:
    """Log in three formats (or map) and manifest: no case id, resource, unlisted attribute or source time."""
    folder = world / "out" / "public" / name
    assert len(list(folder.glob("release-*"))) == 2
    text = everything(folder)
    assert any(activity in text for activity in ("register", "r-"))
    times = NOISED_TIMES if name in NOISED else TIMES
    assert found(text, *PERSONS, RESOURCE, *times) == []


@pytest.mark.parametrize("name", sorted(set(PUBLICATIONS) - {"refused", "infeasible", "dp-model"}))
def test_only_what_the_manifest_says_leaves(world: Path, name: str) -> None:
    """The perspectives that it carries and the sensitive attribute, in the columns that readers need."""
    folder = world / "out" / "public" / name / "release-000002"
    manifest = json.loads((folder / "manifest.json").read_text())
    needed = {"case:concept:name", "concept:name", "time:timestamp"}
    resource = {"org:resource"} if "resource" in manifest["carries"] else set()
    table = pd.read_parquet(folder / "log.parquet")
    assert needed | resource <= set(table.columns) <= needed | resource | {"case:diagnosis"}
    assert manifest["time_basis"] in ("noised", "relative") or table["time:timestamp"].max() < pd.Timestamp(
        "1970-01-02", tz="UTC"
    )


def test_the_public_folder_is_that_of_the_releases(world: Path) -> None:
    """A refused release is not in the folder, not even as an empty folder with a name."""
    public = {path.name for path in (world / "out" / "public").iterdir() if any(path.iterdir())}
    assert public == set(PUBLICATIONS) - {"refused", "infeasible"}


def test_the_operator_keeps_no_raw_case_id_and_no_unlisted_attribute(world: Path) -> None:
    """State, ledger, audits and variants know cases and resources by pseudonym; what is not listed never entered."""
    text = everything(world / "out" / "operator")
    assert "register" in text
    assert {"fold.checkpoint", "ledger.sqlite", "audit.json", "variants.parquet", "memory.json"} <= {
        path.name for path in (world / "out" / "operator").rglob("*")
    }
    assert found(text, *PERSONS, RESOURCE) == []


def test_metrics_hold_nothing_of_the_source(world: Path) -> None:
    """Labels are names of the configuration; values are counts."""
    text = (world / "metrics.prom").read_text()
    assert 'publication="identity"' in text
    assert found(text, *PERSONS, RESOURCE, *TIMES, "register", "flu") == []


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, str]]:
    """Runs a command on a terminal so wide that no cell is cut; what it says on (stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "400")

    def run(*arguments: str | Path) -> tuple[str, str]:
        capfd.readouterr()
        execute([str(one) for one in arguments])
        out, err = capfd.readouterr()
        return out, err

    return run


def test_what_commands_say_of_the_releases(world: Path, said: Callable[..., tuple[str, str]]) -> None:
    """Tables, JSON and the report: no person, no resource; of times only when each cut was."""
    output = world / "out"
    replay = ("replay", world / "log.csv", "-c", world / "c.toml", "-o", output)
    audits = [json.loads(path.read_text()) for path in output.glob("operator/*/*/audit.json")]
    cuts = {audit["cut"]["time"] for audit in audits}
    for arguments in (
        replay,
        ("releases", output),
        ("report", output, "-o", world / "report.html"),
        ("check-config", world / "c.toml"),
    ):
        out, err = said(*arguments)
        shown = out if arguments[0] != "report" else (world / "report.html").read_text()
        assert "identity" in shown
        assert found(shown + err, *PERSONS, RESOURCE) == []
        assert found(err, *TIMES) == []
        for cut in cuts:
            for form in (cut, cut[:16], cut[:16].replace("T", " "), f">{cut[:10]}<"):  # the last on the report's axis
                shown = shown.replace(form, "")
        assert found(shown, *TIMES) == []
    out, err = said(*replay, "--json")
    assert found(out + err, *PERSONS) == []
    assert err == ""


@pytest.mark.parametrize(
    "row",
    [
        "CANARYCASE1,visit,CANARYNOTE o'clock,CANARYNURSE,flu,CANARYSSN,CANARYNOTE",
        "CANARYCASE1,visit,2031-07-01T13:37:00,CANARYNURSE,flu,CANARYSSN1,CANARYNOTE",
        "CANARYCASE1,visit,2931-07-01T13:37:00Z,CANARYNURSE,flu,CANARYSSN1,CANARYNOTE",
        "CANARYCASE1,visit,2031-07-01T13:37:00Z,CANARYNURSE,CANARYNOTE,CANARYSSN1,CANARYNOTE",
        "CANARYCASE1,,2031-07-01T13:37:00Z,CANARYNURSE,flu,CANARYSSN1,CANARYNOTE",
        ",visit,2031-07-01T13:37:00Z,CANARYNURSE,flu,CANARYSSN1,CANARYNOTE",
        "CANARYCASE1,visit,2031-07-01T13:37:00Z,CANARYNURSE,flu,CANARYSSN1,CANARYNOTE,CANARYNOTE",
        '"CANARYCASE1,visit',
    ],
)
def test_a_refused_log_is_named_by_its_lines(world: Path, said: Callable[..., tuple[str, str]], row: str) -> None:
    """Bad input: one line with coordinates, and nothing of what the record holds."""
    bad = world / "bad.csv"
    bad.write_text((world / "log.csv").read_text() + row + "\n")
    out, err = said("replay", bad, "-o", world / "bad")
    assert (out, len(err.splitlines())) == ("", 1)
    assert err.startswith("veilstream: ")
    assert found(err, *PERSONS, RESOURCE, *TIMES) == []
    assert not (world / "bad").exists()
