"""`[engine]`: who builds the releases of a replay and of a daemon."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from models.errors import InputError
from stream.commands import execute
from stream.commands.replay import BuilderOptions
from stream.config import sources
from stream.config.lint import PLAIN_ENGINE_FILES
from stream.daemon import state_machine
from stream.engine import building
from stream.engine.building import EngineBuilds, builder
from stream.run.service import ReleaseService

TLKC = 'mechanism = { kind = "tlkc", K = 5, L = 2 }'


def settings(folder: Path, engine: str, publication: str = TLKC) -> Any:
    """A configuration with that `[engine]` table."""
    path = folder / "veilstream.toml"
    text = f'[process]\nname = "p"\n[engine]\n{engine}\n[[publication]]\nname = "q"\nwindow = {{ new_cases = 9 }}\n'
    path.write_text(text + publication + "\n")
    return sources.load(path)


def test_the_configuration_names_the_engine_and_a_flag_another(tmp_path: Path) -> None:
    """The engine does not change the meaning of a release: the digest of the configuration is the same."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    with_engine = settings(tmp_path, 'kind = "duckdb"\nmemory = "2GB"')
    assert BuilderOptions().built_by(with_engine, tmp_path) == EngineBuilds("duckdb", tmp_path / "operator", "2GB")
    assert BuilderOptions(memory="1GB").built_by(with_engine, tmp_path) == EngineBuilds(
        "duckdb", tmp_path / "operator", "1GB"
    )
    without = settings(tmp_path, "")
    assert BuilderOptions().built_by(without, tmp_path) is None
    assert without.digest == with_engine.digest


@pytest.mark.parametrize(
    ("engine", "publication", "message"),
    [
        ('kind = "duckdb"', 'mechanism = { kind = "tlkc-cohorts", K = 5 }', "only --engine embedded can"),
        ('kind = "spark"', TLKC + '\ngate = { min_ka = 2, on_violation = "repair" }', "on_violation"),
        ('memory = "2GB"', TLKC, "engine.memory"),
        ('kind = "flink"', TLKC, "engine.kind"),
    ],
)
def test_what_an_engine_cannot_build_is_refused_when_the_file_is_read(
    engine: str, publication: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        settings(tmp_path, engine, publication)


def test_an_engine_that_is_not_installed_is_reported_before_the_first_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(InputError, match=r"veilstream\[spark\]"):
        builder("spark", tmp_path)


def test_a_coordinator_builds_by_the_engine_of_its_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service of a daemon gets the engine; nothing is opened here."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    given: dict[str, Any] = {}

    class Opened(Exception):
        pass

    def service(*_: Any, **named: Any) -> None:
        given.update(named)
        raise Opened

    monkeypatch.setattr(state_machine, "ReleaseService", service)
    host = state_machine.CoordinatorContext(settings(tmp_path, 'kind = "duckdb"'), None, tmp_path, ())  # type: ignore[arg-type]
    with pytest.raises(Opened):
        state_machine.ActiveCoordinator(host)
    assert given["built_by"] == EngineBuilds("duckdb", tmp_path / "operator", None)


def test_a_key_does_not_cover_the_working_files_of_an_engine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person who sets the key expects nothing in the clear on the disk: `check-config` and the start warn."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    path = tmp_path / "veilstream.toml"
    for engine, has_key in (('kind = "duckdb"', True), ('kind = "duckdb"', False), ("", True)):
        loaded = settings(tmp_path, engine)
        if has_key:
            path.write_text(f'checkpoint_key = "{"ab" * 32}"\n{path.read_text()}')
            loaded = sources.load(path)
        is_warned = has_key and bool(engine)
        assert execute(["check-config", str(path)]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert (f"warning: {PLAIN_ENGINE_FILES}" in shown) == is_warned
        caplog.clear()
        with closing(ReleaseService(loaded, tmp_path / "out", built_by=BuilderOptions().built_by(loaded, tmp_path))):
            assert (PLAIN_ENGINE_FILES in caplog.text) == is_warned
