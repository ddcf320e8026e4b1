"""Each event is in the saved state or in the archive, exactly once, whatever crashes between the two."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from connectors.files import FileOps
from stream.fold.fold import Fold
from stream.fold.named_events import named_events
from stream.fold.records import AnyRecord, Command, Delta
from stream.fold.rules import FoldRules
from stream.fold.state import digest
from stream.ledger import archive as archives
from stream.ledger.archive import Archive, as_table
from stream.ledger.checkpoints import Checkpoints, SavedState
from stream.ledger.envelope import Keys
from stream.operator.held_events import as_log
from stream.run.keeper import StateKeeper
from stream.testing.faults import Aborted
from tests.conftest import examples
from tests.property.test_fold_changes import lively_step, records
from tests.property.test_fold_forgets import COUNTING, WALL, _rules, _without_ids, share

EVENTS = ["go", "go", "save", "save", "die before", "die in erasure", 1, 2, 3]
KINDS = ("delta", "tick", "idle", "command", "erase", "config")


class InMemory:
    """Objects in a dict, as a store keeps them."""

    private, location = True, "memory"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put(self, name: str, body: bytes) -> None:
        self.objects[name] = bytes(body)

    def get(self, name: str) -> bytes | None:
        return self.objects.get(name)

    def names(self, folder: str) -> list[str]:
        return sorted(name for name in self.objects if name.startswith(f"{folder}/"))

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)


class NotDurable(FileOps):
    """Files without fsync: no power fails here."""

    def fsync(self, path: Path) -> None:
        """Do nothing."""


class Host:
    """A fold, its checkpoints and its archive: erases, crashes and continues as a daemon does."""

    def __init__(self, rules: FoldRules, folder: Path, history: Sequence[AnyRecord]) -> None:
        self._rules, self._history = rules, history
        self._blobs, self._folder = InMemory(), folder
        self._tombstones = set[bytes]()
        self._writes_left: int | None = None
        self.dies_in_erasure = False
        # Until this position a state is saved behind each record, as a daemon may that folds again.
        self._saves_until = -1
        self._open()

    def _open(self) -> None:
        self.archive = Archive(self._blobs, Keys(), written=self._written)
        self.archive.erase(self._tombstones)
        checkpoints = Checkpoints(self._folder, ops=NotDurable())
        self._keeper = StateKeeper(checkpoints, archive=self.archive)
        loaded = checkpoints.load()
        self.fold, self.position = Fold(self._rules), -1
        if loaded is None:
            self.fold.state.refuse(self._tombstones)
        else:
            saved = SavedState.decode(loaded.state)
            self.fold, self.position = Fold.restore(saved.fold), saved.position or 0

    def _written(self) -> None:
        if self._writes_left is not None:
            self._writes_left -= 1
            if self._writes_left <= 0:
                raise Aborted

    def take_until(self, position: int) -> None:
        """Fold the records up to a position."""
        while self.position < position:
            record = self._history[self.position + 1]
            if isinstance(record, Command) and record.name == "erase":
                erased = {digest(case) for case in record.arguments["cases"]}
                if not erased <= self._tombstones:
                    self._tombstones |= erased
                    self.fold.erase(record.arguments["cases"])
                    self.archive.erase(self._tombstones)
                    if self.dies_in_erasure:
                        self.dies_in_erasure = False
                        self._saves_until = self.position + 1
                        self._open()
                        continue
            for cut in self.fold.apply(self.position + 1, record):
                self.fold.exposed(cut)
                self.fold.decided(cut, released=True)
            self.fold.dead_letters.clear()
            self.position += 1
            if self.position < self._saves_until:
                self.save()
            if isinstance(record, Command) and record.name == "erase":
                self.save(in_full=True)
                self.save(in_full=True)

    def save(self, *, in_full: bool = False) -> None:
        state = SavedState("daemon", b"", 0, self.position)
        self._keeper.save(self.fold, state, in_full=in_full)

    def crash(self, position: int, after: int | None) -> None:
        """Die while the state of a position is saved, after some segments (None: before any); then continue.

        Who reads state and archive before that finds the events of the saved state, each once.
        """
        self._writes_left = after
        if after is not None:
            with suppress(Aborted):
                self.save()
        self._writes_left = None
        self._open()
        if self.position >= 0:
            assert held(self.everywhere()) == accepted(self._history[: self.position + 1], self._tombstones)
        self.take_until(position)

    def everywhere(self) -> pa.Table:
        """All events of the saved state and of the archive."""
        loaded = Checkpoints(self._folder).load()
        assert loaded is not None
        state = Fold.restore(SavedState.decode(loaded.state).fold).state
        in_state = named_events(state, np.ones(state.events.size, dtype=np.bool_), state.drops)
        return [*self.archive.read(until=state.drops), as_table(in_state)]


def accepted(history: Sequence[AnyRecord], erased: Collection[bytes]) -> Counter[tuple[str, str, int]]:
    """Case, activity and time of each row, without those of cases with these digests."""
    rows = Counter[tuple[str, str, int]]()
    for record in history:
        if isinstance(record, Delta):
            rows.update((row.case, row.activity, row.time_ns) for row in record.rows)
    return Counter({row: count for row, count in rows.items() if digest(row[0]) not in erased})


def erased_in(history: Sequence[AnyRecord]) -> set[bytes]:
    """Digests of the cases that were erased at any time."""
    return {digest(case) for record in history if _erases(record) for case in record.arguments["cases"]}


def held(tables: Sequence[pa.Table]) -> Counter[tuple[str, str, int]]:
    if not any(len(table) for table in tables):
        return Counter()
    log = as_log(tables)
    cases = [log.case_ids[case] for case in log.case_of_event]
    for begin, end in zip(log.starts[:-1], log.starts[1:], strict=True):
        assert (np.diff(log.time[begin:end]) >= 0).all()
    return Counter(zip(cases, log.activity.decode(), log.time.tolist(), strict=True))


@contextmanager
def small_segments(size: int) -> Iterator[None]:
    with patch.object(archives, "EVENTS_PER_SEGMENT", size):
        yield


@examples(100)
@given(
    _rules([*WALL, *COUNTING], st.none()),
    st.tuples(*[_rules([*WALL, *COUNTING], st.none())] * 2),
    st.lists(lively_step(*KINDS), min_size=10, max_size=40),
    st.lists(
        st.sampled_from(["go", "go", "save", "save", "die before", "die in erasure", 1, 2, 3]), min_size=40, max_size=40
    ),
    st.sampled_from([-1, 4, 1 << 40]),
    st.sampled_from([1, 50_000]),
)
def test_each_event_is_in_the_state_or_in_the_archive(
    made: FoldRules,
    other: tuple[FoldRules, FoldRules],
    steps: list[Any],
    events: list[str | int],
    size: int,
    segment: int,
) -> None:
    """Sizes of drops and segments, erasures, new rules, deaths before, between and behind segments: exactly once; and
    an erased case is in no object."""
    made, other = replace(made, archive=True), tuple(replace(one, archive=True) for one in other)
    steps = [_without_ids(one) for one in steps]
    history = [record for record in records(steps, other) if not _accepts_gaps(record)]
    with tempfile.TemporaryDirectory() as folder, share(size), small_segments(segment):
        host = Host(made, Path(folder), history)
        for position in range(len(history)):
            host.take_until(position)
            event = events[position]
            if event == "die in erasure":
                host.dies_in_erasure = True
            elif event == "save":
                host.save()
                known = history[: position + 1]
                assert held(host.everywhere()) == accepted(known, erased_in(known))
            elif event != "go":
                host.crash(position, None if event == "die before" else int(event))
        if history:
            host.save()
            assert held(host.everywhere()) == accepted(history, erased_in(history))
        erased = erased_in(history)
        for table in host.archive.read(until=1 << 40):
            assert erased.isdisjoint(digest(case) for case in table.column("case").to_pylist())


def _erases(record: AnyRecord) -> bool:
    return isinstance(record, Command) and record.name == "erase"


def _accepts_gaps(record: AnyRecord) -> bool:
    return isinstance(record, Command) and record.name == "gap"
