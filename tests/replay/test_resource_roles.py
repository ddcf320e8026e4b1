"""Resources by choice: none, roles of at least K of them, or pseudonyms where these are asked for."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from models.errors import InputError
from models.eventlog import Column, EventLog
from stream.commands import execute
from stream.config.lint import warnings
from stream.config.settings import Settings
from stream.config.sources import load
from stream.release.public_view import OTHER, shown_roles, with_roles
from stream.run.replay import Replay

HOUR = 3_600_000_000_000
K = 4
STAFF = {"nurse": 8, "doctor": 5, "surgeon": 3, "porter": 2}
ROLE_OF = {f"CANARY-{role}{number}": role for role, size in STAFF.items() for number in range(size)}
TEAM = sorted(ROLE_OF)


def clinic(cases: int = 120) -> EventLog:
    """Register and visit, each by the next of the staff; who did what follows no role."""
    owner = [f"c{case}" for case in range(cases) for _ in range(2)]
    who = [TEAM[(7 * event) % len(TEAM)] for event in range(2 * cases)]
    return EventLog.from_events(
        owner, ["register", "visit"] * cases, np.arange(2 * cases) * HOUR, who,
        event_attributes={"org:role": [ROLE_OF[name] for name in who]},
        unit="ns",
    )  # fmt: skip


TAXONOMY = {role: tuple(name for name in TEAM if ROLE_OF[name] == role) for role in STAFF}
PROCESS: dict[str, Any] = {"name": "clinic", "completion": {"log_end": True}, "resource_roles": "org:role"}


def publication(kind: str = "tlkc", resources: str | None = "roles", attribute: str = "ar", **more: Any) -> Any:
    mechanism = {"kind": kind, "attribute": attribute, "L": 1, "K": K, "C": 1.0}
    mechanism.update({"suppression": "local"} if kind == "tlkc-cohorts" else {})
    table = {"name": "p", "window": {"new_cases": 30}, "mechanism": mechanism, "formats": ["parquet"], **more}
    return table if resources is None else {**table, "resources": resources}


def settings(process: Any = None, **more: Any) -> Settings:
    return Settings.model_validate({"process": {**PROCESS, **(process or {})}, "publication": [publication(**more)]})


def released(folder: Path) -> list[tuple[pd.DataFrame, dict[str, Any]]]:
    """Log and manifest of each release."""
    found = sorted((folder / "public" / "p").glob("release-*"))
    return [(pd.read_parquet(one / "log.parquet"), json.loads((one / "manifest.json").read_text())) for one in found]


@pytest.mark.parametrize("roles", ["org:role", TAXONOMY], ids=["column", "taxonomy"])
@pytest.mark.parametrize("kind", ["tlkc", "tlkc-cohorts"])
def test_roles_of_k_resources_leave_and_no_employee(tmp_path: Path, kind: str, roles: Any) -> None:
    """A nurse is one of eight and a doctor one of five; three surgeons and two porters are `other` together. No file of
    a recipient names a resource, nor a pseudonym."""
    log = clinic()
    outcome = Replay(settings({"resource_roles": roles}, kind=kind), tmp_path).run(log)
    assert not outcome.withheld
    everything = released(tmp_path)
    assert len(everything) >= 3
    for table, manifest in everything:
        assert set(table["org:resource"]) == {"nurse", "doctor", OTHER}
        assert manifest["carries"] == ["activity", "resource"]
        assert "roles" in manifest["promise"]["employees"]
    for path in (tmp_path / "public").rglob("*"):
        if path.is_file():
            assert b"CANARY" not in path.read_bytes()
    for table, _ in everything:
        assert not table["org:resource"].str.startswith("r-").any()
    names = set(log.case_ids)
    last = outcome.decisions[-1][1].audit
    assert last["resources"] == {"named_by": "roles", "note": "", "roles": ["doctor", "nurse"]}
    assert not names & set(everything[-1][0]["case:concept:name"])


def test_a_bound_of_the_mechanism_is_about_roles(tmp_path: Path) -> None:
    """In the last release every activity with its role is of K cases; by resources hardly one would be."""
    Replay(settings({}, kind="tlkc"), tmp_path).run(clinic(), final=True)
    table, _ = released(tmp_path)[-1]
    support = table.groupby(["concept:name", "org:resource"])["case:concept:name"].nunique()
    assert support.min() >= K
    assert len(support) == 6


def test_nothing_of_resources_leaves_by_default(tmp_path: Path) -> None:
    """Neither a role nor a name, though the log and the configuration have both."""
    Replay(settings(resources=None, attribute="ac"), tmp_path).run(clinic(), final=True)
    table, manifest = released(tmp_path)[-1]
    assert "org:resource" not in table.columns
    assert "employees" not in manifest["promise"]


def test_pseudonyms_leave_where_they_are_asked_for_and_the_manifest_says_what_it_means(tmp_path: Path) -> None:
    """One per employee; the manifest and the statement say that K counts cases."""
    asked = settings(resources="pseudonyms")
    Replay(asked, tmp_path).run(clinic(), final=True)
    table, manifest = released(tmp_path)[-1]
    assert table["org:resource"].dropna().str.fullmatch("r-[0-9a-f]{16}").all()
    assert "K counts cases" in manifest["promise"]["employees"]
    assert any("a pseudonym for each employee" in one for one in warnings(asked))
    assert not any("pseudonym" in one for one in warnings(settings()))
    statement = tmp_path / "s.md"
    assert execute(["statement", str(tmp_path), "-o", str(statement)]) == 0
    assert "K counts cases" in statement.read_text()


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"attribute": "ac"}, "needs a mechanism that counts them"),
        ({"attribute": "ac", "resources": "pseudonyms"}, "needs a mechanism that counts them"),
        ({"resources": "none"}, "releases them"),
        ({"process": {"resource_roles": None}}, "needs process.resource_roles"),
        ({"process": {"raw_resources": True}, "resources": "pseudonyms"}, "releases the names"),
    ],
)
def test_what_cannot_be_meant_is_refused_when_the_file_is_read(more: dict[str, Any], word: str) -> None:
    """With what to do, naming the publication."""
    with pytest.raises((InputError, ValueError), match=word):
        settings(more.pop("process", None), **more)


@pytest.mark.parametrize(
    ("table", "word"),
    [
        ({"resource_roles": {"a": ["x"], "b": ["x"]}}, "two roles"),
        ({"resource_roles": {"a": []}}, "at least one"),
        ({"resource_roles": "ssn", "attributes": {"identifier": ["ssn"]}}, "identifier"),
        ({"resource_roles": "age", "attributes": {"quasi": ["age"]}}, "quasi"),
    ],
)
def test_a_taxonomy_that_says_two_things_is_refused(table: dict[str, Any], word: str) -> None:
    """One role a resource; an attribute that may not leave is none."""
    with pytest.raises(ValueError, match=word):
        Settings.model_validate({"process": table})


def test_two_series_of_roles_in_one_audience_are_refused() -> None:
    """Each would decide by itself which roles represent enough."""
    two = [publication(), {**publication(), "name": "q"}]
    with pytest.raises(InputError, match="another audience"):
        Settings.model_validate({"process": PROCESS, "publication": two})


@pytest.mark.parametrize(("roles", "word"), [("org:group", "not in the log"), ({"a": ["nobody"]}, "names no resource")])
def test_a_taxonomy_of_another_log_is_refused_before_the_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], roles: Any, word: str
) -> None:
    """Exit 2: else everything would leave as other."""
    rows = ["case:concept:name,concept:name,time:timestamp,org:resource,org:role"]
    rows += [f"c{n},visit,2024-01-01T00:00:{n:02d}Z,ann,nurse" for n in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    declared = json.dumps(roles) if isinstance(roles, str) else "{ a = ['nobody'] }"
    (tmp_path / "c.toml").write_text(
        f'[process]\nname = "clinic"\nresource_roles = {declared}\n[[publication]]\nname = "p"\nresources = "roles"\n'
        'window = { new_cases = 30 }\nmechanism = { kind = "tlkc", attribute = "ar", K = 4, L = 1, C = 1.0 }\n'
    )
    assert load(tmp_path / "c.toml").publication[0].resources == "roles"
    arguments = ["replay", str(tmp_path / "log.csv"), "-c", str(tmp_path / "c.toml"), "-o", str(tmp_path / "out")]
    assert execute(arguments) == 2
    assert word in capsys.readouterr().err


def test_too_few_resources_show_no_role_at_all() -> None:
    """Three employees of two roles cannot hide among four, not even as `other`."""
    log = EventLog.from_events(["c1"] * 3, ["a"] * 3, np.arange(3), ["x", "y", "z"], unit="ns")
    shown, roles = with_roles(log, {"x": "nurse", "y": "nurse", "z": "doctor"}, K)
    assert roles == ()
    assert shown.resource.decode() == [None] * 3


EVENTS = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 4)), min_size=1, max_size=60)


@example([(0, 0), (1, 1), (2, 2), (3, 0), (4, 0), (5, 0), (6, 1), (7, 1)], [2, 6])
@given(EVENTS, st.lists(st.integers(1, 20), min_size=2, max_size=5))
def test_every_role_that_a_series_releases_has_k_resources(events: list[tuple[int, int]], cuts: list[int]) -> None:
    """Releases of a growing log: whatever an event was called in them, one after the other, at least K resources have
    a role that may have been called so; or all events that were there from that release on were, and it proves nothing.
    Counted here by hand; a resource keeps its role. A role that a release does not show yet may have had any name in
    it: recipients do not know who had begun to work."""
    role_of = {str(who): f"role{role}" for who, role in events}
    done = [str(who) for who, _ in events]
    before: tuple[str, ...] = ()
    history: list[tuple[str, ...]] = [()] * len(done)
    names: list[dict[str, str]] = []
    for end in itertools.accumulate(cuts):
        exposed = done[:end]
        log = EventLog.from_events(
            ["c"] * len(exposed), ["a"] * len(exposed), np.arange(len(exposed)), exposed, unit="ns"
        )
        shown, before = with_roles(log, role_of, K, before)
        for event, name in enumerate(shown.resource.decode()):
            history[event] += (str(name),)
        names.append({role_of[who]: history[event][-1] for event, who in enumerate(exposed)})
        said = set(history[: len(exposed)])
        for called in said:
            alike = {other for other in said if len(other) == len(called)} == {called}
            since = list(zip(called, names[-len(called) :], strict=True))
            roles = {role for role in names[-1] if all(known.get(role, name) == name for name, known in since)}
            assert alike or len({who for who in exposed if role_of[who] in roles}) >= K


def test_a_role_joins_when_others_still_stand_for_k() -> None:
    """Five porters may not leave `other` to three surgeons; with a fourth surgeon everything is shown, and one cook
    after that takes the smallest role with it."""

    def shown(sizes: dict[str, int], before: tuple[str, ...] = ()) -> tuple[str, ...]:
        names = [role for role, size in sizes.items() for _ in range(size)]
        return shown_roles(Column.encode(names), np.arange(len(names), dtype=np.int32), K, before)

    first = shown({"nurse": 8, "porter": 5, "surgeon": 3})
    assert first == ("nurse",)
    second = shown({"nurse": 8, "porter": 5, "surgeon": 4}, first)
    assert second == ("nurse", "porter", "surgeon")
    assert shown({"nurse": 8, "porter": 5, "surgeon": 4, "cook": 1}, second) == ("nurse", "porter")
