"""`veilstream attack` on the Sepsis pair, on bad input, and its exact values against an independent program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import read_log
from connectors.logs import write_log
from models.attacks.candidates import candidate_values
from models.attacks.correspondence import AttackQuestion, PairAttack, every_candidate
from models.attacks.linker import base_linkers
from models.attacks.pairs import join_releases, unmatched
from models.eventlog import EventLog, SimpleLog
from stream.commands import execute
from tests.oracles import attacks as oracle


def cut(log: EventLog, started: int) -> EventLog:
    """The cases started up to the given start, their events cut at that instant."""
    begun = log.time[log.starts[:-1]]
    instant = np.sort(begun)[started - 1]
    kept = log.select_cases(begun <= instant)
    return kept.select_events(kept.time <= instant)


def top(log: EventLog, activities: int) -> EventLog:
    """The log projected on its most frequent activities."""
    often = np.argsort(-np.bincount(log.activity.codes), kind="stable")[:activities]
    return log.select_events(np.isin(log.activity.codes, often))


def asked(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> Any:
    """The JSON that `veilstream attack` prints."""
    assert execute(["attack", *arguments, "--json"]) == 0
    return json.loads(capfdbinary.readouterr().out)


@pytest.fixture(scope="module")
def sepsis(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The pair of the semantics page as files: 1,040 of 1,050 cases, and all."""
    log = read_log(logs / "sepsis.xes.gz")
    folder = tmp_path_factory.mktemp("pair")
    paths = folder / "L1.xes.gz", folder / "L2.xes.gz"
    write_log(cut(log, 1040), paths[0])
    write_log(log, paths[1])
    return str(paths[0]), str(paths[1])


