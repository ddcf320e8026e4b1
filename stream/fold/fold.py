"""The deterministic fold: records of the delta topic in, cuts out. No clock, no file, no ledger.

State and cuts depend on nothing but the rules and the order of the records.

Few rows of a delta can bring a cut. All rows between two of them are accepted at once, over columns:

1. `State.batches` writes the rows of a record into columns, behind the rows in use (it *stages* them). No
   count has them yet.
2. `Fold._next_stop` computes the first row that could bring a cut: the row at which a counting trigger may
   hold, or at whose time a window closes, a case falls silent, or a deadline passes.
3. `Fold._accept` accepts all rows before this one, without a look at the triggers.
4. It moves the clocks to the time of this row, accepts the row alone, and looks at the triggers before and
   after. Then it continues with step 2.

If a trigger counts completed cases, step 3 reads the rows one by one (`Completions.count`), because each
may complete its case or reopen it.

Sections of `Fold`: parts and questions; records (`apply` and the steps above); time (deadlines that pass
without an event); commands of an operator and the end of a log; snapshots.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from models.errors import InputError, RefusedError
from stream.fold.completion import Completions, Retention
from stream.fold.cutting import Cutter, LaterDecision
from stream.fold.exposure import Projection
from stream.fold.named_events import NamedEvents
from stream.fold.records import TIMES, AnyRecord, Command, Config, Cut, Delta, Heartbeat, Outcome, Tick
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
from stream.fold.state import Batch, Partition, State
from stream.fold.triggers import NEVER, Clocks, Publications, PublicationState
from stream.values.memory import Bytes
from stream.values.paged import HEAP, ColumnPlace

__all__ = ["Cut", "Fold"]

LOCKSTEP_RELEASES = 5
"""Most releases of a replay in lockstep, as in section 5 of temporal-privacy-leakage-2022."""


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

    `apply` is a generator: before the caller takes the next cut, it must decide the last one (`decided`, once the
    decision is durable), or take its log (`exposed`) and decide it later (`defer`). It may take a snapshot between two
    records only, and not while a decision is awaited.

    Each part owns its state: `state` events, cases and partitions; `clocks` the time; `publications` the counters of
    each publication; `completions` which cases are complete; `cutter` the open cut. `retention` removes cases. New
    rules go to each of them (`install`).
    """

    def __init__(
        self,
        rules: FoldRules,
        facts: LogFacts | None = None,
        restored: Restored | None = None,
    ) -> None:
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
        self._publications.recount()

    def _install(self, rules: FoldRules) -> None:
        """Give new rules to every part; then derive the counters from the new state of the parts."""
        self.rules = rules
        self.state.install(rules)
        self.clocks.install(rules)
        self._publications.install(rules)
        self._completions.install(rules)
        self._retention.install(rules)
        self._cutter.install(rules)
        self._publications.recount()

    # questions

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

    @property
    def dropped(self) -> list[NamedEvents]:
        """Events that left the state for the archive, since the caller last cleared the list.

        They must be durable before a state without them is.
        """
        return self._retention.dropped

    def next_deadline(self) -> int | None:
        """Return the next moment (ns) after `now` at which a tick alone could bring a cut or a completion."""
        bound = min(self._completions.next_deadline(), self._publications.next_deadline())
        return None if bound == NEVER else bound

    def accounting(self, publication: str) -> dict[str, int]:
        """Return where every accepted event is (`Publications.accounting`)."""
        return self._publications.accounting(publication)

    def exposed(self, cut: Cut, place: ColumnPlace = HEAP) -> Projection:
        """Return the log that the open cut exposes: all events of the publication exposed so far.

        `place`: where its columns stay, in the heap or in files.
        """
        return self._cutter.exposed(cut, place)

    def decided(self, cut: Cut, released: bool, shown: Collection[str] = ()) -> None:
        """Record that the publication's decision on the open cut is durable.

        Parameters
        ----------
        cut
            The open cut.
        released, shown
            As of `Outcome`.
        """
        self._cutter.decided(cut, Outcome(released, shown))

    def defer(self, cut: Cut, decision: LaterDecision) -> None:
        """Continue behind the open cut before it is decided; its log was taken (`exposed`).

        Cuts and state do not depend on when the decision comes. The next cut waits for it. The caller takes it
        (`take_decision`) before a command, a configuration or a snapshot.

        Parameters
        ----------
        cut
            The open cut.
        decision
            Its decision, which another thread makes.
        """
        self._cutter.defer(cut, decision)

    @property
    def awaits_decision(self) -> bool:
        """Whether the decision on a deferred cut was not taken yet."""
        return self._cutter.deferred is not None

    @property
    def decision_has_come(self) -> bool:
        """Whether the decision on a deferred cut, or the error that ended it, can be taken without a wait."""
        deferred = self._cutter.deferred
        return deferred is not None and deferred.decision.done()

    def take_decision(self) -> None:
        """Take the decision on the deferred cut, if there is one; wait for it if it has not come.

        An error of the decision is raised. The fold then takes no snapshot any more.
        """
        self._cutter.take_decision()

    def erase(self, cases: Sequence[str]) -> int:
        """Remove cases by pseudonym, for good; their events are refused from now on.

        Returns
        -------
        int
            How many of them were in the state, or were forgotten.
        """
        return self._retention.erase(cases)

    def count_known(self, cases: Sequence[str]) -> int:
        """Return how many of the cases (by pseudonym) `erase` would remove."""
        return self._retention.count_known(cases)

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
        if isinstance(record, Command | Config) and self.awaits_decision:
            raise RefusedError("a command or a configuration came before the decision on a cut")
        if isinstance(record, Delta):
            yield from self._delta(position, record)
        else:
            self._cutter.place = position, 0
            if isinstance(record, Tick):
                yield from self._tick(record.at)
            elif isinstance(record, Heartbeat):
                partition = self.state.partition((record.src, record.p))
                if partition.active is None:
                    partition.active = record.at
                self._detect_lost_delta(position, record, partition)
                if self.rules.private:
                    # Events decide which partitions are idle, and for dp releases only ticks may move the clock.
                    yield from self._cutter.evaluate()
                else:
                    yield from self._tick(record.at)
            elif isinstance(record, Command):
                yield from self._command(record)
            elif isinstance(record, Config):
                yield from self._configure(record)
        self.position = max(self.position, position)

    def _delta(self, position: int, record: Delta) -> Iterator[Cut]:
        self.key = self.key or record.key
        if record.key != self.key:
            # One person under two keys would count as two, and K would be reached with fewer persons.
            self.state.skip_foreign(record)
            return
        yield from self._fold(position, self.state.receive(position, record))

    def _fold(self, position: int, ready: Iterator[tuple[Partition, Delta]]) -> Iterator[Cut]:
        """Fold records of one partition, batch by batch.

        `ready` yields the next record once the one before it is folded: a record may close a gap, and so make other
        records ready that waited behind it. All cuts get the position of the record that arrived last.
        """
        gap_was_open = self.gap
        for partition, record in ready:
            for batch in self.state.batches(record, partition):
                yield from self._accept(position, batch, partition)
            self._cutter.place = position, len(record.rows)
            watermark = record.wm
            if watermark is None or watermark not in TIMES:
                continue
            # The watermark of a record may be later than the times of its events.
            if partition.latest is None or watermark > partition.latest:
                yield from self._reach(partition, watermark)
        if gap_was_open and not self.gap:
            self._cutter.place = position, 0
            yield from self._cutter.evaluate()

    def _accept(self, position: int, batch: Batch, partition: Partition) -> Iterator[Cut]:
        """Accept the staged rows: all at once up to the next one that could bring a cut, and that one alone.

        If completions are counted, it stops earlier: behind a row at which a trigger that counts them may
        hold, and before a row at whose time a case falls silent. It ends early if a cut removed or settled
        cases (`voided`): the staged rows then carry old codes, and those behind the cut must be staged
        again.
        """
        voided_before = self.state.voided
        while batch.accepted < len(batch):
            begin = batch.accepted
            end = self._next_stop(batch, begin)
            is_alone = end == begin
            if is_alone:
                # The time of this row may bring cuts, which come before the row is accepted.
                self._cutter.place = position, int(batch.rows[begin])
                yield from self._reach(partition, int(batch.times[begin]))
                if self.state.voided != voided_before:
                    batch.void_from = int(batch.rows[begin])
                    return
                end = begin + 1

            # Completions are counted first: they need the state of the cases without these rows, and may
            # end the range.
            goal = self._publications.missing_completions()
            growths = self._publications.growths()
            end, n_completed, closed = self._completions.count(batch, begin, end, goal, growths)
            self.state.admit(batch, begin, end, self.clocks.arrival, closed)

            latest_time = int(batch.running[end - 1])
            partition.reach_time(latest_time)
            partition.hwm = int(batch.offsets[end - 1])
            if self.rules.embedded:
                self.clocks.tick(latest_time)
            partition.active = self.clocks.now

            self._publications.count(batch, begin, end, partition, n_completed)
            for growth in growths:
                growth.flush(self.state.cases)
            batch.accepted = end

            # Rows before a stop bring no cut, except where completions are counted.
            if is_alone or self._completions.counts_completions:
                self._cutter.place = position, int(batch.rows[end - 1])
                yield from self._cutter.evaluate()
                if self.state.voided != voided_before:
                    batch.void_from = int(batch.rows[end - 1]) + 1
                    return

    def _next_stop(self, batch: Batch, row: int) -> int:
        """Return the first row from `row` on that could bring a cut, or that must be accepted alone.

        The rows before it can be accepted together.
        """
        if self._completions.counts_completions and not self._completions_follow_order(batch, row):
            return row
        if self.state.earliest is None:
            return row  # windows begin with the first event of all

        # By counts: the first row with which a publication may have enough new cases or events.
        stop = len(batch)
        for rules, counters in self._publications:
            if counters.window_end is None and rules.window.every is not None:
                return row  # the time of the next row may open the first window
            unseen = self._publications.rows_with_unseen_case(rules, counters, batch, row)
            stop = min(stop, row + counters.rows_until(rules, unseen, len(batch) - row))

        # By time: the first row that reaches the end of a window, the silence of a case, or
        # (embedded) a deadline.
        next_time = NEVER
        for rules, counters in self._publications:
            next_time = min(next_time, counters.window_bound(rules))
        if self._completions.counts_completions:
            next_silence, _ = self._completions.next_silence()
            next_time = min(next_time, next_silence)
        if self.rules.embedded:
            deadline = self.next_deadline()
            if deadline is not None:
                next_time = min(next_time, deadline)
        stop = min(stop, batch.first_at(next_time))
        return max(stop, row)

    def _completions_follow_order(self, batch: Batch, row: int) -> bool:
        """Return whether completions of several rows can be counted in their order, before they are accepted.

        This needs one partition whose times do not go back. Then each row is the last event of its case so
        far, so the flag on the row decides whether the case is complete; and no case of these rows can be
        silent, because the watermark is the time of the row. Every `max_wait` must run already: it starts
        with a row that is accepted alone, since the clock at that row matters.
        """
        for rules, counters in self._publications:
            if rules.window.only_events_per_case and counters.waiting_since is None:
                return False
        one_ordered_partition = self.state.ordered and len(self.state.partitions) == 1 and not self.gap
        if not one_ordered_partition:
            return False
        return batch.ordered and bool(batch.times[row] >= self.state.latest)

    def _detect_lost_delta(self, position: int, idle: Heartbeat, partition: Partition) -> None:
        """Open a gap if an idle partition reports a higher last offset than the state has.

        In that case a delta was lost, and no later delta shows it.
        """
        if idle.last is not None and idle.last > partition.hwm and not partition.held:
            last = idle.last
            empty = Delta(src=idle.src, p=idle.p, prev=last, last=last, n=0, key=self.key, log=partition.log)
            partition.held.append((position, empty))

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
            while (case := self._completions.next_by_watermark()) is not None:
                self._close(case)
                yield from self._cutter.evaluate()
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
            # The clock starts here. Deadlines before it depend on events (a case that became silent, for example), and
            # no window of a dp release may open at such a deadline.
            self.clocks.reach(at)
            yield from self._complete_by_clock()
        elif self.now is None or at > self.now:
            yield from self._run_until(at)
        yield from self._cutter.evaluate()

    def _complete_by_clock(self) -> Iterator[Cut]:
        while (case := self._completions.next_by_clock()) is not None:
            self._close(case)
            yield from self._cutter.evaluate()

    def _close(self, case: int) -> None:
        """Complete an open case that has become silent."""
        for growth in self._publications.growths():
            growth.count(case, 0, before=False, closed=True)
            growth.flush(self.state.cases)
        self._completions.close(case)
        self._publications.count_completed(1)

    # commands

    def _command(self, command: Command) -> Iterator[Cut]:
        name, publication = command.name, command.publication
        if publication is not None and publication not in self.publications:
            raise InputError(f"command {name!r}: there is no publication {publication!r}")
        chosen = [rules for rules in self.rules.publications if publication in (None, rules.name)]
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
            yield from self._resolve_gap(command.arguments)
        # `approve` and `reject` concern releases that were cut, and change no state here.
        elif name not in ("approve", "reject"):
            commands = "release, pause, resume, erase, gap, approve, reject"
            raise InputError(f"command {name!r} is unknown; known are {commands}")
        yield from self._cutter.evaluate()

    def _resolve_gap(self, arguments: Mapping[str, Any]) -> Iterator[Cut]:
        """Carry out `gap rewind` (the held records come again) or `gap accept` (the missing events stay missing)."""
        action = arguments.get("action")
        for (source, number), partition in self.state.partitions.items():
            # A command that names no source or no partition means all of them.
            is_source = arguments.get("src", source) == source
            is_number = arguments.get("p", number) == number
            if not partition.gap or not is_source or not is_number:
                continue
            if action == "accept":
                partition.continue_from(partition.held[0][1])
                partition.accept_gap = True
                yield from self._fold(self._cutter.place[0], self.state.closed(partition))
            elif action == "rewind":
                partition.continue_from(partition.held[-1][1])
                partition.held = []
            else:
                raise InputError("command 'gap': action must be rewind or accept")

    def _configure(self, record: Config) -> Iterator[Cut]:
        rules = FoldRules.from_mapping(record.body)
        if self.key and rules.key not in ("", self.key):
            raise RefusedError("a config record names another pseudonym key: the same case would count as two")
        # A publication that the record adds shows no case that all others have cut.
        self._retention.forget(archive=rules.archive)
        self._install(rules)
        yield from self._cutter.evaluate()

    def finish(self, *, final: bool = False, holding: Collection[str] = ()) -> Iterator[Cut]:
        """Take the cuts after the last event of a log (replay only).

        These are the lockstep releases, and with `final` one for all events that are left.

        Parameters
        ----------
        final
            Whether the end of the log makes a last cut.
        holding
            Publications that keep cases of earlier cuts for a later one: they get their last cut even if the last
            event of the log closed a window.
        """
        if self.rules.embedded:
            # A fold that was restored behind the last event must name these cuts as the first run did: a cut with
            # another name would be decided again, and a dp release paid for again.
            last_ranks = [partition.hwm for partition in self.state.partitions.values()]
            self._cutter.place = max(last_ranks, default=-1) + 1, 0
        for rules in self.rules.publications:
            name, rule = rules.name, rules.window.events_per_case
            counters = self.publications[name]
            if rule is not None and rule.lockstep:
                while self._publications.waiting(name) and counters.cuts < LOCKSTEP_RELEASES:
                    trigger = "lockstep" if counters.first_done else "first"
                    yield from self._cutter.force(rules, trigger)
                continue
            # Whether events wait depends on the data, so a dp publication always gets its final cut.
            has_final_cut = rules.private or name in holding or self._publications.waiting(name)
            if final and has_final_cut:
                yield from self._cutter.force(rules, "final")

    # snapshots

    def snapshot(self) -> bytes:
        """Return the whole state, between two records; RefusedError while a cut is undecided."""
        return b"".join(self.snapshot_parts())

    def snapshot_parts(self) -> list[Bytes]:
        """Return the whole state in parts, between two records. Columns are parts themselves, without a copy.

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
                **self._clock_and_place(),
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
        """Return the changes since `since`.

        `stream.fold.snapshot.merged` applies them to the snapshot of that moment, and returns the present snapshot.

        Returns
        -------
        StateChange or None
            None if only a whole snapshot can represent the change, because rules were replaced or cases left.

        Raises
        ------
        RefusedError
            While a cut is undecided.
        """
        self._refuse_undecided()
        if not since.comparable(self.rules, self.state):
            return None
        publications = {counters.name: counters for _, counters in self._publications}
        patches = [*changes(since, publications), update_patch([], self._clock_and_place())]
        return StateChange(encode_patches(patches), added(patches))

    def _clock_and_place(self) -> dict[str, int | str | None]:
        return {"now": self.now, "position": self.position, "key": self.key}

    def _refuse_undecided(self) -> None:
        deferred = self._cutter.deferred
        cut = self._cutter.open_cut if deferred is None else deferred.cut
        if cut is not None:
            raise RefusedError(f"cut {cut.id} is undecided: a snapshot would pass it")

    @classmethod
    def restore(cls, raw: Bytes) -> Fold:
        """Return the fold of a snapshot.

        A snapshot in scratch memory is released while it is read, so it can be restored once.

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
