"""Configuration: file, environment, flags; what is wrong in it is said with its key."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from models.errors import InputError
from stream.commands import execute
from stream.config import sources
from stream.config.lint import notes, warnings
from stream.run.service import ReleaseService

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


def refused(folder: Path, text: str, where: str = "c.toml") -> str:
    """The one line with which the configuration is refused; it names the file, or another place of the fault."""
    with pytest.raises(InputError) as error:
        sources.load(written(folder, text))
    assert "\n" not in str(error.value)
    assert where in str(error.value)
    return str(error.value)


def test_the_configuration_of_the_design(tmp_path: Path) -> None:
    """Two publications, exact budgets, and a digest that does not depend on how the file is written."""
    loaded = sources.load(written(tmp_path, GOOD))
    assert [publication.name for publication in loaded.publication] == ["research", "statistics"]
    assert loaded.publication[1].build_mechanism.charge().epsilon == Fraction(1, 10)
    assert sources.load(written(tmp_path, GOOD + "\n# a remark\n")).digest == loaded.digest


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("new_cases = 100", "new_cases = 0", "window.new_cases"),
        ("new_cases = 100", "new_cases = -3", "window.new_cases"),
        ("new_cases = 100", "new_cases = nan", "window.new_cases"),
        ("new_cases = 100", "new_case = 100", "window.new_case: unknown key"),
        ('sensitive = ["Diagnose"]', 'sensitiv = ["Diagnose"]', "process.sensitiv"),
        ('kind = "tlkc"', 'kind = "tlck"', "not one of"),
        ("epsilon = 0.1,", "epsilon = nan,", "epsilon"),
        ("epsilon = 0.1,", "epsilon = 0,", "epsilon"),
        ('name = "statistics"', 'name = "research"', "appears twice"),
        ('name = "research"', 'name = "key"', "reserved"),
        ('name = "research"', 'name = "../up"', "publication.name"),
        ("n = [0, 1]", "n = [0, 2]", "bk_length"),
        ('every = "7d", time = "event"', "new_cases = 5", "reads the data"),
        ("gate = { max_epsilon = 1.0 }", "gate = { min_ka = 5 }", "read data"),
        ("gate = { min_ka = 20 }", "gate = { max_tpl = 1.0 }", "spends epsilon"),
        ("[process]", "[process]\nretention = 30", "process.retention: 30 is not a duration"),
        ("[process]", '[process]\nretention = "101000w"', "process.retention: '101000w' is longer than"),
        ("[process]", '[process]\ntimezone = "Mars/Base"', "process.timezone: timezone 'Mars/Base'"),
        ("[process]", "[metrics]\nprot = 9\n[process]", "metrics.prot: unknown key"),
        ("[process]", '[metrics]\nport = "x"\n[process]', "metrics.port"),
        ("[process]", f"checkpoint_every = {'9' * 5000}\n[process]", "not valid TOML"),
        ("[process]", f"metrics = {'[' * 5000}{']' * 5000}\n[process]", "not valid TOML"),
        (
            "new_cases = 100 }",
            "new_cases = 100 }\nfirst = { new_cases = 5 }",
            "publication.first is not a key any more: write it into the window",
        ),
        ("new_cases = 100", "new_cases = 99999999999999999999", "window.new_cases"),
        ('every = "7d"', 'every = "99999999w"', "window.every"),
        ('name = "research"', 'name = "lock"', "reserved"),
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
    loaded = sources.load(path, {"process": {"name": "flag"}})
    assert (loaded.process.name, loaded.process.sensitive) == ("flag", ("Diagnose", "Age"))
    secret = tmp_path / "secret"
    secret.write_text("ab" * 32 + "\n")
    monkeypatch.setenv("VEILSTREAM_KEY_FILE", str(secret))
    key = sources.load(path).key
    assert key is not None
    assert key.get_secret_value() == "ab" * 32
    assert "abab" not in repr(sources.load(path))
    monkeypatch.setenv("VEILSTREAM_PROCES__NAME", "x")
    with pytest.raises(InputError, match="VEILSTREAM_PROCES__NAME"):
        sources.load(path)


SASL = 'topics = ["t"]\nsecurity = { protocol = "sasl_ssl", mechanism = "PLAIN", username = "u", password = "x" }'


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets variables, the prefix left out."""
    return lambda **values: [monkeypatch.setenv(f"VEILSTREAM_{name}", value) for name, value in values.items()]


