"""Attacks on held-out cases before a release: kept next to its audit, never public, and no gate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream.commands import execute
from stream.ledger.layout import ASSESSMENT, OPERATOR_FILES

ROOT = Path(__file__).resolve().parents[2]
HOSPITAL = ROOT / "examples" / "hospital.xes.gz"

PROCESS = '[process]\nname = "hospital"\n\n[process.completion]\nend_activities = ["Discharge"]\n\n[[publication]]\n'
COHORTS = 'name = "research"\nwindow = { completed_cases = 900 }\nmechanism = { kind = "tlkc-cohorts", L = 2, K = 5 }\n'
NOISE = (
    'name = "noisy"\nwindow = { completed_cases = 1500 }\n'
    'mechanism = { kind = "dp-variants", epsilon = "1", delta_dp = "1e-6" }\ngate = { public_cut = true }\n'
)


def _replay(tmp_path: Path, publication: str, *words: str) -> tuple[int, Path]:
    config, out = tmp_path / "veilstream.toml", tmp_path / "out"
    config.write_text(PROCESS + publication, encoding="utf-8")
    return execute(["replay", str(HOSPITAL), "-c", str(config), "-o", str(out), *words]), out


def _charges(out: Path, name: str, capfd: pytest.CaptureFixture[str]) -> object:
    capfd.readouterr()
    assert execute(["report", str(out), "--json"]) == 0
    publications = json.loads(capfd.readouterr().out)["publications"]
    return next(one["budget"] for one in publications if one["name"] == name)


@pytest.mark.parametrize(
    ("publication", "words"), [(COHORTS, ("--assess",)), (COHORTS + "assess = true\n", ())], ids=["option", "key"]
)
def test_the_assessment_is_next_to_the_audit_and_not_public(
    publication: str, words: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out = _replay(tmp_path, publication, *words)
    assert code in (0, 3)
    shown = capfd.readouterr().out
    folders = sorted((out / "operator" / "research").glob("0*"))
    assert folders
    for folder in folders:
        document = json.loads((folder / ASSESSMENT).read_text(encoding="utf-8"))
        (assessment,) = document["assessments"]
        assert assessment["both_ways"] == 1
        assert [profile["profile"] for profile in assessment["profiles"]] == ["promised", "stronger"]
        attacks = {measure["attack"] for measure in assessment["profiles"][0]["measures"]}
        assert attacks == {"singling out", "linkability", "inference", "membership", "reconstruction"}
        # Figures and names of attributes, and no case.
        assert "case_ids" not in json.dumps(document)
    public = [path.name for path in (out / "public").rglob("*")]
    assert not any("assess" in name for name in public)
    for manifest in (out / "public").rglob("manifest.json"):
        assert "assess" not in manifest.read_text(encoding="utf-8")
    assert "attacks on held-out cases" in shown
    assert execute(["verify", str(out)]) == 0
    page = tmp_path / "report.html"
    assert execute(["report", str(out), "-o", str(page)]) == 0
    assert "Attacks on held-out cases before the last release" in page.read_text(encoding="utf-8")


def test_a_replay_without_it_leaves_the_same_releases_and_no_assessment(tmp_path: Path) -> None:
    code, out = _replay(tmp_path, COHORTS)
    assert code in (0, 3)
    (folder, *_) = sorted((out / "operator" / "research").glob("0*"))
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} >= set(OPERATOR_FILES)
    assert not (folder / ASSESSMENT).exists()


def test_the_noise_of_held_out_cases_costs_no_epsilon(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    spent = []
    for name, words in (("with", ("--assess",)), ("without", ())):
        (tmp_path / name).mkdir()
        code, out = _replay(tmp_path / name, NOISE, *words)
        assert code in (0, 3)
        spent.append(_charges(out, "noisy", capfd))
    assert spent[0] == spent[1]
    assert (tmp_path / "with" / "out" / "operator" / "noisy" / "000001" / ASSESSMENT).is_file()


def test_a_cut_that_cannot_be_divided_says_why_and_is_released(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release leaves even if an attack fails."""
    from stream.release import held_out

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(held_out, "assess_mechanism", broken)
    code, out = _replay(tmp_path, COHORTS, "--assess")
    assert code in (0, 3)
    document = json.loads((out / "operator" / "research" / "000001" / ASSESSMENT).read_text(encoding="utf-8"))
    assert "ZeroDivisionError" in document["reason"]
    assert (out / "public" / "research" / "release-000001" / "manifest.json").is_file()
    assert "Not run" in capfd.readouterr().out
