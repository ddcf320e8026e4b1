"""A folder that does not exist: the message says this, and not that something is missing in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream.commands import execute


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "FOLDER"],
        ["releases", "FOLDER"],
        ["report", "FOLDER", "-o", "page.html"],
        ["status", "-o", "FOLDER"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_mistyped_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """A ledger that seems lost alarms an operator who only mistyped a name."""
    missing = tmp_path / "otu"
    given = [str(missing) if argument == "FOLDER" else argument for argument in arguments]
    assert execute(given) == 2
    assert f"{missing}: there is no such folder" in capsys.readouterr().err
    assert not missing.exists()