def test_values_of_the_environment_are_text(tmp_path: Path, environment: Callable[..., None]) -> None:
    """A password of digits is a password, a column may be called 42; budgets are exact, lists and tables also JSON."""
    path = written(tmp_path, f"{GOOD}[source]\n{SASL}")
    environment(
        SOURCE__SECURITY__PASSWORD="0123",
        PROCESS__COLUMNS__CASE="42",
        PROCESS__SENSITIVE='["Diagnose, main", "Age"]',
        PROCESS__BUDGET='{"max_epsilon": 3}',
        PROCESS__BUDGET__MAX_DELTA="0.1",
        PROCESS__COMPLETION__LOG_END="true",
        PROCESS__RETENTION="2w",
        METRICS__PORT="9100",
        PUBLICATION='[{"name": "p", "window": {"manual": true}, "mechanism": {"kind": "identity"}}]',
    )
    loaded = sources.load(path)
    assert loaded.source is not None
    assert loaded.source.security.secret("password") == "0123"
    assert loaded.process.columns.case == "42"
    assert loaded.process.sensitive == ("Diagnose, main", "Age")
    assert (loaded.process.budget.max_epsilon, loaded.process.budget.max_delta) == (3, Fraction(1, 10))
    assert loaded.process.completion.log_end
    assert loaded.process.retention == 14 * 86_400 * 10**9
    assert loaded.metrics.port == 9100
    assert [one.name for one in loaded.publication] == ["p"]


def test_a_secret_and_its_file_take_each_others_place(tmp_path: Path, environment: Callable[..., None]) -> None:
    """A key that ends in _file takes the path, and what the environment gives rules."""
    path = written(tmp_path, f"{GOOD}[source]\n{SASL}")
    secret = tmp_path / "secret"
    secret.write_text("from the file\n")
    environment(SOURCE__SECURITY__PASSWORD_FILE=str(secret), SOURCE__SECURITY__CA_FILE="/ca.pem")
    loaded = sources.load(path)
    assert loaded.source is not None
    assert loaded.source.security.secret("password") == "from the file"
    assert loaded.source.security.ca_file == Path("/ca.pem")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PROCESS", "clinic", "process: must be a table of keys"),
        ("PROCESS", '{"name": ', "VEILSTREAM_PROCESS: begins like JSON, but is none"),
        ("PROCESS__NAMES", "clinic", "VEILSTREAM_PROCESS__NAMES: no such setting"),
        ("PROCESS__NAME__DEEP", "clinic", "VEILSTREAM_PROCESS__NAME__DEEP: no such setting"),
        ("PROCESS_NAME", "clinic", "VEILSTREAM_PROCESS_NAME: no such setting"),
        ("process__nmae", "clinic", "VEILSTREAM_process__nmae: no such setting"),
        ("PUBLICATION__0__NAME", "p", "VEILSTREAM_PUBLICATION__0__NAME: no such setting"),
        ("METRICS__PROT", "9", "VEILSTREAM_METRICS__PROT: no such setting"),
        ("HEALTH_PORT", "many", "health_port: Input should be a valid integer"),
        ("PROCESS__COMPLETION__INACTIVITY", "30", "process.completion.inactivity: '30' is not a duration"),
        ("PROCESS__TIMEZONE", "Mars/Base", "process.timezone: timezone 'Mars/Base' is not known"),
        ("STORE", "", "store: "),
        ("KEY_FILE", "/nowhere", "VEILSTREAM_KEY_FILE: its file cannot be read"),
    ],
)
def test_a_wrong_variable_is_named(
    tmp_path: Path, environment: Callable[..., None], name: str, value: str, said: str
) -> None:
    """Unknown names at every depth, and values that do not fit: one line."""
    environment(**{name: value})
    assert said in refused(tmp_path, GOOD, where="")


