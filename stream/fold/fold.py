"""The deterministic fold: records of the delta topic in, cuts out. No clock, no file, no ledger.

State and cuts depend on nothing but the rules and the order of the records. Rows between two possible cuts are
accepted at once (`stream.fold.rows`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from models.errors import InputError, RefusedError
from stream.fold.completion import Completions, Retention
from stream.fold.cutting import Cutter
from stream.fold.exposure import Projection
from stream.fold.intake import Batch, Partition, State
from stream.fold.publications import Publications
from stream.fold.records import TIMES, AnyRecord, Command, Config, Cut, Delta, Heartbeat, Tick
from stream.fold.rows import RowFolder
from stream.fold.rules import FoldRules, LogFacts
from stream.fold.snapshot import (
    Marks,
    StateChange,
    added,
    changes,
    decode,
    dump_state,
    encode,
    encode_patches,
    load_state,
    marks,
    update_patch,
)
from stream.fold.triggers import Clocks, PublicationState

__all__ = ["Cut", "Fold"]


@dataclass(frozen=True, slots=True)
class Restored:
    """The content of a snapshot, without the rules."""

    state: State = field(default_factory=State)
    publications: Sequence[PublicationState] = ()
    now: int | None = None
    position: int = -1
    key: str = ""


class Fold:
    """The state of one process and the cuts that follow from its records.

    `apply` is a generator: the caller must decide every cut (`decided`, once the decision is durable) before it asks
    for the next, and take a snapshot between records only.

    Each part owns its state: `state` events, cases and partitions; `clocks` the time; `publications` the counters of
    each publication; `completions` which cases are complete; `cutter` the open cut. `retention` removes cases, and
    `rows` adds events. New rules go to each of them (`install`).
    """

    def __init__(self, rules: FoldRules, facts: LogFacts | None = None, restored: Restored | None = None) -> None:
        if restored is None:
            rules = rules.resolved(facts)
        content = restored or Restored(key=rules.key)
        self.rules, self.position, self.key = rules, content.position, content.key
        self.state = content.state
        self.state.install(rules)
        self.clocks = Clocks(rules, self.state.partitions, content.now)
        self._publications = Publications(rules, self.state, self.clocks, content.publications)
        self._completions = Completions(rules, self.state.cases, self.clocks, restored=restored is not None)
        parts = (self.state, self.clocks, self._publications, self._completions)
        self._retention = Retention(rules, *parts)
        self._cutter = Cutter(rules, *parts, self._retention)
        self._rows = RowFolder(rules, *parts)
        self._publications.recount()

    def _install(self, rules: FoldRules) -> None:
        """Put new rules into effect; counters are derived last, from what the parts then hold."""
        self.rules = rules
        self.state.install(rules)
        self.clocks.install(rules)
        self._publications.install(rules)
        self._completions.install(rules)
        self._retention.install(rules)
        self._cutter.install(rules)
        self._rows.install(rules)
        self._publications.recount()

    # what is asked of it

    @property
    def now(self) -> int | None:
        """The clock (ns): by ticks; embedded, by event times. None before the first."""
        return self.clocks.now

    @property
    def gap(self) -> bool:
        """Whether a partition misses offsets: nothing is released until `gap rewind|accept`."""
        return self.clocks.gap

    @property
    def publications(self) -> Mapping[str, PublicationState]:
        """The counters of each publication, by name."""
        return self._publications.states

    @property
    def dead_letters(self) -> list[tuple[str, int, int, str]]:
        """(source, partition, offset, reason) of late events for the dlq, since the caller last cleared the list."""
        return self._publications.dead_letters

    def next_deadline(self) -> int | None:
        """Return the next moment (ns) after `now` at which a tick alone could bring a cut or a completion."""
        return self._rows.next_deadline()

    def accounting(self, publication: str) -> dict[str, int]:
        """Return where every accepted event is (`Publications.accounting`)."""
        return self._publications.accounting(publication)

    def exposed(self, cut: Cut) -> Projection:
        """Return the log that the open cut exposes: all events of the publication exposed so far."""
        return self._cutter.exposed(cut)

    def decided(self, cut: Cut, released: bool) -> None:
        """Record that the publication's decision on the open cut is durable."""
        self._cutter.decided(cut, released)

    def erase(self, cases: Sequence[str]) -> int:
        """Remove cases by pseudonym, for good; their events are refused from now on.

        Returns
        -------
        int
            How many of them were in the state.
        """
        return self._retention.erase(cases)

    # records

    def apply(self, position: int, record: AnyRecord) -> Iterator[Cut]:
        """Take one record, and yield the cuts at it, in order.

        Parameters
        ----------
        position : int
            Offset of the record (embedded: rank of its first row).

        Raises
        ------
        RefusedError
            If a cut was left undecided.
        """
        if isinstance(record, Delta):
            yield from self._delta(position, record)
        else:
            self._cutter.set_place(position, 0)
            if isinstance(record, Tick):
                yield from self._tick(record.at)
            elif isinstance(record, Heartbeat):
                partition = self.state.partition((record.src, record.p))
                partition.active = record.at if partition.active is None else partition.active
                self._miss(position, record, partition)
                if self.rules.private:  # which partitions are idle depends on events: only ticks move the clock
                    yield from self._cutter.evaluate()
                else:
                    yield from self._tick(record.at)
            elif isinstance(record, Command):
                yield from self._command(record)
            elif isinstance(record, Config):
                yield from self._configure(record)
        self.position = max(self.position, position)

    def _delta(self, position: int, record: Delta) -> Iterator[Cut]:
        partition = self.state.partition((record.src, record.p))
        self.key = self.key or record.key
        if record.key != self.key:
            # one person under two keys would count as two, and K would be reached with fewer persons
            self.state.foreign += len(record.rows)
            if partition.lost is None and partition.lost_by(record) is None:
                partition.reach(record, partition.hwm)
            return
        if self._must_wait(record, partition):
            partition.held.append((position, record))
            return
        yield from self._offsets(position, record, partition)
        yield from self._unhold(position, partition)

    def _must_wait(self, record: Delta, partition: Partition) -> bool:
        """Whether a record must wait.

        It waits if offsets before it are missing, or if it comes from another log than the one read so far. After
        another log every record waits until the operator decides.
        """
        if partition.lost is None:
            partition.lost = partition.lost_by(record)
        return partition.lost is not None or (record.prev > partition.hwm and not partition.accept_gap)

    def _miss(self, position: int, idle: Heartbeat, partition: Partition) -> None:
        """Detect a lost delta that no later delta would show.

        An idle partition then reports a higher last offset than the state has.
        """
        if idle.last is not None and idle.last > partition.hwm and not partition.held:
            empty = Delta(src=idle.src, p=idle.p, prev=idle.last, last=idle.last, n=0, key=self.key, log=partition.log)
            partition.held.append((position, empty))

    def _unhold(self, position: int, partition: Partition) -> Iterator[Cut]:
        """Fold the held records once their gap has closed. Their cuts get the position of the record that closed it."""
        was_open = partition.gap
        while partition.held and not self._must_wait(partition.held[0][1], partition):
            _, record = partition.held.pop(0)
            if record.prev > partition.hwm:
                partition.accept_gap = False  # for one gap; the next one needs its own decision
            yield from self._offsets(position, record, partition)
        partition.accept_gap = False
        if was_open and not self.gap:
            self._cutter.set_place(position, 0)
            yield from self._cutter.evaluate()

    def _offsets(self, position: int, record: Delta, partition: Partition) -> Iterator[Cut]:
        before, begin = partition.hwm, 0
        self.state.named = self.state.named and (record.named or not record.rows)
        while begin < len(record.rows):
            batch = self.state.stage(record, begin, partition, before)
            if batch is None:
                break
            done = yield from self._batch(position, batch, partition)
            begin = int(batch.rows[done]) if done < len(batch) else len(record.rows)
            if done < len(batch):
                self.state.unstage()
        partition.reach(record, before)
        self._cutter.set_place(position, len(record.rows))
        if record.wm is not None and record.wm in TIMES and (partition.latest is None or record.wm > partition.latest):
            yield from self._reach(partition, record.wm)

    def _batch(self, position: int, batch: Batch, partition: Partition) -> Generator[Cut, None, int]:
        """Accept the staged rows, and return how many.

        These are fewer than all where a cut removed cases: the others must then be staged again.
        """
        row = 0
        # Removing cases assigns new codes, and the staged rows still carry the old ones.
        recoded_when_staged = self.state.recoded
        while row < len(batch) and self.state.recoded == recoded_when_staged:
            stop = self._rows.next_stop(batch, row)
            may_fire = stop == row or self._completions.exact
            if stop == row:
                # The time of this row may bring cuts, which come before the row is accepted.
                self._cutter.set_place(position, int(batch.rows[row]))
                yield from self._reach(partition, int(batch.times[row]))
                if self.state.recoded != recoded_when_staged:
                    break
                stop = row + 1
            row = self._rows.take(batch, row, stop, partition)
            if may_fire:
                self._cutter.set_place(position, int(batch.rows[row - 1]))
                yield from self._cutter.evaluate()
        return row

    # time

    def _reach(self, partition: Partition, time: int) -> Iterator[Cut]:
        """Move the clocks to the time of an event, before the event is accepted.

        Deadlines up to that time fire first.
        """
        self.state.reach_back(time)
        if self.rules.embedded:
            if self.now is None or time > self.now:
                yield from self._run_until(time)
        else:
            partition.reach_time(time)
            yield from self._complete_by_watermark()
        partition.active = self.now
        yield from self._cutter.evaluate()

    def _run_until(self, time: int) -> Iterator[Cut]:
        """Stop at each deadline up to `time`, as if a tick came exactly then, and end there."""
        while (deadline := self.next_deadline()) is not None and deadline <= time:
            self.clocks.reach(deadline)
            yield from self._complete_by_clock()
            yield from self._cutter.evaluate()
        self.clocks.reach(time)
        yield from self._complete_by_clock()

    def _tick(self, at: int) -> Iterator[Cut]:
        if self.now is None and self.rules.private and not self.rules.embedded:
            # the clock starts here: deadlines before it come from events (a case that became silent, for example), and
            # no window of a dp release may open at one of them
            self.clocks.reach(at)
            yield from self._complete_by_clock()
        elif self.now is None or at > self.now:
            yield from self._run_until(at)
        yield from self._cutter.evaluate()

    # completion, where its moment matters

    def _complete_by_watermark(self) -> Iterator[Cut]:
        while (case := self._completions.next_by_watermark()) is not None:
            self._rows.close(case)
            yield from self._cutter.evaluate()

    def _complete_by_clock(self) -> Iterator[Cut]:
        while (case := self._completions.next_by_clock()) is not None:
            self._rows.close(case)
            yield from self._cutter.evaluate()

    # commands

    def _command(self, command: Command) -> Iterator[Cut]:
        name, wanted = command.name, command.publication
        if wanted is not None and wanted not in self.publications:
            raise InputError(f"command {name!r}: there is no publication {wanted!r}")
        chosen = [rules for rules in self.rules.publications if wanted in (None, rules.name)]
        if name == "release":
            for rules in chosen:
                if not self.gap and not self.publications[rules.name].paused:
                    yield from self._cutter.force(rules, "manual")
        elif name in ("pause", "resume"):
            for rules in chosen:
                self.publications[rules.name].paused = name == "pause"
        elif name == "erase":
            self.erase([str(case) for case in command.arguments.get("cases", ())])
        elif name == "gap":
            yield from self._mend(command.arguments)
        elif name not in ("approve", "reject"):  # they bear on what was cut, and move nothing
            commands = "release, pause, resume, erase, gap, approve, reject"
            raise InputError(f"command {name!r} is unknown; known are {commands}")
        yield from self._cutter.evaluate()

    def _mend(self, arguments: Mapping[str, Any]) -> Iterator[Cut]:
        """Obey `gap rewind` (the held records will come again) or `gap accept` (the missing events stay missing)."""
        for name, partition in self.state.partitions.items():
            if not partition.gap or (arguments.get("src", name[0]), arguments.get("p", name[1])) != name:
                continue
            if arguments.get("action") == "accept":
                partition.begin_anew(partition.held[0][1])
                partition.accept_gap = True
                yield from self._unhold(self._cutter.place[0], partition)
            elif arguments.get("action") == "rewind":
                partition.begin_anew(partition.held[-1][1])
                partition.held = []
            else:
                raise InputError("command 'gap': action must be rewind or accept")

    def _configure(self, record: Config) -> Iterator[Cut]:
        rules = FoldRules.from_mapping(record.body)
        if self.key and rules.key not in ("", self.key):
            raise RefusedError("a config record names another pseudonym key: the same case would count as two")
        self._install(rules)
        yield from self._cutter.evaluate()

    def finish(self, *, final: bool = False) -> Iterator[Cut]:
        """Take the cuts after the last event of a log (replay only).

        These are the lockstep releases, and with `final` one for all events that are left.
        """
        for rules in self.rules.publications:
            rule, counters = rules.window.events_per_case, self.publications[rules.name]
            if rule is not None and rule.lockstep:
                while self._publications.waiting(rules.name) and counters.cuts < rule.releases:
                    yield from self._cutter.force(rules, "lockstep" if counters.first_done else "first")
            elif final and (rules.private or self._publications.waiting(rules.name)):
                # for a dp release, whether events wait depends on the data: its final cut is always taken
                yield from self._cutter.force(rules, "final")

    # snapshots

    def snapshot(self) -> bytes:
        """Return the whole state, between two records.

        Raises
        ------
        RefusedError
            While a cut is undecided.
        """
        self._refuse_undecided()
        return encode(
            {
                "rules": self.rules.to_mapping(),
                "state": dump_state(self.state),
                "publications": [counters.to_state() for _, counters in self._publications],
                **self._place(),
            }
        )

    def marks(self) -> Marks:
        """Note the state as it is now, for `changes` later.

        Raises
        ------
        RefusedError
            While a cut is undecided.
        """
        self._refuse_undecided()
        return marks(self.rules, self.state, self.publications)

    def changes(self, since: Marks) -> StateChange | None:
        """Return what changed since `since`.

        `stream.fold.snapshot.merged` makes, of the snapshot of then, the snapshot of now.

        Returns
        -------
        StateChange or None
            None if only a whole snapshot can tell it, because rules were replaced or cases left.

        Raises
        ------
        RefusedError
            While a cut is undecided.
        """
        self._refuse_undecided()
        if not since.comparable(self.rules, self.state):
            return None
        publications = {counters.name: counters for _, counters in self._publications}
        some = [*changes(since, publications), update_patch([], self._place())]
        return StateChange(encode_patches(some), added(some))

    def _place(self) -> dict[str, int | str | None]:
        return {"now": self.now, "position": self.position, "key": self.key}

    def _refuse_undecided(self) -> None:
        if self._cutter.open_cut is not None:
            raise RefusedError(f"cut {self._cutter.open_cut.id} is undecided: a snapshot would pass it")

    @classmethod
    def restore(cls, raw: bytes) -> Fold:
        """Return the fold that `snapshot` saw.

        Raises
        ------
        RefusedError
            For bytes of another kind or version.
        """
        table = decode(raw)
        publications = [PublicationState.from_state(counters) for counters in table["publications"]]
        restored_state = Restored(
            load_state(table["state"]), publications, table["now"], table["position"], table["key"]
        )
        return cls(FoldRules.from_mapping(table["rules"]), restored=restored_state)
