"""When a state is saved whole and when as a change, and what is then left of cases that went."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import Command, Config, Delta, Row, Tick
from stream.fold.rules import FoldRules, PublicationRules
from stream.ledger.change_log import logs
from stream.ledger.checkpoints import Checkpoints, SavedState
from stream.run.keeper import StateKeeper
from tests.oracles.fold_runs import S

WINDOW = read_window({"manual": True})


class Process:
    """A fold and its keeper; case n has one event, at second n."""

    def __init__(self, folder: Path, retention: int | None = None, oldest: float = float("inf")) -> None:
        self.checkpoints = Checkpoints(folder)
        self.keeper = StateKeeper(self.checkpoints, oldest)
        loaded = self.checkpoints.load()
        rules = FoldRules((PublicationRules("p", WINDOW),), inactivity=5 * S, retention=retention)
        self.fold = Fold(rules) if loaded is None else Fold.restore(SavedState.decode(loaded.state).fold)
        self.folder = folder
        self.take(400)

    def take(self, count: int = 20) -> None:
        """The next events, and a tick behind them."""
        begin = self.fold.state.partition(("s", 0)).hwm + 1
        rows = [Row(i, f"case-{i:05d}", "a", i * S) for i in range(begin, begin + count)]
        self.obey(Delta(src="s", p=0, prev=begin - 1, last=begin + count - 1, n=count, rows=rows))
        self.obey(Tick(at=(begin + count) * S))

    def obey(self, record: Delta | Tick | Command | Config) -> None:
        for cut in self.fold.apply(self.fold.position + 1, record):
            self.fold.decided(cut, released=True)

    def saves(self, *, in_full: bool = False) -> str:
        """Return the ways in which the state was saved; the state that is read back is always the same."""
        before = sum(path.stat().st_size for path in logs(self.folder))
        files = {path.name for path in self.folder.iterdir()}
        self.keeper.save(self.fold, SavedState("daemon", b"", 7, self.fold.position, 3), in_full=in_full)
        loaded = Checkpoints(self.folder).load()
        assert loaded is not None
        saved = SavedState.decode(loaded.state)
        assert saved == SavedState("daemon", self.fold.snapshot(), 7, self.fold.position, 3)
        now = {path.name for path in self.folder.iterdir()}
        grown = sum(path.stat().st_size for path in logs(self.folder)) > before
        return "change" if grown and files <= now else "whole"

    def names(self, case: str) -> bool:
        """Whether a file names the case."""
        return any(case.encode() in path.read_bytes() for path in self.folder.iterdir())


def test_the_first_two_states_of_a_process_are_whole_then_changes(tmp_path: Path) -> None:
    """Both generations are then this process's own."""
    for _process in range(2):
        one = Process(tmp_path)
        done = []
        for _ in range(5):
            one.take()
            done.append(one.saves())
        assert done == ["whole", "whole", "change", "change", "change"]


def test_what_is_written_grows_with_what_came(tmp_path: Path) -> None:
    """Of 60 saves of 200 events each none but the first two is whole, and what came is written once."""
    one = Process(tmp_path)
    done = []
    for _ in range(60):
        one.take(200)
        done.append(one.saves())
    assert done == ["whole"] * 2 + ["change"] * 58
    assert sum(path.stat().st_size for path in logs(tmp_path)) < 3 * len(one.fold.snapshot())


def test_changes_that_make_nothing_grow_end_in_a_whole_state(tmp_path: Path) -> None:
    """The log would have no end."""
    one = Process(tmp_path)
    done = []
    for number in range(200):
        one.obey(Tick(at=(1000 + number) * S))
        done.append(one.saves())
    assert 2 < done.count("whole") < 20
    assert sum(path.stat().st_size for path in logs(tmp_path)) < 6 * len(one.fold.snapshot()) + 1000


@pytest.mark.parametrize("why", ["erased", "retention", "rules"])
def test_two_whole_states_after_what_no_change_can_represent(tmp_path: Path, why: str) -> None:
    """A case that left is in no file after the second one; then changes continue."""
    one = Process(tmp_path, retention=30 * S if why == "retention" else None)
    for _ in range(4):
        one.take()
        one.saves()
    assert one.names("case-00003")
    if why == "erased":
        one.obey(Command(name="erase", arguments={"cases": ["case-00003"]}))
    elif why == "retention":
        one.obey(Command(name="release"))
        one.obey(Command(name="release"))
    else:
        one.obey(Config(body=one.fold.rules.to_mapping()))
    done = [one.saves()]
    one.take()
    done.append(one.saves())
    assert one.names("case-00003") == (why == "rules")
    one.take()
    assert [*done, one.saves()] == ["whole", "whole", "change"]
    assert one.names("case-00479")


def test_a_case_that_is_erased_after_it_left_is_in_no_file(tmp_path: Path) -> None:
    """The state holds nothing of it any more, but the log of the generation before may: `whole` clears both."""
    one = Process(tmp_path)
    for _ in range(4):
        one.take()
        one.saves()
    one.obey(Command(name="erase", arguments={"cases": ["case-00003"]}))
    assert one.saves() == "whole"
    assert one.names("case-00003")
    one.fold.erase(["case-00003"])
    assert [one.saves(in_full=True), one.saves(in_full=True)] == ["whole", "whole"]
    assert not one.names("case-00003")


def test_the_state_is_whole_again_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that falling back to the generation before goes back no further."""
    one, now = Process(tmp_path, oldest=100.0), time.monotonic()
    done = []
    for seconds in (0, 0, 50, 99, 101, 150, 202):
        monkeypatch.setattr(time, "monotonic", lambda seconds=seconds: now + seconds)
        one.take()
        done.append(one.saves())
    assert done == ["whole", "whole", "change", "change", "whole", "change", "whole"]


def test_after_a_failure_the_state_is_saved_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows what of the change is on the disk."""
    one = Process(tmp_path)
    for _ in range(3):
        one.take()
        one.saves()

    def full(_change: bytes, _grown: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(one.checkpoints, "append", full)
        one.take()
        with pytest.raises(OSError, match="No space left"):
            one.saves()
    assert one.saves() == "whole"
