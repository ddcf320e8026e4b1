"""Sources whose logs are created again or lose their tail: nothing that a log holds in the end is missed or doubled."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import Command, Delta, Heartbeat, Row
from stream.fold.rules import FoldRules, PublicationRules
from tests.conftest import examples
from tests.oracles.fold import Oracle
from tests.oracles.fold_runs import S, run

SOURCE = ("s", 0)


@dataclass
class Log:
    """A partition as a broker has it: records under leader epochs, an id, and a tail that can be lost."""

    id: int = 0
    epoch: int = 0
    begins: list = field(default_factory=lambda: [(0, 0)])
    records: list = field(default_factory=list)

    def elect(self):
        self.epoch += 1
        self.begins = [(epoch, begin) for epoch, begin in self.begins if begin < len(self.records)]
        self.begins.append((self.epoch, len(self.records)))


@dataclass
class World:
    """A source, a worker that reads it as ours does, and the fold; a gap is mended by `gap rewind` at once."""

    fold: Fold
    log: Log = field(default_factory=Log)
    position: int = 0
    reported: tuple = ()
    made: int = 0
    place: int = 0
    alarms: int = 0

    def append(self, count):
        for _ in range(count):
            self.log.records.append((self.log.epoch, self.made))
            self.made += 1

    def cut(self, keep):
        del self.log.records[keep % (len(self.log.records) + 1) :]
        self.log.elect()

    def recreate(self, _):
        self.log = Log(id=self.log.id + 1)

    def elect(self, _):
        self.log.elect()

    def restart(self, _):
        self.reported = ()

    def read(self, count):
        """Take up to `count` records, one leader's at a time; a position behind the end begins again at 0."""
        end, at = None, self.position
        if at > len(self.log.records):
            end, at = len(self.log.records), 0
        rows = self.log.records[at : at + count]
        rows = [row for row in rows if row[0] == rows[0][0]]
        about = {"log": f"id{self.log.id}", "epoch": rows[-1][0] if rows else -1}
        if self.reported != (self.log.id, tuple(self.log.begins)) or end is not None:
            about |= {"epochs": tuple(self.log.begins), "end": end}
            self.reported = (self.log.id, tuple(self.log.begins))
        if not rows:
            self.feed(Delta(src="s", p=0, prev=-1, last=-1, n=0, **about))
            if end is not None:
                self.position = 0
            else:
                self.feed(Heartbeat(src="s", p=0, at=0, last=at - 1))
            return
        made = [Row(at + i, f"c{event}", "a", event * S) for i, (_, event) in enumerate(rows)]
        self.feed(Delta(src="s", p=0, prev=at - 1, last=at + len(rows) - 1, n=len(rows), rows=made, **about))
        self.position = at + len(rows)

    def feed(self, record):
        list(self.fold.apply(self.place, record))
        self.place += 1
        while self.fold.gap:
            self.alarms += 1
            partition = self.fold.state.partitions[SOURCE]
            self.position, self.reported = partition.missing[0], ()
            list(self.fold.apply(self.place, Command(name="gap", arguments={"action": "rewind"})))
            self.place += 1
            self.fold = Fold.restore(self.fold.snapshot())


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["append", "read"]), st.integers(1, 6)),
        st.tuples(st.sampled_from(["cut", "recreate", "elect", "restart"]), st.integers(0, 9)),
    ),
    max_size=30,
)


@examples(400)
@given(STEPS)
@example([("append", 2), ("read", 2), ("cut", 1), ("read", 1), ("cut", 0), ("append", 1)])  # lost again after a rewind
def test_whatever_becomes_of_a_log_every_event_that_it_holds_is_folded_once(steps):
    """Appends, reads, clean elections, lost tails and new topics in any order, each alarm answered by a rewind."""
    world = World(Fold(FoldRules((PublicationRules("p", read_window({"manual": True})),))))
    for step, number in steps:
        getattr(world, step)(number)
    for _ in range(2 * len(world.log.records) + 4):
        world.read(6)
    state = world.fold.state
    names = state.index.names(state.cases.size)
    assert {f"c{event}" for _, event in world.log.records} <= set(names)
    assert state.events.size == len(names)


@examples(100)
@given(STEPS.map(lambda steps: [one for one in steps if one[0] in ("append", "read", "elect", "restart")]))
def test_clean_elections_and_restarts_raise_no_alarm(steps):
    """Another leader with the same log is not a gap: an alarm that cries often is not heard."""
    world = World(Fold(FoldRules((PublicationRules("p", read_window({"manual": True})),))))
    for step, number in steps:
        getattr(world, step)(number)
    assert world.alarms == 0


EVENTS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.integers(0, 3)), min_size=1, max_size=12)


@examples(100)
@given(EVENTS, EVENTS, st.booleans(), st.integers(0, 11), st.sampled_from([{"new_cases": 2}, {"new_events": 3}]))
def test_an_accepted_log_cuts_as_the_oracle_does(before, after, recreated, keep, window):
    """The rows of a log that was created again, or cut and written again, are new events and no repeats."""
    made = FoldRules((PublicationRules("p", read_window(window)),))
    oracle, records, clock = Oracle(made), [], 0

    def rows(events, first):
        nonlocal clock
        for offset, (case, activity, gap) in enumerate(events, start=first):
            clock += gap * S
            yield Row(offset, f"c{case}", activity, clock)

    def give(found, **about):
        first, last = found[0].offset, found[-1].offset
        for row in found:
            oracle.event(SOURCE, row)
        records.append(Delta(src="s", p=0, prev=first - 1, last=last, n=len(found), rows=found, **about))

    give(list(rows(before, 0)), log="one", epoch=3, epochs=((3, 0),))
    first = 0 if recreated else keep % len(before)
    oracle.lose(SOURCE, first)
    later = {"log": "two", "epoch": 0} if recreated else {"log": "one", "epoch": 4, "epochs": ((3, 0), (4, first))}
    give(list(rows(after, first)), **later)
    records.append(Command(name="gap", arguments={"action": "accept"}))
    assert run(Fold(made), enumerate(records)) == oracle.cuts
