"""The daemon on the console's first page, from status files as coordinators write them, of today and of before."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, cast

import pytest

from stream.commands import execute
from stream.daemon.delta_topic import Anchor
from stream.daemon.status import CoordinatorSnapshot, StatusFile
from stream.fold.fold import Fold
from stream.fold.records import Command
from stream.fold.rules import FoldRules, PublicationRules
from stream.ledger.layout import OperatorLayout
from stream.operator.console.pages import Pages
from stream.operator.console.reading import Overview, _daemon
from stream.operator.console.releases import _figures
from stream.operator.console.sessions import Session
from stream.release.documents import AuditDocument


def written(folder: Path, *commands: str) -> Path:
    """The status of a coordinator that has obeyed these orders on publication `a`."""
    from stream.config.window import read_window

    rules = [PublicationRules(name, read_window({"manual": True})) for name in ("a", "b")]
    fold = Fold(FoldRules(tuple(rules)))
    for name in commands:
        assert list(fold.apply(fold.position + 1, Command(name=name, publication="a"))) == []
    (folder / "operator").mkdir(exist_ok=True)
    StatusFile(folder).write(CoordinatorSnapshot(fold, fold.position, 0, Anchor("log"), None), "active")
    return folder


def changed(folder: Path, **values: Any) -> Path:
    """The same with other values; None takes a key away, as in files of earlier programs."""
    file = OperatorLayout(folder).status
    status = {**json.loads(file.read_text()), **values}
    file.write_text(json.dumps({name: value for name, value in status.items() if value is not None}))
    return folder


def page(folder: Path) -> str:
    """The overview of a folder in which nothing was released."""
    shown = Overview("2026-01-01T00:00:00+00:00", _daemon(folder), (), (), {})
    return Pages("DIR").render("overview", Session("c", 0.0), page="overview", shown=shown, orders=None, words={})


def test_a_pause_is_reported_until_the_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the page and by `status`, with the publication's name."""
    assert "<strong>Paused</strong>: a." in page(written(tmp_path, "pause"))
    execute(["status", "-o", str(tmp_path)])
    assert "paused: a\n" in capsys.readouterr().out
    assert "Paused" not in page(written(tmp_path, "pause", "resume"))
    execute(["status", "-o", str(tmp_path)])
    assert "paused" not in capsys.readouterr().out


def test_a_status_of_before_is_shown(tmp_path: Path) -> None:
    """It lacks what later programs write."""
    later = dict.fromkeys(("host", "delta", "key", "heartbeat", "moved", "busy_seconds", "held", "paused"))
    assert "<strong>Active</strong>" in page(changed(written(tmp_path), **later))


def test_a_gap_and_a_standstill_are_reported(tmp_path: Path) -> None:
    """The page states the place, the time and the remedy."""
    missing = {"src": "ward", "p": 3, "last": 9, "missing": [10, 14], "fault": "lost"}
    found = page(changed(written(tmp_path), partitions=[missing], state="gap"))
    assert "ward/3 misses offsets 10 to 14 (lost)" in found
    assert "veilstream gap rewind" in found
    found = page(changed(written(tmp_path), delta={"log": "x", "lost": {"log": "y", "first": 4}}))
    assert "the delta topic is not the one that the state was folded from" in found
    found = page(changed(written(tmp_path), at=time.time() - 600, host="elsewhere"))
    assert "has not been heard of since" in found


def test_a_status_from_the_future_is_an_old_one(tmp_path: Path) -> None:
    """A running coordinator writes with every heartbeat, by the present clock: the clock was set back, and no process
    has written since. Otherwise a dead coordinator would look active for as long as the clock was ahead.
    """
    found = page(changed(written(tmp_path), at=time.time() + 7200, host="elsewhere"))
    assert "has not been heard of since" in found


def test_names_of_a_status_that_are_markup_stand_as_text(tmp_path: Path) -> None:
    """A topic and a host are names that somebody else chose."""
    mark = "<script>1</script>"
    missing = {"src": mark, "p": 0, "last": 9, "missing": [10, 14], "fault": mark}
    found = page(changed(written(tmp_path), partitions=[missing], paused=[mark], state=mark))
    assert mark not in found
    assert "&lt;script&gt;1" in found


@pytest.mark.parametrize(
    ("anonymity", "word"),
    [
        ({"status": "ok", "ka": 20, "results": [], "true_linker": []}, "no earlier release"),
        (
            {"status": "ok", "ka": 20, "true_linker": [{"earlier": 1, "fa": 0, "ca": 0, "ba": 0}]},
            "no case is concerned",
        ),
        ({"status": "not_applicable"}, "not measured"),
        ({}, "not measured"),
    ],
)
def test_a_count_that_is_not_there_says_why(anonymity: dict[str, Any], word: str) -> None:
    """An officer must not take the first release for one that nobody measured."""
    audit = cast(AuditDocument, {"anonymity": anonymity, "bounds": {"min_fa": 20}})
    (figure,) = (one for one in _figures(audit) if one.name == "FA")
    assert (figure.value, figure.instead, figure.broken) == (None, word, False)
