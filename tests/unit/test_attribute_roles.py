"""Roles of attributes: what is stored, what leaves, and in which form."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors import read_log, write_log
from models.errors import InputError
from models.eventlog import Column, EventLog
from stream.commands import execute
from stream.config.settings import Process, Settings
from stream.config.sources import load
from stream.release.public_view import OTHER, common

HOUR = 3_600_000_000_000
FROZEN = Path(__file__).resolve().parent.parent / "fixtures" / "d56300e"


def hospital(folder: Path, cases: int = 240) -> Path:
    """Cases of two variants with a diagnosis, a ward, an age, and a citizen number that no two cases share."""
    rng = np.random.default_rng(11)
    case, activity, time = [], [], []
    for number in range(cases):
        for place, name in enumerate(["in", *rng.choice(["scan", "test"], 1), "out"]):
            case.append(f"c{number}")
            activity.append(str(name))
            time.append((number * 3 + place) * HOUR)
    names = [f"c{number}" for number in range(cases)]
    attributes: dict[str, dict[str, Any]] = {
        "diagnosis": dict(
            zip(names, map(str, rng.choice(["flu", "cold", "rare"], cases, p=[0.5, 0.47, 0.03])), strict=True)
        ),
        "ward": {name: f"ward{int(name[1:]) % 3}" for name in names},
        "age": {name: int(rng.integers(18, 90)) for name in names},
        "citizen": {name: f"CITIZEN-{int(name[1:]) * 7919 + 10_000_000}" for name in names},
    }
    path = folder / "hospital.xes"
    write_log(EventLog.from_events(case, activity, np.asarray(time), case_attributes=attributes, unit="ns"), path)
    return path


def public_text(folder: Path) -> str:
    """Every public byte of an output folder, unpacked."""
    files = [path for path in (folder / "public").rglob("*") if path.is_file()]
    return "".join(
        (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode(errors="replace")
        for path in files
    )


@pytest.mark.parametrize("text", ['citizen = "identifier"\nage = "quasi"', 'identifier = ["citizen"]\nquasi = ["age"]'])
def test_roles_are_written_by_role_or_by_name(tmp_path: Path, text: str) -> None:
    """Both ways say the same, and `sensitive` is short for the role."""
    config = tmp_path / "c.toml"
    config.write_text(f'[process]\nsensitive = ["diagnosis"]\n[process.attributes]\n{text}\n')
    process = load(config).process
    assert process.attributes.identifier == ("citizen",)
    assert process.kept == ("diagnosis", "age")
    assert process.attributes.sensitive == process.sensitive == ("diagnosis",)


@pytest.mark.parametrize(
    ("attributes", "released", "words"),
    [
        ({"identifier": ["a"], "sensitive": ["a"]}, (), "two roles"),
        ({"identifier": ["a"]}, ("a",), "never released"),
        ({"quasi": ["a"]}, ("a",), "never released"),
        ({}, ("a",), "has no role"),
        ({"a": "secret"}, (), "no role 'secret'"),
    ],
)
def test_what_a_role_forbids_is_refused(attributes: dict[str, Any], released: tuple[str, ...], words: str) -> None:
    """One clear line, when the configuration is read."""
    table = {"name": "p", "window": {"new_cases": 10}, "mechanism": {"kind": "tlkc"}, "release_attributes": released}
    with pytest.raises((ValueError, InputError), match=words) as caught:
        Settings(process=Process(attributes=attributes), publication=(table,))  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_a_mechanism_whose_records_are_no_cases_releases_no_attribute() -> None:
    """A dp release has no case to which an attribute would belong."""
    table = {
        "name": "p",
        "window": {"every": "1d", "time": "event"},
        "mechanism": {"kind": "dp-variants", "epsilon": 1, "delta_dp": 1e-6},
        "release_attributes": ["ward"],
    }
    with pytest.raises(InputError, match="releases no attributes"):
        Settings(process=Process(attributes={"public": ["ward"]}), publication=(table,))  # type: ignore[arg-type]


def test_an_old_configuration_keeps_its_digest(tmp_path: Path) -> None:
    """A key that came later, at its default, changes no digest: manifests of d56300e name the same one."""
    old = json.loads((FROZEN / "plain/store/public/plain/release-000001/manifest.json").read_text())["config_digest"]
    assert load(FROZEN / "config.toml").digest == old
    config = tmp_path / "c.toml"
    config.write_text(
        (FROZEN / "config.toml").read_text().replace("[process]", '[process]\nattributes.quasi = ["age"]')
    )
    assert load(config).digest != old


@given(
    st.lists(st.tuples(st.integers(-1, 5), st.integers(0, 2)), min_size=1, max_size=120),
    st.integers(1, 12),
)
def test_no_released_value_is_of_fewer_cases_than_asked(cases: list[tuple[int, int]], least: int) -> None:
    """Within each group every value, missing and `other` included, has `least` cases; only a whole group may be
    smaller, and it then shows `other` alone. A value of `least` cases stays unless it had to join the rare ones."""
    codes = np.asarray([code for code, _ in cases], dtype=np.int32)
    groups = np.asarray([group for _, group in cases], dtype=np.int64)
    shown = common(Column(codes, tuple("abcdef")), least, groups).decode()
    before = Column(codes, tuple("abcdef")).decode()
    for group in set(groups.tolist()):
        rows = np.flatnonzero(groups == group)
        values = [shown[row] for row in rows]
        for value in set(values):
            assert values.count(value) >= min(least, len(rows))
            if values.count(value) < least:
                assert values == [OTHER] * len(rows)
        assert all(shown[row] in (before[row], OTHER) for row in rows)
        counts = Counter(before[row] for row in rows)
        frequent = {value for value, count in counts.items() if count >= least}
        rare = sum(count for value, count in counts.items() if value not in frequent)
        if rare == 0 or rare >= least:
            assert {v for v in values if v != OTHER} == frequent


def test_of_equally_frequent_values_one_is_hidden_whatever_the_order_of_the_log() -> None:
    """A cohort has three cases of p, three of q and one without a value, which is hidden with p. In a later release a
    new case comes first. The cohort still shows q: else both releases together would single out the one case."""
    cohort = ["p", "q", None, "q", "p", "p", "q"]
    shown = common(Column.encode(cohort), 3, np.zeros(7, dtype=np.int64)).decode()
    assert shown == [OTHER, "q", OTHER, "q", OTHER, OTHER, "q"]
    for first in ("q", "p", "z", None):
        later = Column.encode([first, *cohort])
        assert common(later, 3, np.asarray([1] + [0] * 7)).decode()[1:] == shown


def test_a_sensitive_attribute_stays_unless_a_publication_names_it(tmp_path: Path) -> None:
    """By default no value of it is in the public folder; named, it leaves with `other` for what few cases have, and
    the manifest, the audit of risk and what is linked on state it."""
    log, config = hospital(tmp_path), tmp_path / "c.toml"
    common_part = (
        '[process]\nsensitive = ["diagnosis"]\ncompletion = "log_end"\n[process.attributes]\npublic = ["ward"]\n'
        '[[publication]]\nname = "p"\nwindow = { new_cases = 240 }\n'
        'mechanism = { kind = "tlkc", L = 1, K = 20, C = 0.9 }\n'
    )
    config.write_text(common_part)
    assert execute(["replay", str(log), "-c", str(config), "-o", str(tmp_path / "none")]) == 0
    assert "flu" not in public_text(tmp_path / "none")
    assert "ward" not in public_text(tmp_path / "none")
    config.write_text(common_part + 'release_attributes = ["diagnosis", "ward"]\n')
    assert execute(["replay", str(log), "-c", str(config), "-o", str(tmp_path / "named")]) == 0
    released = read_log(tmp_path / "named/public/p/release-000001/log.xes.gz")
    diagnoses = released.case_values("diagnosis").decode()
    assert set(diagnoses) == {"flu", "cold", OTHER} or set(diagnoses) == {"flu", OTHER}
    assert diagnoses.count(OTHER) >= 20
    assert set(released.case_values("ward").decode()) == {"ward0", "ward1", "ward2"}
    manifest = json.loads((tmp_path / "named/public/p/release-000001/manifest.json").read_text())
    assert manifest["carries"] == ["activity", "diagnosis", "ward"]
    assert "diagnosis, ward" in manifest["promise"]["not_guaranteed"]
    audit = json.loads((tmp_path / "named/operator/p/000001/audit.json").read_text())
    assert audit["risk"]["carries"] == ["activity", "diagnosis", "ward"]
    assert audit["anonymity"]["linkable_on"] == ["activity", "diagnosis", "ward"]


def test_the_risk_of_a_release_counts_its_attributes(tmp_path: Path) -> None:
    """A public attribute with a value a case makes every released case unique, and the audit reports it (it
    said .35 % where 100 % were); nearly unique attributes are refused, so this one is below the bound."""
    log = read_log(hospital(tmp_path))
    rooms = {name: f"room{min(int(name[1:]), 190)}" for name in log.case_ids}
    path = tmp_path / "rooms.xes"
    column = Column.encode(rooms[name] for name in log.case_ids)
    write_log(log.with_columns(case={"room": column}), path)
    config = tmp_path / "c.toml"
    config.write_text(
        '[process]\ncompletion = "log_end"\n[process.attributes]\npublic = ["room"]\n[[publication]]\nname = "p"\n'
        'window = { new_cases = 240 }\nmechanism = { kind = "identity" }\nrelease_attributes = ["room"]\n'
        "audit = { anonymity = false, series = false, utility = false, leakage = false }\n"
    )
    assert execute(["replay", str(path), "-c", str(config), "-o", str(tmp_path / "out")]) == 0
    audit = json.loads((tmp_path / "out/operator/p/000001/audit.json").read_text())
    assert audit["risk"]["worst"] >= 190 / 240


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param([], marks=pytest.mark.slow),
        pytest.param(["--sensitive", "diagnosis"], marks=pytest.mark.slow),
        ["--sensitive", "diagnosis,age", "--final"],
        ["--compare", "--sensitive", "diagnosis"],
    ],
)
def test_a_citizen_number_is_never_public(tmp_path: Path, flags: list[str]) -> None:
    """For all flags of the README, none of its values is in the public folder."""
    log = hospital(tmp_path)
    assert execute(["replay", str(log), "-o", str(tmp_path / "out"), *flags]) in (0, 3)
    assert "CITIZEN-" in log.read_text()
    assert "CITIZEN-" not in public_text(tmp_path / "out")


@pytest.mark.parametrize(
    "command",
    [
        ["replay", "LOG", "-o", "OUT", "--sensitive", "citizen"],
        ["advise", "LOG", "--sensitive", "citizen"],
        ["anonymize", "LOG", "-o", "OUT.xes", "--mechanism", "tlkc", "--K", "20", "--sensitive", "citizen"],
        ["anonymize", "LOG", "-o", "OUT.xes", "--mechanism", "tlkc", "--release-attributes", "citizen"],
    ],
)
def test_an_attribute_that_names_cases_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """Exit 2 with the attribute, its numbers and the advice, before anything is written."""
    log = hospital(tmp_path)
    words = [str(log) if word == "LOG" else word.replace("OUT", str(tmp_path / "out")) for word in command]
    assert execute(words) == 2
    said = capsys.readouterr().err
    assert "'citizen' has 240 values in 240 cases" in said
    assert "identifier" in said
    assert not (tmp_path / "out").exists()


def test_an_identifier_is_not_stored(tmp_path: Path) -> None:
    """With its role named, no file of the output holds a value of it, the operator's neither."""
    log, config = hospital(tmp_path), tmp_path / "c.toml"
    config.write_text(
        '[process]\nsensitive = ["diagnosis"]\n[process.attributes]\ncitizen = "identifier"\nage = "quasi"\n'
        '[[publication]]\nname = "p"\nwindow = { new_cases = 60 }\nmechanism = { kind = "tlkc", K = 5 }\n'
    )
    assert execute(["replay", str(log), "-c", str(config), "-o", str(tmp_path / "out")]) in (0, 3)
    for path in (tmp_path / "out").rglob("*"):
        if path.is_file():
            body = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            assert b"CITIZEN-" not in body, path
