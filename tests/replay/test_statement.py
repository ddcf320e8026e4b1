"""The statement says what the manifests say, and nothing that they do not."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from stream.commands import execute
from tests.conftest import DECLARED

CONFIGURATION = """
[process]
name = "ward"
[[publication]]
name = "counted"
window = { new_cases = 20 }
mechanism = { kind = "baseline-1", K = 5 }
[[publication]]
name = "grouped"
window = { new_cases = 60 }
mechanism = { kind = "tlkc", L = 1, K = 5, C = 0.5 }
[[publication]]
name = "noisy"
start = 2025-01-01T00:00:00Z
window = { every = "20m", time = "event" }
mechanism = { kind = "dp-variants", epsilon = 0.25, delta_dp = 1e-3 }
gate = { max_epsilon = 2 }
"""
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")
OF_THE_PAGE = {"1970", "01", "256"}
"""Numbers of fixed sentences: the date of the time column, and sha256."""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two publications of sixty cases."""
    folder = tmp_path_factory.mktemp("statement")
    rows = [
        f"c{i},{act},2025-01-01T{i // 60:02}:{i % 60:02}:{second:02}Z"
        for i in range(60)
        for second, act in enumerate(("in", "check", "out") if i % 3 else ("in", "out"))
    ]
    (folder / "ward.csv").write_text("\n".join(["case,act,time", *rows]) + "\n")
    (folder / "ward.toml").write_text(CONFIGURATION + DECLARED)
    columns = "case=case,activity=act,time=time"
    command = ["replay", str(folder / "ward.csv"), "--columns", columns, "-c", str(folder / "ward.toml")]
    assert execute([*command, "-o", str(folder / "out"), "--json"]) == 0
    return folder / "out"


def manifests(output: Path, publication: str) -> list[dict[str, Any]]:
    paths = sorted((output / "public" / publication).glob("release-*/manifest.json"))
    assert paths
    return [json.loads(path.read_text()) for path in paths]


def written(folder: Path, *arguments: str, suffix: str = ".md") -> str:
    page = folder / f"statement{suffix}"
    assert execute(["statement", *arguments, "-o", str(page)]) == 0
    return page.read_text()


def numbers(value: Any) -> set[str]:
    """Every number of a document, as it is written in it and as a person would write it."""
    if isinstance(value, dict):
        return set().union(*map(numbers, value.values()), *map(numbers, value))
    if isinstance(value, list):
        return set().union(*map(numbers, value))
    if isinstance(value, bool) or value is None:
        return set()
    return set(NUMBER.findall(str(value))) | ({f"{value:g}"} if isinstance(value, int | float) else set())


def rounded_up(factor: float) -> str:
    """To three digits: how much more likely a result can be is never given as less."""
    power = 2 - math.floor(math.log10(factor))
    return f"{math.ceil(factor * 10**power) / 10**power:.3g}"


@pytest.mark.parametrize("publication", ["counted", "noisy"])
def test_every_number_comes_from_a_manifest(output: Path, tmp_path: Path, publication: str) -> None:
    """Nothing is read off raw data: a number is one of a manifest, or e to the power of its epsilon."""
    series = manifests(output, publication)
    text = written(tmp_path, str(output), publication).replace("\\", "")
    text = re.sub(r"\b[0-9a-f]{64}\b", "", text)
    known = numbers(series) | OF_THE_PAGE
    for one in series:
        if one["budget"] is not None:
            spent = (one["budget"]["epsilon"], one["budget"]["spent"]["epsilon"])
            known |= {rounded_up(math.exp(epsilon)) for epsilon in spent}
    assert set(NUMBER.findall(text)) - known == set()


def test_what_a_release_with_noise_spent_is_reported(output: Path, tmp_path: Path) -> None:
    """Of this release, of all so far, and of the limit; never how many cases were counted."""
    last = manifests(output, "noisy")[-1]
    text = written(tmp_path, str(output), "noisy", str(last["sequence"])).replace("\\", "")
    assert f"epsilon {last['budget']['epsilon']:g}" in text
    assert "differ in one person (one case)" in text
    assert "does not add up" not in text  # these releases are about everything so far: it does
    assert f"epsilon {last['budget']['spent']['epsilon']:g} (of at most {last['budget']['limit']:g})" in text
    assert "not said" in text
    assert last["promise"]["guaranteed"][1:].rstrip(".") in text


def test_a_log_without_sensitive_attributes_is_promised_nothing_of_them(output: Path) -> None:
    """The mechanism's C bounds the share of a value, and there is none."""
    said = {one["mechanism"]["kind"]: one["promise"]["guaranteed"] for one in manifests(output, "grouped")}
    assert list(said) == ["tlkc"]
    assert "sensitive" not in said["tlkc"]


def test_the_counts_and_sums_of_each_release_are_there(output: Path, tmp_path: Path) -> None:
    """One row a release; the sum of a manifest is that of its file."""
    import hashlib

    text = written(tmp_path, str(output), "counted")
    for path in sorted((output / "public" / "counted").glob("release-*/manifest.json")):
        counts = json.loads(path.read_text())["counts"]
        assert f"| {counts['cases']} | {counts['events']} | {counts['variants']} |" in text
        assert hashlib.sha256(path.read_bytes()).hexdigest() in text
    assert "The chain holds" in text


