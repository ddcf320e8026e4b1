"""Configuration: file, environment, flags; what is wrong in it is said with its key."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from models.errors import InputError
from stream import settings
from stream.commands import execute

GOOD = """
[process]
name = "sepsis"
sensitive = ["Diagnose"]
[[publication]]
name = "research"
window = { new_cases = 100 }
mechanism = { kind = "tlkc", L = 2, K = 20, C = 0.5 }
audit = { bk_length = 2, n = [0, 1] }
gate = { min_ka = 20 }
[[publication]]
name = "statistics"
window = { every = "7d", time = "event" }
mechanism = { kind = "dp-variants", epsilon = 0.1, delta_dp = 1e-6 }
gate = { max_epsilon = 1.0 }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "c.toml"
    path.write_text(text)
    return path


def refused(folder: Path, text: str) -> str:
    with pytest.raises(InputError) as error:
        settings.load(written(folder, text))
    assert "\n" not in str(error.value)
    assert "c.toml" in str(error.value)
    return str(error.value)


def test_the_configuration_of_the_design(tmp_path: Path) -> None:
    """Two publications, exact budgets, and a digest that does not depend on how the file is written."""
    loaded = settings.load(written(tmp_path, GOOD))
    assert [publication.name for publication in loaded.publication] == ["research", "statistics"]
    assert loaded.publication[1].build_mechanism.charge().epsilon == Fraction(1, 10)
    assert settings.load(written(tmp_path, GOOD + "\n# a remark\n")).digest == loaded.digest


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("new_cases = 100", "new_cases = 0", "window.new_cases"),
        ("new_cases = 100", "new_cases = -3", "window.new_cases"),
        ("new_cases = 100", "new_cases = nan", "window.new_cases"),
        ("new_cases = 100", "new_case = 100", "window.new_case is unknown"),
        ('sensitive = ["Diagnose"]', 'sensitiv = ["Diagnose"]', "process.sensitiv"),
        ('kind = "tlkc"', 'kind = "tlck"', "not one of"),
        ("epsilon = 0.1,", "epsilon = nan,", "epsilon"),
        ("epsilon = 0.1,", "epsilon = 0,", "epsilon"),
        ('name = "statistics"', 'name = "research"', "stands twice"),
        ('name = "research"', 'name = "key"', "reserved"),
        ('name = "research"', 'name = "../up"', "publication.name"),
        ("n = [0, 1]", "n = [0, 2]", "bk_length"),
        ('every = "7d", time = "event"', "new_cases = 5", "reads the data"),
        ("gate = { max_epsilon = 1.0 }", "gate = { min_ka = 5 }", "read data"),
        ("gate = { min_ka = 20 }", "gate = { max_tpl = 1.0 }", "spends epsilon"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    """One line, with the file and the key."""
    assert old in GOOD
    assert said in refused(tmp_path, GOOD.replace(old, new))


def test_broken_and_missing_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one line."""
    assert execute(["check-config", str(tmp_path / "none.toml")]) == 2
    assert execute(["check-config", str(written(tmp_path, "[process"))]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 2


def test_environment_over_file_and_flags_over_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`__` nests, lists come by comma, `*_FILE` is read, an unknown name is an error."""
    path = written(tmp_path, GOOD)
    monkeypatch.setenv("VEILSTREAM_PROCESS__SENSITIVE", "Diagnose,Age")
    monkeypatch.setenv("VEILSTREAM_PROCESS__NAME", "other")
    loaded = settings.load(path, {"process": {"name": "flag"}})
    assert (loaded.process.name, loaded.process.sensitive) == ("flag", ("Diagnose", "Age"))
    secret = tmp_path / "secret"
    secret.write_text("ab" * 32 + "\n")
    monkeypatch.setenv("VEILSTREAM_KEY_FILE", str(secret))
    key = settings.load(path).key
    assert key is not None
    assert key.get_secret_value() == "ab" * 32
    assert "abab" not in repr(settings.load(path))
    monkeypatch.setenv("VEILSTREAM_PROCES__NAME", "x")
    with pytest.raises(InputError, match="VEILSTREAM_PROCES__NAME"):
        settings.load(path)


def test_check_config_warns_of_claims_that_cannot_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dp claim beside a publication without noise, and a budget that ends."""
    import msgspec

    assert execute(["check-config", str(written(tmp_path, GOOD)), "--json"]) == 0
    warnings = msgspec.json.decode(capsys.readouterr().out)["warnings"]
    assert any("holds only for recipients who never see it" in warning for warning in warnings)
    assert any("allows 10 releases" in warning for warning in warnings)
