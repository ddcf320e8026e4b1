"""The loop of replay and daemon: what it does in which order, and where it leaves the state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from models.errors import InputError
from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Command, Cut, Delta, Outcome, Tick
from stream.fold.rules import FoldRules, PublicationRules
from stream.run.runner import Arrival, Runner

S = 1_000_000_000


def delta(first: int, count: int) -> Delta:
    rows = [(first + i, f"c{first + i}", "a", (first + i) * S, None, None, None, False) for i in range(count)]
    return Delta(src="s", p=0, prev=first - 1, last=first + count - 1, n=count, rows=rows)


class Listed:
    """A source over records at positions 0, 1, 2, ..."""

    def __init__(self, *records: AnyRecord) -> None:
        self.records = records

    def after(self, position: int) -> Iterator[Arrival]:
        for here, record in enumerate(self.records):
            if here > position:
                yield Arrival(here, record, len(record.rows) if isinstance(record, Delta) else 0)


class RecordedLoop:
    """Writes down what the loop asks for; `erased`: it saves by itself after a record, as after an erasure."""

    def __init__(self, new_events: int, every: int, *, erased: bool = False) -> None:
        fold = Fold(FoldRules((PublicationRules("p", read_window({"new_events": new_events})),)))
        self.runner = Runner(fold, self, every=every)
        self.steps: list[str] = []
        self.erased = erased

    def before(self, arrival: Arrival) -> None:
        self.steps.append(f"before {arrival.position}")
        if isinstance(arrival.record, Command) and arrival.record.name == "erase":
            raise InputError("another key")

    def refused(self, arrival: Arrival, error: InputError) -> None:
        self.steps.append(f"refused {arrival.position}: {error}")

    def decide(self, cut: Cut) -> None:
        self.steps.append(f"decide {cut.id}")
        self.runner.fold.decided(cut, released=True)

    def settled(self) -> None:
        self.steps.append("settled" if not self.runner.between_records else "settled too late")

    def folded(self, arrival: Arrival) -> bool:
        self.steps.append(f"folded {self.runner.position}")
        return self.erased

    def save(self) -> None:
        self.steps.append(f"save {self.runner.position}")

    def saves(self) -> list[str]:
        return [step for step in self.steps if step.startswith("save")]


def test_a_cut_is_decided_before_the_state_is_saved() -> None:
    """Fold, decide, settle, and the state is saved behind the record only."""
    recorder = RecordedLoop(2, 100)
    recorder.runner.run(Listed(delta(0, 1), delta(1, 1)))
    assert recorder.steps == [
        *("before 0", "settled", "folded 0"),
        *("before 1", "decide p/1/0/0", "settled", "folded 1", "save 1"),
    ]


def test_the_state_is_saved_after_so_many_events_and_the_count_restarts() -> None:
    """Records without a cut; ticks are not events."""
    recorder = RecordedLoop(100, 4)
    recorder.runner.run(Listed(delta(0, 3), Tick(at=3 * S), delta(3, 3), delta(6, 3), delta(9, 3)))
    assert recorder.saves() == ["save 2", "save 4"]


def test_what_the_host_saved_is_not_saved_again() -> None:
    """After an erasure the host writes every generation itself."""
    recorder = RecordedLoop(2, 1, erased=True)
    recorder.runner.run(Listed(delta(0, 2), delta(2, 2)))
    assert recorder.saves() == []


@pytest.mark.parametrize("command", [Command(name="erase"), Command(name="dance")])
def test_a_command_that_cannot_be_obeyed_is_left_out(command: Command) -> None:
    """Refused by the host or by the fold: the position continues, and so does the stream."""
    recorder = RecordedLoop(2, 100)
    recorder.runner.run(Listed(delta(0, 1), command, delta(1, 1)))
    assert [step.split(":")[0] for step in recorder.steps if step.startswith("refused")] == ["refused 1"]
    assert recorder.saves() == ["save 2"]


def test_an_error_amid_a_record_leaves_the_state_marked() -> None:
    """The position is of the record before, and the state is not whole: it must not be saved."""
    recorder = RecordedLoop(2, 100)

    def failing(_cut: Cut) -> None:
        raise OSError("the disk is full")

    recorder.decide = failing  # type: ignore[method-assign]
    with pytest.raises(OSError, match="full"):
        recorder.runner.run(Listed(delta(0, 1), delta(1, 1)))
    assert (recorder.runner.position, recorder.runner.between_records, recorder.saves()) == (0, False, [])


def test_a_stop_is_obeyed_between_records_and_the_next_run_goes_on_there() -> None:
    """Records that the state has are not taken twice."""
    recorder, source = RecordedLoop(100, 100), Listed(delta(0, 1), delta(1, 1), delta(2, 1))
    recorder.runner.run(source, lambda: recorder.runner.position >= 1)
    assert (recorder.runner.position, recorder.runner.between_records) == (1, True)
    recorder.runner.run(source)
    assert recorder.runner.position == 2
    assert recorder.runner.fold.accounting("p")["seen"] == 3


class Awaited:
    """A decision that comes when the test says so; it fails if `error` is set."""

    def __init__(self) -> None:
        self.has_come = False
        self.error: Exception | None = None

    def done(self) -> bool:
        return self.has_come

    def result(self) -> Outcome:
        if self.error is not None:
            raise self.error
        return Outcome(released=True)


class DeferringLoop(RecordedLoop):
    """Defers the decision on each cut."""

    def __init__(self, new_events: int, every: int) -> None:
        super().__init__(new_events, every)
        self.decision = Awaited()

    def decide(self, cut: Cut) -> None:
        self.steps.append(f"decide {cut.id}")
        self.runner.fold.defer(cut, self.decision)


def test_no_state_is_saved_until_a_deferred_decision_was_taken() -> None:
    """Records behind the cut are folded, more than `every` events too; then one save has all of them."""
    recorder = DeferringLoop(2, 3)
    recorder.runner.run(Listed(delta(0, 2), *(Tick(at=n * S) for n in range(2, 6)), delta(2, 1)))
    assert (recorder.runner.position, recorder.saves()) == (5, [])
    assert not recorder.runner.settle()
    recorder.decision.has_come = True
    recorder.runner.run(Listed(*[Tick(at=9 * S)] * 8))
    assert recorder.saves() == ["save 6"]


def test_a_decision_is_taken_while_no_record_comes() -> None:
    """The caller saves the state then, and the loop does not save it again."""
    recorder = DeferringLoop(2, 100)
    recorder.runner.run(Listed(delta(0, 2)))
    recorder.decision.has_come = True
    recorder.steps.clear()
    assert recorder.runner.settle()
    assert not recorder.runner.fold.awaits_decision
    assert recorder.steps == ["settled"]
    recorder.runner.run(Listed(delta(0, 2), Tick(at=9 * S)))
    assert recorder.saves() == []


def test_a_command_waits_for_the_decision() -> None:
    """It is executed behind the decision, and not before."""
    recorder = DeferringLoop(2, 100)
    awaited: list[bool] = []
    before = recorder.before

    def noted(arrival: Arrival) -> None:
        awaited.append(recorder.runner.fold.awaits_decision)
        before(arrival)

    recorder.before = noted  # type: ignore[method-assign]
    recorder.runner.run(Listed(delta(0, 2), Tick(at=5 * S), Command(name="pause")))
    assert awaited == [False, True, False]
    assert recorder.saves() == ["save 2"]


@pytest.mark.parametrize("record", [Tick(at=9 * S), Command(name="pause"), delta(2, 2), Command(name="release")])
def test_the_error_of_a_decision_ends_the_loop_and_nothing_is_saved(record: AnyRecord) -> None:
    """Also an input error, which would only skip a command that is itself wrong; also where the next cut waits."""
    recorder = DeferringLoop(2, 1)
    recorder.runner.run(Listed(delta(0, 2)))
    recorder.decision.error = InputError("the log has no activity")
    recorder.decision.has_come = not isinstance(record, Delta)
    with pytest.raises(InputError, match="no activity"):
        recorder.runner.run(Listed(delta(0, 2), record))
    assert (recorder.runner.position, recorder.runner.between_records, recorder.saves()) == (0, False, [])
    assert not recorder.runner.settle(wait=True)


def test_the_error_of_a_decision_at_the_second_cut_of_a_command_is_no_refusal() -> None:
    """`release` of two publications: the second cut waits for the first, whose build fails."""
    recorder = DeferringLoop(100, 100)
    window = read_window({"manual": True})
    fold = Fold(FoldRules((PublicationRules("p", window), PublicationRules("q", window))))
    recorder.runner = Runner(fold, recorder, every=100)
    recorder.decision.error = InputError("the log has no activity")
    with pytest.raises(InputError, match="no activity"):
        recorder.runner.run(Listed(delta(0, 2), Command(name="release")))
    assert [step for step in recorder.steps if step.startswith("refused")] == []