def test_a_secret_file_that_is_no_text_and_a_secret_given_twice(
    tmp_path: Path, environment: Callable[..., None]
) -> None:
    """Both are refused by the names of the variables."""
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    environment(KEY_FILE=str(tmp_path / "key"))
    assert "VEILSTREAM_KEY_FILE: its file is not UTF-8 text" in refused(tmp_path, GOOD, where="")
    (tmp_path / "key").write_text("ab" * 32)
    environment(KEY="cd" * 32)
    assert "VEILSTREAM_KEY and VEILSTREAM_KEY_FILE set the same" in refused(tmp_path, GOOD, where="")


def test_check_config_warns_of_what_only_a_replay_can_do(tmp_path: Path) -> None:
    """With a [source]: what needs the whole log; the daemon refuses it, and does not pass it over."""
    from stream.config.lint import warnings

    whole = GOOD.replace("new_cases = 100", "new_cases = 100, first = { events_fraction = 0.5 }")
    whole = whole.replace("[process]", '[process]\ncompletion = "log_end"')
    found = [line for line in warnings(sources.load(written(tmp_path, whole))) if "whole log" in line]
    assert found == []
    daemon = sources.load(written(tmp_path, f'{whole}[source]\ntopics = ["t"]\n'))
    found = [line for line in warnings(daemon) if "whole log" in line]
    assert [line.partition(" needs")[0] for line in found] == [
        "process.completion.log_end",
        "publication 'research': window.first.events_fraction",
    ]
    service = ReleaseService(daemon, tmp_path / "out")
    with pytest.raises(InputError, match="log_end needs the whole log"):
        service.rules(embedded=False)
    service.close()


def test_check_config_warns_of_claims_that_cannot_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dp claim next to a publication without noise, and a budget that ends."""
    import msgspec

    assert execute(["check-config", str(written(tmp_path, GOOD)), "--json"]) == 0
    printed = msgspec.json.decode(capsys.readouterr().out)["warnings"]
    assert any("holds only for recipients who never see it" in warning for warning in printed)
    assert any("allows 10 releases" in warning for warning in printed)


ONCE_PER_CASE = """
[process]
name = "series"
completion = { end_activities = ["z"] }
[[publication]]
name = "weekly"
cases = "completed"
window = { every = "7d", time = "wall" }
mechanism = { kind = "dp-variants", epsilon = 1, delta_dp = 1e-6 }
"""
AGAIN = """
[[publication]]
name = "again"
window = { every = "7d", time = "wall" }
mechanism = { kind = "dp-variants", epsilon = 1, delta_dp = 1e-6 }
"""


def test_check_config_states_what_publications_cost_that_show_everything_again(tmp_path: Path) -> None:
    """Memory by year, and the size from which an engine is needed; nothing if each case is released once."""
    (note,) = [note for note in notes(sources.load(written(tmp_path, GOOD))) if "show earlier cases again" in note]
    assert "'research', 'statistics'" in note
    assert "119 MB each year" in note
    assert "more than 4 million events" in note  # of 1,030 bytes in 4 GiB
    assert 'cases = "completed"' not in note  # noise keeps its budget with it, but other kinds have no such way
    alone = sources.load(written(tmp_path, ONCE_PER_CASE))
    assert not [note for note in notes(alone) if "show earlier cases again" in note]
    assert not [warning for warning in warnings(alone) if "stay in the state" in warning]
    cohorts = AGAIN.replace('"dp-variants", epsilon = 1, delta_dp = 1e-6', '"tlkc-cohorts", K = 5')
    (note,) = [note for note in notes(sources.load(written(tmp_path, cohorts))) if "show earlier cases again" in note]
    assert note.endswith('With cases = "completed" released cases are forgotten (docs/series.md)')
    together = sources.load(written(tmp_path, ONCE_PER_CASE + AGAIN))
    assert [warning for warning in warnings(together) if "stay in the state, since 'again'" in warning]
