"""An operator's folder that is older than the public files beside it: no page to sign is made of both."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stream.commands import execute
from tests.dossiers import replayed, small


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


def test_a_folder_that_nobody_released_does_not_matter(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Bytes that are not public yet, and folders of no publication of this ledger, are no releases of it."""
    output = replayed(tmp_path, small())
    (output / "public/steps/.release.tmp").mkdir()
    (output / "public/others/release-000009").mkdir(parents=True)
    assert execute(["dossier", str(output), "steps", "-o", str(tmp_path / "page.html")]) == 0
