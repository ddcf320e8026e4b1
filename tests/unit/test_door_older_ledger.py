"""An operator's folder that is older than the public files beside it: no page to sign is made of both."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from models.errors import RefusedError
from stream.commands import execute
from stream.config import sources
from stream.operator.history import current_ledger_view, ledger_view
from stream.run.service import ReleaseService
from tests.dossiers import replayed, small, write_log


@pytest.fixture
def restored(tmp_path: Path) -> Path:
    """Public files of three releases, beside an operator's folder from before the last of them."""
    newer = replayed(tmp_path, small())
    (tmp_path / "earlier").mkdir()
    lines = (tmp_path / "clinic.csv").read_text(encoding="utf-8").splitlines()
    log = tmp_path / "earlier" / "clinic.csv"
    days = {f"2025-01-{day:02d}" for day in range(1, 21)}
    log.write_text("\n".join([lines[0], *(line for line in lines[1:] if line.split(",")[2][:10] in days)]) + "\n")
    older = replayed(tmp_path / "earlier", small(), log)
    assert len(list((newer / "public/steps").iterdir())) > len(list((older / "public/steps").iterdir())) > 0
    shutil.rmtree(newer / "operator")
    shutil.copytree(older / "operator", newer / "operator")
    return newer


def test_report_and_dossier_are_refused(restored: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """They said that less of the budget was spent, and counted fewer releases, than everybody had."""
    for command in (["report", str(restored)], ["dossier", str(restored), "steps"]):
        page = tmp_path / "page.html"
        assert execute([*command, "-o", str(page)]) == 4
        assert "is public, but the ledger does not know it" in capfd.readouterr().err
        assert not page.exists()


def test_a_ledger_from_before_the_first_release_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The report said that nothing was released, beside public files."""
    newer = replayed(tmp_path, small())
    (tmp_path / "earlier").mkdir()
    log = write_log(tmp_path / "earlier" / "clinic.csv", cases=2)
    older = replayed(tmp_path / "earlier", small(), log, code=(0, 3))
    assert not ledger_view(older).seals
    shutil.rmtree(newer / "operator")
    shutil.copytree(older / "operator", newer / "operator")
    assert execute(["report", str(newer), "-o", str(tmp_path / "page.html")]) == 4
    assert "release 1 of steps is public, but the ledger does not know it" in capfd.readouterr().err


def test_a_daemon_names_its_publications_before_their_first_release(tmp_path: Path) -> None:
    path = tmp_path / "clinic.toml"
    path.write_text(small(), encoding="utf-8")
    output = tmp_path / "out"
    with closing(ReleaseService(sources.load(path), output)) as service:
        service.rules(embedded=False)
    assert current_ledger_view(output).first_seen
    (output / "public/steps/release-000001").mkdir(parents=True)
    with pytest.raises(RefusedError, match="release 1 of steps is public"):
        current_ledger_view(output)


def test_a_folder_that_nobody_released_does_not_matter(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Bytes that are not public yet, and folders of no publication of this ledger, are no releases of it."""
    output = replayed(tmp_path, small())
    (output / "public/steps/.release.tmp").mkdir()
    (output / "public/others/release-000009").mkdir(parents=True)
    assert execute(["dossier", str(output), "steps", "-o", str(tmp_path / "page.html")]) == 0
