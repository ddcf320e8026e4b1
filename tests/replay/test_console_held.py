"""Page of the console on a held release: the effect of a decision on each verdict, and missing files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stream.commands import execute
from stream.operator.console import releases
from stream.operator.history import ledger_view
from tests.replay.approving import APPROVED_DP, PLAIN, configured, replayed
from tests.replay.crashing import sample
from tests.serving import Console

DECISION = {"by": "Ann", "why": "read it"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One release with a promise of differential privacy has left; `plain` 1, without one, is held, and `later` 1."""
    folder = tmp_path_factory.mktemp("held")
    sample(folder)
    private = {key: value for key, value in APPROVED_DP.items() if key != "approval"}
    configured(
        folder, {**PLAIN, "window": {"new_cases": 60}}, {**PLAIN, "name": "later", "audience": "clinic"}, private
    )
    replayed(folder)
    return folder / "out"


def decisions(output: Path) -> int:
    return len(ledger_view(output).decisions)


def test_the_page_of_a_held_release_names_every_verdict_that_it_changes(made: Path) -> None:
    """One publication alone, not what all held ones would do together; one to another audience voids nothing."""
    found = {one.release.publication: one for one in releases.queue(made)}
    assert [(one.publication, one.verdict) for one in found["plain"].changed] == [("private", "DP VOID")]
    assert found["plain"].changed[0].void_by == ("plain",)
    assert found["later"].changed == ()
    assert found["plain"].verdict is not None
    assert found["plain"].verdict.released == 1


def test_both_pages_say_it(own: Console) -> None:
    """The list, and the page with the form."""
    for path in ("/held", "/held/plain/1"):
        shown = own.ask(path).shown
        assert "DP VOID It changes the verdict on private to:" in shown
    assert "It changes the verdict" not in own.ask("/held/later/1").shown


def test_without_its_audit_a_release_can_only_be_rejected(own: Console, tmp_path: Path) -> None:
    """No verdict, no way to approve it, by the page or by a form of one's own making."""
    (tmp_path / "out" / "operator" / "plain" / "000001" / "audit.json").unlink()
    page = own.ask("/held/plain/1")
    assert "the verdict on plain reads" not in page.shown
    assert 'value="approve"' not in page.text
    assert 'value="reject"' in page.text
    (held,) = [one for one in releases.queue(tmp_path / "out") if one.release.publication == "plain"]
    form = {**DECISION, "csrf": own.csrf("/"), "seen": held.seen, "decision": "approve"}
    answer = own.send("/held/plain/1", form)
    assert (answer.status, "the audit of this release is not here" in answer.shown) == (422, True)
    assert decisions(tmp_path / "out") == 0


def test_without_its_files_nothing_is_decided(own: Console, tmp_path: Path) -> None:
    """Another host has them: nobody here has read what an empty sum would represent."""
    csrf = own.csrf("/held/plain/1")
    for path in (tmp_path / "out" / "operator" / "plain" / "held").iterdir():
        shutil.rmtree(path)
    page = own.ask("/held/plain/1")
    assert 'name="decision"' not in page.text
    for order in ("approve", "reject"):
        answer = own.send("/held/plain/1", {**DECISION, "csrf": csrf, "seen": "", "decision": order})
        assert (answer.status, "not on this host" in answer.shown) == (409, True)
    assert decisions(tmp_path / "out") == 0


def test_a_console_takes_no_configuration_of_another_process(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its buttons would give the orders to that process's daemon (exit 2)."""
    other = tmp_path / "other.toml"
    text = (made.parent / "approval.toml").read_text().replace('name = "crash"', 'name = "other"')
    other.write_text(text + '[source]\ntopics = ["t"]\n')
    assert execute(["serve", str(made), "-c", str(other), "--port", "0"]) == 2
    assert "belongs to process 'crash', and the configuration is of 'other'" in capsys.readouterr().err
