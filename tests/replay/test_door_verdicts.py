"""One verdict at every door: replay, releases, verify, report, statement, console and metrics never contradict it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stream.commands import execute
from stream.operator.console.pages import Pages
from stream.operator.console.reading import Overview
from stream.operator.history import verdicts_of
from stream.release.verdict import LOOKS, WORDS
from stream.run.exporter import Metrics
from stream.run.observer import MetricsObserver

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = "case=case,activity=activity,time=time"
ALL = "min_ka = 3, min_fa = 3, min_ca = 3, min_ba = 3"
COHORTS = 'kind = "tlkc-cohorts", K = 3, C = 1.0, suppression = "local"'


def csv(folder: Path, cases: int, traces: str = "abc") -> Path:
    """A log of a CSV file: every hour a case begins, with the trace of its turn."""
    rows = ["case,activity,time"]
    turns = traces.split(",")
    for case in range(cases):
        day, hour = divmod(case, 24)
        for step, activity in enumerate(turns[case % len(turns)]):
            rows.append(f"c{case},{activity},2024-01-{day + 1:02d}T{hour:02d}:{step:02d}:00Z")
    path = folder / "log.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def publication(window: int, mechanism: str, gate: str, more: str = "", name: str = "p") -> str:
    return (
        f'[[publication]]\nname = "{name}"\nwindow = {{ new_cases = {window} }}\nmechanism = {{ {mechanism} }}\n'
        f"gate = {{ {gate} }}\n{more}\n"
    )


LOCAL = "[process.completion]\nlog_end = true\n"
SITUATIONS: dict[str, tuple[int, str, str, str, int]] = {
    # cases, traces, configuration, word, exit code of replay
    "every bound holds": (24, "abc", LOCAL + publication(8, COHORTS, f"{ALL}, max_minimality = 0"), "SAFE", 0),
    "rules not bounded": (24, "abc", LOCAL + publication(8, COHORTS, ALL), "LIMITED", 0),
    "a reader narrows down": (
        30,
        "ab,ab,ab,ab,ba",
        publication(30, 'kind = "tlkc", K = 7, L = 2, C = 1.0, suppression = "local"', ALL.replace("3", "7")),
        "LIMITED",
        0,
    ),
    "one bound missing": (24, "abc", publication(8, 'kind = "tlkc", K = 3', "min_ka = 3"), "LIMITED", 0),
    "only warned": (
        24,
        "abc",
        publication(9, 'kind = "identity"', f'{ALL.replace("3", "9")}, max_uniqueness = 0, on_violation = "warn"'),
        "LIMITED",
        0,
    ),
    "one of two cuts refused": (24, "abc", publication(8, 'kind = "identity"', "min_ka = 9"), "LIMITED", 3),
    "one of two cuts only waits": (24, "abc", publication(8, 'kind = "tlkc", K = 9', "min_ka = 9"), "LIMITED", 0),
    "a person decides": (
        24,
        "abc",
        publication(8, 'kind = "tlkc", K = 3', "min_ka = 3", 'approval = "required"'),
        "WAITING",
        3,
    ),
    "too few cases yet": (24, "abc", publication(8, 'kind = "tlkc", K = 30', "min_ka = 30"), "WAITING", 3),
    "the gate refuses": (24, "abc", publication(8, 'kind = "identity"', "min_ka = 30"), "WITHHELD", 3),
    "no window closed": (5, "abc", publication(8, 'kind = "tlkc", K = 3', "min_ka = 3"), "NOTHING RELEASED", 3),
}


@pytest.fixture(params=SITUATIONS, ids=lambda name: name.replace(" ", "-"))
def situation(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path, Path, str, int]:
    """(log, configuration, folder to be, word, exit code)."""
    cases, traces, config, word, code = SITUATIONS[request.param]
    path = tmp_path / "c.toml"
    path.write_text(config, encoding="utf-8")
    return csv(tmp_path, cases, traces), path, tmp_path / "out", word, code


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """A command, with its exit code and all that it prints."""

    def called(*words: object) -> tuple[int, str]:
        capfd.readouterr()
        code = execute([str(word) for word in words])
        printed = capfd.readouterr()
        return code, printed.out + printed.err

    return called


def headlines(text: str) -> set[str]:
    """The verdict words that a text shows, as whole words in capitals. Quoted explanations of all words are none."""
    found = set()
    for word in sorted(WORDS, key=len, reverse=True):
        if re.search(rf"(?<![A-Z]){word}(?![A-Z])", text):
            found.add(word)
            text = re.sub(rf"(?<![A-Z]){word}(?![A-Z])", "", text)
    return found


def page_headlines(page: str) -> list[str]:
    """The words of the badges of a page."""
    badges = re.findall(r'<span class="verdict">(.*?)</span>', page, re.S)
    return [html.unescape(one).strip().split(" ", 1)[1] for one in badges]


def contradictions(word: str, code: int, text: str) -> list[str]:
    """Pairs of headlines of one text that cannot both hold."""
    found = [f"{word} together with {other}" for other in headlines(text) - {word}]
    if code != LOOKS[word].exit_code and code == 0:
        found.append(f"exit 0 together with {word}")
    if word == "SAFE":
        known = ("can narrow a person down:", "holds: no", "in spite of", "was not measured", "no bound was set")
        found += [f"SAFE together with {one!r}" for one in known if one in text]
    return found


def test_every_door_shows_the_same_verdict(
    situation: tuple[Path, Path, Path, str, int], run: Run, tmp_path: Path
) -> None:
    """Word, symbol and exit code of replay and releases; badges of report and console; gauge; statement and verify."""
    log, config, out, word, code = situation
    look = LOOKS[word]
    ended, text = run("replay", log, "-c", config, "--columns", COLUMNS, "-o", out)
    assert (ended, text.split(":")[0]) == (code, f"[{look.symbol}] {word}")
    assert contradictions(word, ended, text) == []

    ended, text = run("releases", out)
    assert (ended, text.split(":")[0]) == (look.exit_code, f"[{look.symbol}] {word}")
    assert contradictions(word, ended, text) == []

    page = tmp_path / "report.html"
    ended, text = run("report", out, "-o", page)
    assert ended == look.exit_code
    assert contradictions(word, ended, text) == []
    assert page_headlines(page.read_text(encoding="utf-8")) == [word]

    ended, text = run("verify", out)
    checked = "HOLDS" in text  # there were bytes to compare with the ledger: of a release, or of a held one
    assert checked == (word in ("SAFE", "LIMITED") or "release waits" in str(verdicts_of(out)))
    assert (ended, headlines(text)) == ((0, set()) if checked else (3, {word}))

    ended, text = run("statement", out)
    assert ended == look.exit_code
    assert contradictions(word, ended, text) == []

    shown = Overview("2024-01-01T00:00:00", None, tuple(verdicts_of(out)), (), {})
    overview = Pages("here").render("overview", None, shown=shown, orders=None, words={}, page="overview")
    assert page_headlines(overview) == [word]


def test_the_gauge_shows_the_same_word(situation: tuple[Path, Path, Path, str, int], run: Run, tmp_path: Path) -> None:
    """The textfile of the metrics of the same run: 1 for the word, 0 for the others."""
    log, config, out, word, _ = situation
    left = tmp_path / "metrics.prom"
    run("replay", log, "-c", config, "--columns", COLUMNS, "-o", out, "--metrics-textfile", left)
    shown = re.findall(r'veilstream_verdict\{[^}]*verdict="([^"]+)"\} (\S+)', left.read_text(encoding="utf-8"))
    assert {name for name, value in shown if float(value)} == {word}
    assert {name for name, _ in shown} == set(WORDS)


def test_the_json_of_replay_and_releases_is_the_same(situation: tuple[Path, Path, Path, str, int], run: Run) -> None:
    """Verdicts with their exit code and the second line, for scripts."""
    log, config, out, word, _ = situation
    replayed = json.loads(
        run("replay", log, "-c", config, "--columns", COLUMNS, "-o", out, "--json")[1].splitlines()[-1]
    )
    listed = json.loads(run("releases", out, "--json")[1].splitlines()[-1])
    assert replayed["verdicts"] == listed["verdicts"]
    assert [(one["verdict"], one["exit_code"]) for one in listed["verdicts"]] == [(word, LOOKS[word].exit_code)]  # type: ignore[index]


def test_the_default_on_fewer_cases_than_it_needs_warns(run: Run, tmp_path: Path) -> None:
    """No configuration, twelve cases: a reason, a next step and exit 3, with and without a cut at the end."""
    log = csv(tmp_path, 12)
    for name, more in (("a", ()), ("b", ("--final",))):
        ended, text = run("replay", log, "--columns", COLUMNS, "-o", tmp_path / name, *more)
        assert ended == 3
        assert text.startswith("[-] NOTHING RELEASED: research: ")
        assert "Next step: " in text
        assert "12 " in text


def test_no_advice_weakens_a_bound(run: Run, tmp_path: Path) -> None:
    """One value of most cases: the message says of which cases, and never to raise C or lower K."""
    rows = (csv(tmp_path, 24)).read_text(encoding="utf-8").splitlines()
    marked = [f"{rows[0]},case:s"]
    for row in rows[1:]:
        number = int(row[1:].split(",")[0])
        marked.append(f"{row},{'x' if number else 'y'}")
    log = tmp_path / "marked.csv"
    log.write_text("\n".join(marked) + "\n", encoding="utf-8")
    config = tmp_path / "c.toml"
    config.write_text('[process]\nsensitive = ["s"]\n' + LOCAL + publication(12, COHORTS.replace("1.0", "0.5"), ALL))
    ended, text = run("replay", log, "-c", config, "--columns", COLUMNS, "-o", tmp_path / "out")
    assert ended == 3
    assert re.search(r"of the \d+ completed cases that wait for a release, \d+ % have one value of s", text)
    assert "raise C" not in text
    assert "lower K" not in text


def test_replay_and_advise_say_the_same_of_the_default(run: Run, tmp_path: Path) -> None:
    """Of 45 cases the last five only wait: what was released is SAFE, and `advise` says that it holds."""
    log = csv(tmp_path, 45)
    _, text = run("replay", log, "--columns", COLUMNS, "-o", tmp_path / "out", "--final", "--json")
    (verdict,) = json.loads(text.splitlines()[-1])["verdicts"]
    assert (verdict["waiting"], verdict["withheld"]) == (1, 0)
    _, text = run("advise", log, "--columns", COLUMNS, "--json")
    found = json.loads(text.splitlines()[-1])
    (default,) = [one for one in found["candidates"] if one["name"] == "cohorts-local-20"]
    assert (default["verdict"], default["holds"]) == (verdict["verdict"], True) == ("SAFE", True)


def test_a_reader_of_the_rules_has_a_line_of_their_own(run: Run, tmp_path: Path) -> None:
    """SAFE says that even such a reader narrows nobody down; LIMITED says how many sets do."""
    for name, start in (
        ("every bound holds", "    Even a reader of the program's source cannot narrow a person down below 3"),
        ("a reader narrows down", "    A reader of the program's source can narrow a person down: up to 1 set"),
    ):
        cases, traces, table, _, _ = SITUATIONS[name]
        config = tmp_path / "c.toml"
        config.write_text(table, encoding="utf-8")
        _, text = run(
            "replay", csv(tmp_path, cases, traces), "-c", config, "--columns", COLUMNS, "-o", tmp_path / name[:3]
        )
        assert text.splitlines()[1].startswith(start)


def test_a_publication_that_has_tried_nothing_is_shown_before_its_first_attempt(tmp_path: Path) -> None:
    """A dashboard has a word for it from the first second."""
    from stream.config.settings import Settings
    from stream.run.service import ReleaseService

    table: dict[str, Any] = {"name": "p", "window": {"new_cases": 5}, "mechanism": {"kind": "identity"}}
    settings = Settings.model_validate({"process": {"name": "x"}, "publication": [table]})
    metrics = Metrics("x", live=True)
    watch = MetricsObserver(settings, metrics)
    service = ReleaseService(settings, tmp_path, watch=watch)
    try:
        watch.opened(service)
    finally:
        service.close()
    shown = {
        one.labels["verdict"]
        for family in metrics.registry.collect()
        for one in family.samples
        if one.name == "veilstream_verdict" and one.value == 1
    }
    assert shown == {"NOTHING RELEASED"}


@pytest.mark.parametrize(
    ("word", "code", "text"),
    [
        ("SAFE", 0, "[+] SAFE: p: 2 releases\n[x] WITHHELD: p: nothing is released"),
        (
            "SAFE",
            0,
            "[+] SAFE: p: 2 releases\n    A reader of the program's source can narrow a person down: up to 1 set",
        ),
        ("SAFE", 0, "[+] SAFE: p: 2 releases, no bound was set on BA"),
        ("NOTHING RELEASED", 0, "[-] NOTHING RELEASED: p: no window has closed"),
        ("WAITING", 0, "[?] WAITING: p: nothing is released yet"),
    ],
)
def test_pairs_that_contradict_each_other_are_found(word: str, code: int, text: str) -> None:
    """Control: the check that all doors pass fails for pages that were seen on earlier versions."""
    assert contradictions(word, code, text) != []


def test_a_page_with_one_verdict_has_no_contradiction() -> None:
    """Control: words of other situations inside other words, and explanations, are none."""
    assert (
        contradictions("SAFE", 0, "[+] SAFE: p: 2 releases: at least 20 cases match (or none)\n  waits, 2 times: cases")
        == []
    )


def test_cuts_that_wait_are_shown_apart_from_refused_ones(run: Run, tmp_path: Path) -> None:
    """One cut of 8 waits for 9 cases, the next one has 16: `?` and `waiting` everywhere, never `x` or `withheld`."""
    log, config, out = csv(tmp_path, 24), tmp_path / "c.toml", tmp_path / "out"
    config.write_text(SITUATIONS["one of two cuts only waits"][2], encoding="utf-8")
    ended, text = run("replay", log, "-c", config, "--columns", COLUMNS, "-o", out)
    assert ended == 0
    assert re.search(r"^ \? +2024-01-01T", text, re.M)
    assert "withheld" not in text
    ended, text = run("releases", out)
    assert re.search(r"^ \? +waiting +2024-01-01T", text, re.M)
    assert "withheld" not in text
    ended, text = run("verify", out)
    assert "waited" in text
    assert "withheld" not in text
    ended, text = run("report", out, "--json")
    (verdict,) = json.loads(text)["verdicts"]
    (shown,) = json.loads(text)["publications"]
    assert (verdict["waiting"], verdict["withheld"]) == (1, 0)
    assert [row["status"] for row in shown["attempts"]].count("waiting") == 1
    replayed = json.loads(run("replay", log, "-c", config, "--columns", COLUMNS, "-o", out, "--json")[1])
    assert (len(replayed["waiting"]), replayed["withheld"]) == (1, [])


def test_one_publication_without_a_release_is_exit_3_at_every_door(run: Run, tmp_path: Path) -> None:
    """Two publications, one of which has released nothing: one exit code for every caller."""
    log, config, out = csv(tmp_path, 24), tmp_path / "c.toml", tmp_path / "out"
    good = publication(8, 'kind = "tlkc", K = 3', "min_ka = 3", name="good")
    config.write_text(good + publication(100, 'kind = "tlkc", K = 3', "min_ka = 3", name="later"), encoding="utf-8")
    codes = {
        "replay": run("replay", log, "-c", config, "--columns", COLUMNS, "-o", out)[0],
        "releases": run("releases", out)[0],
        "report": run("report", out, "-o", tmp_path / "r.html")[0],
    }
    assert codes == {"replay": 3, "releases": 3, "report": 3}


def test_verify_does_not_take_a_run_that_ended_for_one_that_waits(run: Run, tmp_path: Path) -> None:
    """A full disk before the first attempt leaves the same ledger as a window that has not closed."""
    note = "if the last one stopped with an error, such as a full disk, mend that and run it again first"
    log, config = csv(tmp_path, 24), tmp_path / "c.toml"
    for window, K, has_attempt in ((100, 3, False), (8, 30, True)):
        out = tmp_path / f"out-{window}"
        config.write_text(LOCAL + publication(window, f'kind = "tlkc", K = {K}', "min_ka = 3"), encoding="utf-8")
        assert run("replay", log, "-c", config, "--columns", COLUMNS, "-o", out)[0] == 3
        code, text = run("verify", out)
        assert code == 3, text
        assert (note in " ".join(text.split())) is not has_attempt


def test_a_window_of_completed_cases_without_a_completion_is_explained(run: Run, tmp_path: Path) -> None:
    """The user was sent to a smaller window, which no case would ever have filled."""
    log, config, out = csv(tmp_path, 24), tmp_path / "c.toml", tmp_path / "out"
    text = publication(8, 'kind = "tlkc", K = 3', "min_ka = 3").replace("new_cases", "completed_cases")
    assert "completed_cases" in text
    config.write_text(text, encoding="utf-8")
    code, printed = run("replay", log, "-c", config, "--columns", COLUMNS, "-o", out)
    assert code == 3
    assert "process.completion when a case is complete (veilstream check-config warns" in " ".join(printed.split())
    assert "ever makes a case complete" in " ".join(run("check-config", config)[1].split())


def test_a_window_with_another_trigger_is_not_said_to_stay_open(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    text = publication(8, 'kind = "tlkc", K = 3', "min_ka = 3")
    config.write_text(text.replace("new_cases = 8", 'completed_cases = 8, every = "7d"'), encoding="utf-8")
    code, printed = run("check-config", config)
    assert code == 0
    printed = " ".join(printed.split())
    assert "unless events mark the end of their case, completed_cases is never reached" in printed
    assert "never closes" not in printed