def test_sepsis_pair(sepsis: tuple[str, str], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """The pair gives the values of the issue for n = 1..5 at bk length 5."""
    body = asked(capfdbinary, *sepsis, "--sensitive", "Diagnose", "--bk-length", "5", "--n", "1..5")
    assert (body["bk_length"], body["method"], body["cases"]) == (5, "exact", [1040, 1050])
    rows = [[row[name] for name in ("n", "linker", "ka1", "ka2", "fa", "ba")] for row in body["results"]]
    ones = [[n, "exists", 1, 1, 1, 1] for n in (1, 2, 3)]
    assert rows == [*ones, [4, "exists", 6, 6, 6, 2], [5, "exists", 1040, 1050, 1040, 10]]


def test_named_candidates_and_all(
    sepsis: tuple[str, str], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Named candidates are reported for each n, and their values are in the Parquet file of all."""
    import pyarrow.parquet as pq

    every = tmp_path / "all.parquet"
    bk = "Release A,Return ER"
    body = asked(capfdbinary, *sepsis, "--sensitive", "Diagnose", "--n", "0", "--bk", bk, "--all", str(every))
    (found,) = body["candidates"]
    table = pq.read_table(every).to_pylist()
    assert len(table) == 16 + 16**2
    (row,) = (row for row in table if row["bk"] == bk.split(","))
    assert {name: row[name] for name in ("n", "ms1", "ms2", "f", "c", "b")} == {
        name: found[name] for name in ("n", "ms1", "ms2", "f", "c", "b")
    }


def small(folder: Path, name: str, *cases: tuple[str, str | None]) -> str:
    path = folder / f"{name}.csv"
    write_log(EventLog.from_traces([(tuple(trace), own) for trace, own in cases]), path)
    return str(path)


def test_three_releases(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Three logs give every pair and the series."""
    names = [small(tmp_path, str(k), *[("ab", "X")] * (k + 1)) for k in range(3)]
    body = asked(capfdbinary, *names, "--sensitive", "sensitive", "--n", "0")
    assert [(own["earlier"], own["later"]) for own in body["pairs"]] == [(1, 2), (1, 3), (2, 3)]
    assert body["series"]["releases"] == 3
    assert body["series"]["results"][0]["ba"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sensitive": "other"}, "no attribute 'other'"),
        ({"releases": ("two", "one")}, "fewer than the 2"),
        ({"releases": ("one", "strange")}, "no activity in common"),
        ({"releases": ("one",)}, "two or more"),
        ({"n": "0..200"}, "n = 128 is not in"),
        ({"n": "x"}, "--n: 'x'"),
        ({"length": "0"}, "bk_length = 0"),
        ({"method": "fast"}, "method 'fast'"),
        ({"bk": "a,zz"}, "activity 2 of 2"),
        ({"link": "colour"}, "link = 'colour' is not one of ac, re, time"),
        ({"taxonomy": "missing.csv"}, "no such file"),
    ],
)
def test_bad_input(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], change: dict[str, Any], message: str
) -> None:
    """Bad input ends with exit code 2 and one line that says what is wrong."""
    files = {
        "one": small(tmp_path, "one", ("ab", "X")),
        "two": small(tmp_path, "two", ("ab", "X"), ("abc", "X")),
        "strange": small(tmp_path, "strange", ("xy", "X"), ("x", "X")),
    }
    wanted = change.get("releases", ("one", "two"))
    arguments = ["attack", *(files[name] for name in wanted), "--sensitive", change.get("sensitive", "sensitive")]
    arguments += ["--n", change.get("n", "0"), "--bk-length", change.get("length", "2")]
    arguments += ["--method", change.get("method", "exact"), "--link", change.get("link", "")]
    for option in ("bk", "taxonomy"):
        arguments += [f"--{option}", change[option]] if option in change else []
    assert execute(arguments) == 2
    error = capfdbinary.readouterr().err.decode()
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--joint"], "name it by bk"),
        (["--bk", ","], "bk names no activity"),
        (["--link", "time", "--T", "weeks"], "T = 'weeks' is not one of seconds, minutes, hours, days"),
        (["--all", "FOLDER/nowhere/all.parquet"], "no such folder"),
        (["--all", "FOLDER/all.parquet", "FOLDER/two.csv"], "two releases"),
        (["--attribute", "re"], "one.csv: the log has no resource"),
        (["--taxonomy", "FOLDER/latin.csv"], "not a CSV file in UTF-8"),
        (["--taxonomy", "FOLDER/empty.csv"], "no line"),
        (["--taxonomy", "FOLDER/strange.csv"], "names no activity that a release shows"),
        (["--taxonomy", "FOLDER/twice.csv"], "line 2: expected activity,generalization"),
    ],
)
def test_nothing_asked_for_is_ignored(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], arguments: list[str], message: str
) -> None:
    """An option that could do nothing, or that names what is not there, is one line and exit code 2."""
    names = [small(tmp_path, "one", ("ab", "X")), small(tmp_path, "two", ("ab", "X"), ("abc", "X"))]
    for name, content in (("latin", b"\xff,a\n"), ("empty", b""), ("strange", b"q,z\n"), ("twice", b"a,t\na,s\n")):
        (tmp_path / f"{name}.csv").write_bytes(content)
    asked_for = [part.replace("FOLDER", str(tmp_path)) for part in arguments]
    assert execute(["attack", *names, *asked_for]) == 2
    error = capfdbinary.readouterr().err.decode()
    assert message in error
    assert error.count("\n") == 1


