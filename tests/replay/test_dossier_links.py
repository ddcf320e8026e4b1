"""The last dossier and its assessment are kept with the operator's files; report and console link to them."""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from stream.commands import execute
from tests.dossiers import replayed, small
from tests.serving import Console, start


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dossier of `steps` and the attacks that it names."""
    folder = tmp_path_factory.mktemp("links")
    output = replayed(folder, small())
    measure = {"attack": "membership", "how": "whole case", "rate": 0.5, "control": 0.5, "targets": 3}
    measure |= {"control_targets": 3, "risk": 0.0, "low": -0.1, "high": 0.1, "power": None, "result": "not seen"}
    profile = {"profile": "promised", "knows": "one step", "measures": [measure]}
    assessed = {"attacked": "newest release alone", "control_cases": 3, "drift": None, "profiles": [profile]}
    parameters = {"K": 5, "L": 1, "C": 1.0, "knowledge": "set", "attribute": "ac", "suppression": "exact"}
    trial = {"name": "a trial", "mechanism": {"kind": "tlkc", "parameters": parameters}}
    body = {"version": 1, "releases": [trial], "assessments": [assessed]}
    (folder / "assessment.json").write_text(json.dumps(body))
    words = ["dossier", str(output), "steps", "--assessment", str(folder / "assessment.json")]
    assert execute([*words, "-o", str(folder / "dossier.html")]) == 0
    return folder


@pytest.fixture(scope="module")
def console(world: Path) -> Iterator[Console]:
    """A console of the folder, signed in."""
    running = start(world / "out", world / "serving.log")
    running.sign_in()
    yield running
    running.end()


def test_the_kept_page_is_the_one_that_was_written(world: Path) -> None:
    kept = world / "out" / "operator" / "for_officers" / "steps"
    assert (kept / "dossier.html").read_bytes() == (world / "dossier.html").read_bytes()
    assert "whole case" in (kept / "assessment.html").read_text(encoding="utf-8")
    assert [path.stat().st_mode & 0o077 for path in kept.iterdir()] == [0, 0]
    assert execute(["verify", str(world / "out")]) == 0


def test_the_report_links_to_both(world: Path, tmp_path: Path) -> None:
    """By a path that works from where the page is, also with a space in it."""
    place = tmp_path / "a place"
    place.mkdir()
    assert execute(["report", str(world / "out"), "-o", str(place / "report.html")]) == 0
    text = (place / "report.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([^"#]+)">(dossier|assessment)</a>', text)
    assert [name for _, name in links] == ["dossier", "assessment"]
    for address, name in links:
        assert (place / unquote(html.unescape(address))).resolve().name == f"{name}.html"
        assert (place / unquote(html.unescape(address))).is_file()


def test_a_report_without_a_dossier_links_to_nothing(tmp_path: Path) -> None:
    output = replayed(tmp_path, small())
    assert execute(["report", str(output), "-o", str(tmp_path / "report.html")]) == 0
    assert "For the officer" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_console_shows_both_under_a_strict_policy(console: Console) -> None:
    overview = console.ask("/")
    for name in ("dossier", "assessment"):
        assert f'href="/papers/steps/{name}"' in overview.text
        answer = console.ask(f"/papers/steps/{name}")
        assert answer.status == 200
        policy = answer.headers["content-security-policy"]
        assert "script" not in policy or "script-src 'none'" in policy
        assert "style-src-elem 'sha256-" in policy
    assert 'href="/papers/steps/dossier"' in console.ask("/report").text


@pytest.mark.parametrize("path", ["/papers/steps/key", "/papers/none/dossier", "/papers/..%2f..%2foperator/dossier"])
def test_no_other_file_is_served(console: Console, path: str) -> None:
    assert console.ask(path).status == 404


def test_nobody_reads_them_without_signing_in(console: Console) -> None:
    assert console.ask("/papers/steps/dossier", headers={"Cookie": ""}).status == 401


def test_an_assessment_before_the_release_is_read_by_itself(
    world: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`[publication] assess = true` writes it next to the audit of the release."""
    output = tmp_path / "out"
    shutil.copytree(world / "out", output)
    body = json.loads((world / "assessment.json").read_text())
    body["assessments"][0]["attacked"] = "releases of both halves of the cut"
    place = output / "operator" / "steps" / "000003" / "assessment.json"
    place.write_text(json.dumps({"version": 1, "held_out": True, "assessments": body["assessments"]}))
    assert execute(["dossier", str(output), "steps"]) == 0
    text = capfd.readouterr().out
    assert "trial release of a random half of the log: attack (whole case" in text
    assert "Only trial releases were attacked" in text.split("## 1. ")[0]
