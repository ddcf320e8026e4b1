"""A state and a digest that an earlier program wrote (commit d56300e): read for as long as this program lives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stream.config.sources import load
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Config, Delta, Row, Tick
from tests.conftest import GOLDEN, ROOT

S = 1_000_000_000
STATE = (GOLDEN / "fold_state_v1.msgpack").read_bytes()
"""Of three publications (tumbling windows, wall windows, a count) after four events and a complete case."""
RECORDS: list[AnyRecord] = [
    Delta(src="t", p=0, prev=3, last=4, n=1, rows=[Row(4, "c", "x", 21 * S)]),
    Tick(at=31 * S),
    Delta(src="t", p=0, prev=4, last=5, n=1, rows=[Row(5, "d", "x", 55 * S)]),
]


def run(fold: Fold, records: list[AnyRecord]) -> list[tuple[str, int | None, dict[str, int]]]:
    """(cut, end or begin of its window in seconds, events by case)."""
    found = []
    for position, record in enumerate(records, start=4):
        for cut in fold.apply(position, record):
            log = fold.exposed(cut).log
            edge = cut.window[0] if cut.window[1] is None else cut.window[1]
            shown = dict(zip(log.case_ids, log.lengths.tolist(), strict=True))
            found.append((cut.id, None if edge is None else edge // S, shown))
            fold.decided(cut, released=True)
    return found


def test_a_state_of_the_first_version_goes_on_as_that_program_did() -> None:
    """Cuts and logs as the program that wrote it printed them."""
    assert run(Fold.restore(STATE), RECORDS) == [
        ("p/4/0/0", 20, {"a": 2, "b": 1, "c": 1}),
        ("w/5/0/0", 10, {"a": 2, "b": 1, "c": 2}),
        ("w/5/0/1", 20, {"a": 2, "b": 1, "c": 2}),
        ("p/6/0/0", 30, {"b": 1, "c": 2}),
        ("p/6/0/1", 40, {"b": 1, "c": 2}),
        ("p/6/0/2", 50, {"b": 1, "c": 2}),
        ("n/6/0/0", None, {"b": 1, "c": 2, "d": 1}),
    ]


def test_new_rules_take_an_old_state_over() -> None:
    """A config record that brings `start` and the dp rules: the window that is open ends as announced, the next one
    on the new grid; retention then asks each case's own last event and the clock, and `a` ended long ago."""
    fold = Fold.restore(STATE)
    wall = fold.rules.publications[2]
    changed = replace(fold.rules, publications=(replace(wall, start=4 * S, private=True),))
    after = [Config(body=changed.to_mapping()), *RECORDS[:2], Tick(at=40 * S), Tick(at=45 * S)]
    assert run(Fold.restore(fold.snapshot()), after) == [
        ("w/6/0/0", 10, {"a": 2, "b": 1, "c": 2}),
        ("w/6/0/1", 14, {"a": 2, "b": 1, "c": 2}),
        ("w/7/0/0", 24, {"a": 2, "b": 1, "c": 2}),
        ("w/8/0/0", 34, {"b": 1, "c": 2}),
    ]


def test_an_unchanged_file_keeps_its_digest(tmp_path: Path) -> None:
    """A replay that was begun by that program can be ended by this one: keys that are not set are not in the digest."""
    text = (ROOT / "tests" / "fixtures" / "d56300e" / "hospital.toml").read_text(encoding="utf-8")
    (tmp_path / "c.toml").write_text(text)
    assert load(tmp_path / "c.toml").digest == "8beedb9295821e1e89bc59bfa18b4184f22c5773bfb6115379c3b6f3e595a05a"
