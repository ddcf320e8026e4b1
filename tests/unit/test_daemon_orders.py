"""Orders to a daemon, without a broker: what is refused before anything is sent."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from connectors.kafka.source import Source
from models.errors import InputError
from stream.commands import execute
from stream.commands.erase import _case_ids
from stream.config.settings import Settings
from stream.config.window import read_window
from stream.daemon import operator_commands as orders
from stream.daemon.state_machine import ActiveCoordinator
from stream.daemon.status import Alarms
from stream.fold.fold import Fold
from stream.fold.records import Command, Delta, PlainRow
from stream.fold.rules import FoldRules, PublicationRules
from stream.ledger.folder import create_key, read_key
from stream.ledger.layout import STATUS
from stream.run.runner import Arrival, Runner
from stream.values.pseudonym import Pseudonyms

SOURCE = Source(topics=("t",))


@pytest.fixture
def settings() -> Settings:
    return Settings.model_validate({"process": {"name": "p"}})


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """Return the records for the delta topic."""
    found: list[Command] = []
    monkeypatch.setattr(orders, "send", lambda _settings, _source, command: len(found.append(command) or found) - 1)
    return found


def test_an_erasure_without_the_key_is_refused_and_makes_none(
    settings: Settings, sent: list[Command], tmp_path: Path
) -> None:
    """Under a new key the names are nobody's: the daemon would obey, and erase nothing."""
    with pytest.raises(InputError, match=r"there is no pseudonym key; give the folder of the running daemon"):
        orders.erase(settings, SOURCE, tmp_path / "elsewhere", ["Jane"])
    assert sent == []
    assert not (tmp_path / "elsewhere").exists()


def test_an_erasure_says_under_which_key_and_another_than_the_coordinators_is_refused(
    settings: Settings, sent: list[Command], tmp_path: Path
) -> None:
    """The key's name goes with the order; if the coordinator's folder has another one, nothing is sent."""
    operator = tmp_path / "operator"
    operator.mkdir()
    create_key(operator / "key")
    ours = Pseudonyms(read_key(operator / "key"))
    orders.erase(settings, SOURCE, tmp_path, ["Jane"])
    assert sent[0].arguments == {"cases": [ours.case("Jane")], "key": ours.id}
    (operator / STATUS).write_bytes(msgspec.json.encode({"key": Pseudonyms(bytes(32)).id}))
    with pytest.raises(InputError, match="under another pseudonym key"):
        orders.erase(settings, SOURCE, tmp_path, ["Jane"])
    assert len(sent) == 1


class _Log:
    """The topic `t`: first offset of each partition."""

    def __init__(self, begins: dict[int, int]) -> None:
        self.of_partition = begins

    def begins(self, places: set[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return {place: self.of_partition[place[1]] for place in places}

    def close(self) -> None:
        pass


def test_a_rewind_says_what_retention_has_removed_of_a_gap(
    settings: Settings,
    sent: list[Command],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It named all offsets as read again, and after the next start the removed ones were an unexplained gap. A
    partition that has nothing left is not set back: its gap would only come again."""
    missing = {0: [10, 19], 1: [10, 19], 2: [10, 19], 3: [10, 9]}
    (tmp_path / "operator").mkdir()
    partitions = [{"src": "t", "p": number, "last": 9, "missing": offsets} for number, offsets in missing.items()]
    (tmp_path / "operator" / STATUS).write_bytes(msgspec.json.encode({"partitions": partitions}))
    monkeypatch.setattr(orders, "LogClient", lambda _source: _Log({0: 5, 1: 15, 2: 30, 3: 12}))
    set_back: dict[tuple[str, int], int] = {}
    monkeypatch.setattr(orders, "_rewind", lambda _settings, _source, behind: set_back.update(behind))
    monkeypatch.setattr("stream.daemon.start.daemon_settings", lambda _path: (settings, SOURCE))

    assert execute(["gap", "rewind", "-c", "p.toml", "-o", str(tmp_path)]) == 0
    assert set_back == {("t", 0): 10, ("t", 1): 10, ("t", 3): 10}
    assert [command.arguments["p"] for command in sent] == [0, 1, 3]
    lines = [line.split(": the gap stays")[0] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "rewind: t/0, offsets 10 to 19",
        "gone: t/1, offsets 10 to 14",
        "rewind: t/1, offsets 15 to 19",
        "gone: t/2, offsets 10 to 19",
        "gone: t/3, offsets 10 to 11",
        "rewind: t/3, from offset 12 on",
    ]

    monkeypatch.setattr(orders, "LogClient", lambda _source: _Log({0: 20, 1: 20, 2: 20, 3: 12}))
    status = {"partitions": partitions[:3]}
    (tmp_path / "operator" / STATUS).write_bytes(msgspec.json.encode(status))
    gone = r"t/0: offsets 10 to 19 are gone, .*; t/2: .* there is nothing to read again"
    with pytest.raises(InputError, match=gone):
        orders.mend_gap(settings, SOURCE, tmp_path, "rewind")
    assert len(sent) == 3


@pytest.mark.parametrize(("recorded", "obeyed"), [("ours", True), ("other", False)])
def test_a_coordinator_obeys_only_names_under_its_key(recorded: str, obeyed: bool) -> None:
    """An erasure under another key is ignored with a line of its own, not taken for done."""
    engine: Any = ActiveCoordinator.__new__(ActiveCoordinator)
    engine.runner = SimpleNamespace(fold=SimpleNamespace(key=recorded, rules=SimpleNamespace(key=recorded)))
    command = Command(name="erase", arguments={"cases": [], "key": "ours"})
    if obeyed:
        engine._refuse_other_key(command)
        return
    with pytest.raises(InputError, match="nothing is erased"):
        engine._refuse_other_key(command)


def test_an_accepted_gap_is_noted_for_its_own_partition_once() -> None:
    """Two partitions miss events and one is accepted, twice: one note, of that one; manifests count the notes."""
    engine: Any = ActiveCoordinator.__new__(ActiveCoordinator)
    notes: list[Any] = []
    accept_gap = lambda position, missing: notes.append({"gap": position, "missing": missing})  # noqa: E731
    engine.service = SimpleNamespace(pipelines={"a": SimpleNamespace(accept_gap=accept_gap)})
    engine._alarms, engine._must_overwrite_checkpoints = Alarms(), False
    fold = Fold(FoldRules((PublicationRules("a", read_window({"manual": True})),)))
    engine.runner = Runner(fold, engine, every=9)
    accept = Command(name="gap", arguments={"action": "accept", "src": "s", "p": 1})
    held = [Delta(src="s", p=number, prev=9, last=10, n=1, rows=[_row(10)]) for number in (0, 1)]
    records = enumerate((*held, accept, accept))
    engine.runner.run(SimpleNamespace(after=lambda _position: (Arrival(*one) for one in records)))
    assert notes == [{"gap": 2, "missing": ["s/1: offsets 0 to 9 are missing"]}]
    assert engine.gaps() == ["s/0: offsets 0 to 9 are missing"]


def _row(offset: int) -> PlainRow:
    return (offset, "c", "a", 10**18, None, None, None, False)


def test_case_ids_are_lines_of_text() -> None:
    """Without line ends and byte order mark; what is not text is said with its line."""
    assert _case_ids(b"\xef\xbb\xbfJane\r\n\nJos\xc3\xa9 \n") == ["Jane", "José "]
    with pytest.raises(InputError, match=r"standard input, line 2: is not UTF-8 text"):
        _case_ids(b"Jane\n\xff\n")
    with pytest.raises(InputError, match="no case id on standard input"):
        _case_ids(b"\n \n")