@pytest.mark.parametrize("publication", ["counted", "noisy"])
def test_recipients_learn_that_releases_have_the_same_cases(output: Path, tmp_path: Path, publication: str) -> None:
    """Somebody who reads all files of a folder as one log has each case several times, under different ids."""
    text = written(tmp_path, str(output), publication)
    assert len(manifests(output, publication)) > 1
    assert "add no counts of several releases" in text


def test_a_recipient_writes_the_same_page_from_the_public_folder(output: Path, tmp_path: Path) -> None:
    """No file of the operator is needed."""
    shutil.copytree(output / "public", tmp_path / "received")
    assert written(tmp_path, str(tmp_path / "received"), "counted") == written(tmp_path, str(output), "counted")


def test_a_file_that_was_changed_on_the_way_is_named(
    output: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The chain of the manifests holds, and a recipient has no ledger for `verify`."""
    folder = tmp_path / "received"
    shutil.copytree(output / "public", folder)
    assert "Every file was compared, and has the sum that its manifest lists" in written(
        tmp_path, str(folder), "counted"
    )
    first, second, *_ = sorted((folder / "counted").glob("release-*"))
    (log,) = (path for path in first.iterdir() if path.name != "manifest.json")
    log.write_bytes(log.read_bytes() + b"x")
    for path in second.iterdir():
        if path.name != "manifest.json":
            path.unlink()
    text = written(tmp_path, str(folder), "counted")
    assert f"Release 1 is damaged or changed: {log.name} is missing, or has another sum" in text
    assert "The files of release 2 are not in this folder, and were not compared" in text
    assert "Every file was compared" not in text
    assert "The chain holds" in text
    capfd.readouterr()
    assert execute(["statement", str(folder), "counted", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["changed_files"] == [{"sequence": 1, "files": [log.name]}]


def test_a_manifest_that_was_changed_breaks_the_chain_and_a_hole_is_named(output: Path, tmp_path: Path) -> None:
    """The page reports it instead of passing over it."""
    shutil.copytree(output / "public", tmp_path / "received")
    first, second, *_ = sorted((tmp_path / "received" / "counted").glob("release-*"))
    body = json.loads((first / "manifest.json").read_text())
    (first / "manifest.json").write_text(json.dumps({**body, "published": "2020-01-01T00:00:00+00:00"}))
    assert "The chain is broken" in written(tmp_path, str(tmp_path / "received"), "counted")
    shutil.rmtree(second)
    text = written(tmp_path, str(tmp_path / "received"), "counted")
    assert "Missing: release 2." in text
    assert "a person rejected the release, if a newer one took its place" in text  # no crash, and nothing is lost


def test_text_of_a_manifest_is_text(output: Path, tmp_path: Path) -> None:
    """No markup of it reaches the page, in neither format."""
    shutil.copytree(output / "public", tmp_path / "received")
    for path in (tmp_path / "received" / "counted").glob("release-*/manifest.json"):
        body = json.loads(path.read_text())
        path.write_text(json.dumps({**body, "carries": ["<script>alert(1)</script>", "a|b", "[x](http://y)"]}))
    page = written(tmp_path, str(tmp_path / "received"), "counted", suffix=".html")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    text = written(tmp_path, str(tmp_path / "received"), "counted")
    assert r"\<script\>" in text
    assert r"a\|b" in text
    assert r"\[x\]" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name the publication"),
        (("other",), "no release of publication 'other'"),
        (("counted", "99"), "no release 99"),
        (("counted", "-o", "page.pdf"), ".html or .md"),
    ],
)
def test_what_cannot_be_stated_is_reported_in_one_line(
    output: Path, arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, and what to do."""
    assert execute(["statement", str(output), *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.strip().splitlines()) == 1


def test_a_folder_without_a_release_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["statement", str(tmp_path), "counted"]) == 2
    assert "it holds no release" in capsys.readouterr().err


def test_the_words_of_a_promise_are_explained_on_the_page(output: Path, tmp_path: Path) -> None:
    """Of the items and codes that appear there, and of no others: a recipient has no glossary."""
    grouped = written(tmp_path, str(output), "grouped").split("## Words of this page")[1].split("## Signature")[0]
    words = set(re.findall(r"^\| \*\*(.+?)\*\* \|", grouped, re.MULTILINE))
    assert {"item", "seq", "ac", "L", "K", "C", "T", "manifest"} <= words
    assert not {"epsilon", "delta", "cohort"} & words
    noisy = written(tmp_path, str(output), "noisy").split("## Words of this page")[1]
    words = set(re.findall(r"^\| \*\*(.+?)\*\* \|", noisy, re.MULTILINE))
    assert {"epsilon", "delta", "unbounded"} <= words
    assert not {"seq", "K", "L"} & words


def test_the_clock_of_each_release_is_stated(output: Path, tmp_path: Path) -> None:
    """A replay publishes the last one when the log has ended, by the wall clock: the note is about the others."""
    shutil.copytree(output / "public", tmp_path / "received")
    paths = sorted((tmp_path / "received" / "counted").glob("release-*/manifest.json"))
    for number, path in enumerate(paths, start=1):
        body = json.loads(path.read_text())
        body.pop("clock", None)
        path.write_text(json.dumps(body | ({"clock": "simulated"} if number < 3 else {})))
    text = written(tmp_path, str(tmp_path / "received"), "counted")
    assert len(paths) == 3
    assert "Release 1 to 2: made from a recorded log" in text
    assert "These releases were made from a recorded log" not in text