def test_linking_on_what_the_releases_carry_besides(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """By activities either record of the later release can be the new one; by resources or times only the one that
    lacks x: so that activities alone, the default, leave one case if nobody is left."""
    minutes = np.asarray([0, 1, 2, 0, 5]) * 60_000_000_000
    first = EventLog.from_events(["1", "1"], [*"ab"], minutes[:2], [*"rr"], unit="ns")
    both = EventLog.from_events([*"11122"], [*"abxab"], minutes, [*"rrrss"], unit="ns")
    names = [str(tmp_path / "L1.csv"), str(tmp_path / "L2.csv")]
    for name, log in zip(names, (first, both), strict=True):
        write_log(log, Path(name))
    left = {}
    for link in ("", "re", "time", "re,time"):
        body = asked(capfdbinary, *names, "--n", "0", "--bk", "x", "--link", link)
        left[link] = body["candidates"][0]["ba"]
    assert left == {"": 1, "re": 0, "time": 0, "re,time": 0}


def test_the_table_shows_series_and_named_candidates_of_every_pair(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The result of --json for three releases is on the terminal too."""
    names = [small(tmp_path, str(k), *[("ab", "X")] * (k + 1), *[("abx", "X")] * (k // 2)) for k in range(3)]
    asked = ["attack", *names, "--sensitive", "sensitive", "--n", "0", "--bk", "a,b", "--bk", "b,x"]
    assert execute(asked) == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    rows = [re.split(r" {2,}", line.strip()) for line in lines]
    assert [row[:3] for row in rows if row[0] == "1..3"] == [["1..3", "0", "1"]]
    named = {bk: [row[0] for row in rows if row[1:2] == [bk]] for bk in ("a, b", "b, x")}
    assert named == {"a, b": ["1, 2", "1, 3", "2, 3"], "b, x": ["1, 3", "2, 3"]}  # x is in release 3 alone
    assert execute([*asked, "--bk", "b,y"]) == 2
    assert b"bk: activity 2 of 2 occurs in none of the releases" in capfdbinary.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sensitive", "activities"), [("sepsis", "Diagnose", 5), ("bpic2012-app", "", 0)])
def test_exact_values_agree_with_linear_programs(logs: Path, name: str, sensitive: str, activities: int) -> None:
    """On 200 sampled candidates, up to half of them not trivial, M and BA are those of HiGHS."""
    rng = np.random.default_rng(5)
    log = read_log(logs / f"{name}.xes.gz")
    earlier, later = (_simple(one, sensitive, activities) for one in (cut(log, log.n_cases * 9 // 10), log))
    joined = join_releases(earlier, later)
    audit = PairAttack(joined, 4, [1], "exact", "all")
    (base,) = base_linkers(joined, audit.linkable, [1])
    assert base.exists
    rows1, rows2, least = audit.linkable.links()
    links = np.column_stack((rows1, rows2))[(least & 127) <= 1]
    chosen, uneven = _sample(earlier, later, rng, 200)
    for bk in chosen:
        inside = unmatched(audit.table, bk) <= 1
        in1, in2 = inside[joined.earlier.known_variant], inside[joined.later.known_variant]
        found = candidate_values(audit.valuer(base), bk)
        expected = oracle.by_program(joined.earlier.count, joined.later.count, links, in1, in2)
        assert (found["fa"], found["ba"]) == expected
    assert (len(chosen), uneven >= 20) == (200, True)


def _sample(earlier: SimpleLog, later: SimpleLog, rng: np.random.Generator, size: int) -> tuple[list[Any], int]:
    """Candidates, up to half of them with 0 < BA < |L2| - |L1|."""
    blocks = list(every_candidate(AttackQuestion(bk_length=4, n=[1]), earlier, later))
    codes, rows = np.concatenate([one[2] for one in blocks]), np.concatenate([one[3] for one in blocks])
    left = rows[:, 1] - rows[:, 4]
    order = rng.permutation(len(codes))
    between = (left[order] > 0) & (left[order] < later.n_cases - earlier.n_cases)
    first = order[between][: size // 2]
    rest = order[~np.isin(order, first)][: size - len(first)]
    return [codes[row][codes[row] >= 0].astype(np.int32) for row in (*first, *rest)], len(first)


def _simple(log: EventLog, sensitive: str, activities: int) -> SimpleLog:
    """The simple log of a projection; the sensitive value is read before events that carry it are removed."""
    own = log.sensitive([sensitive] if sensitive else [])
    shown = top(log, activities) if activities else log
    return SimpleLog.from_items(shown.starts, shown.activity, own)
