"""Part 4 of the dossier: other values of the parameters, replayed on the original log."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from stream.commands import execute
from stream.config import sources
from stream.operator.dossier.alternatives import alternatives
from tests.dossiers import NOISE, replayed, small, write_log


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small log and three releases of it, with groups of five."""
    folder = tmp_path_factory.mktemp("alternatives")
    replayed(folder, small())
    return folder


def _figures(folder: Path, capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any] | None:
    code = execute(["dossier", str(folder / "out"), *words, "--json"])
    captured = capfd.readouterr()
    assert code == 0, captured.err
    figures: dict[str, Any] | None = json.loads(captured.out)["alternatives"]
    return figures


@pytest.fixture(scope="module")
def measured(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folder, whose alternatives have been replayed."""
    folder = tmp_path_factory.mktemp("measured") / "world"
    shutil.copytree(world, folder)
    words = ["-c", str(folder / "clinic.toml"), "--original", str(folder / "clinic.csv")]
    assert execute(["dossier", str(folder / "out"), "steps", *words, "--json"]) == 0
    return folder


def test_each_value_is_replayed_with_its_own_bounds(measured: Path, capfd: pytest.CaptureFixture[str]) -> None:
    figures = _figures(measured, capfd, "steps", "-c", str(measured / "clinic.toml"))
    assert figures is not None
    rows = {(row["name"], row["value"]): row for row in figures["rows"]}
    assert [key for key in rows if key[0] == "K"] == [("K", 5), ("K", 10), ("K", 20), ("K", 50)]
    assert [key for key, row in rows.items() if row["chosen"]] == [("K", 5)]
    assert rows["K", 5]["released"] == 3, "as the publication itself"
    assert rows["K", 5]["least"] >= 5
    assert rows["K", 20]["released"] < 3, "the first windows have fewer cases than its bound"
    assert rows["K", 50]["released"] == 0, "the log has 30 cases"
    assert rows["kind", "dp-variants"]["epsilon"] > 0
    assert rows["kind", "dp-variants"]["least"] is None


def test_the_original_is_read_once_and_its_figures_are_kept(
    world: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "world"
    shutil.copytree(world, folder)
    config = ["-c", str(folder / "clinic.toml")]
    first = _figures(folder, capfd, "steps", *config, "--original", str(folder / "clinic.csv"))
    (folder / "clinic.csv").unlink()
    assert _figures(folder, capfd, "steps", *config) == first
    kept = folder / "out" / "operator" / "for_officers" / "steps" / "alternatives.json"
    assert kept.stat().st_mode & 0o077 == 0
    assert execute(["verify", str(folder / "out")]) == 0
    assert "for_officers" not in capfd.readouterr().out


def test_figures_of_another_configuration_are_not_shown(
    measured: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "world"
    shutil.copytree(measured, folder)
    config = ["-c", str(folder / "clinic.toml")]
    assert _figures(folder, capfd, "steps", *config) is not None
    kept = folder / "out" / "operator" / "for_officers" / "steps" / "alternatives.json"
    body = json.loads(kept.read_text())
    kept.write_text(json.dumps({**body, "config_digest": "0" * 64}))
    assert _figures(folder, capfd, "steps", *config) is None


def test_another_log_and_a_missing_configuration_are_refused(
    world: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = write_log(tmp_path / "other.csv", cases=31)
    words = ["dossier", str(world / "out"), "steps", "-c", str(world / "clinic.toml")]
    assert execute([*words, "--original", str(other)]) == 2
    assert "is not the log that this folder's replay read" in capfd.readouterr().err
    # A folder of an earlier program has no copy of its configuration.
    earlier = shutil.copytree(world / "out", tmp_path / "out")
    (earlier / "operator" / ".configuration.json").unlink()
    assert execute(["dossier", str(earlier), "steps", "--original", str(world / "clinic.csv")]) == 2
    assert "give it with -c FILE" in capfd.readouterr().err


def test_nothing_leaves_for_the_store_of_the_publication(
    world: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The configuration of the real series may name a bucket: an alternative is never published there."""
    store = tmp_path / "store"
    config = tmp_path / "stored.toml"
    config.write_text(f'store = "file://{store}"\n' + (world / "clinic.toml").read_text())
    words = ["-c", str(config), "--original", str(world / "clinic.csv")]
    assert _figures(world, capfd, "steps", *words) is not None
    assert not store.exists()


def test_alternatives_with_noise_are_said_not_to_be_private(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = replayed(tmp_path, NOISE.replace("TRIGGER", "new_cases = 10"))
    words = ["-c", str(tmp_path / "clinic.toml"), "--original", str(tmp_path / "clinic.csv")]
    assert execute(["dossier", str(output), "counts", *words]) == 0
    text = capfd.readouterr().out
    part_4 = text.split("## 4. ")[1].split("## 5. ")[0]
    assert "so they are not private themselves" in part_4
    assert "epsilon 0.5 (chosen)" in part_4
    assert "tlkc-cohorts" in part_4


def test_an_alternative_differs_in_its_value_alone(tmp_path: Path) -> None:
    """The gate follows K, and a promise about fewer items is attacked with as many."""
    path = tmp_path / "c.toml"
    path.write_text(
        '[process]\nname = "clinic"\n[[publication]]\nname = "steps"\nwindow = { new_cases = 100 }\n'
        'mechanism = { kind = "tlkc-cohorts", L = 2, K = 20, C = 1.0, suppression = "local" }\n'
        "audit = { bk_length = 2, n = [0, 1] }\n"
        "gate = { min_ka = 20, min_ba = 30, max_minimality = 0 }\n"
    )
    settings = sources.load(path, {})
    (publication,) = settings.publication
    found = {(one.name, one.value): one.table for one in alternatives(publication, settings, None)}  # type: ignore[arg-type]
    assert found["K", 50]["gate"] == {"min_ka": 50, "min_ba": 30, "max_minimality": 0}
    assert found["K", 50]["mechanism"] == {**publication.mechanism, "K": 50}
    assert found["K", 20]["gate"] == {"min_ka": 20, "min_ba": 30, "max_minimality": 0}
    assert found["L", 1]["audit"]["bk_length"] == 1
    assert found["L", 1]["audit"]["n"] == [0]
    assert found["suppression", "exact"]["gate"] == {"min_ka": 20, "min_ba": 30}
    assert found["suppression", "exact"]["mechanism"]["suppression"] == "exact"


def test_a_bound_on_uniqueness_or_utility_is_kept_with_its_audit(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each alternative of groups is possible; only audits without a bound are left out."""
    bounds = "min_ka = 5, max_uniqueness = 0.9, min_utility = 0.1"
    configuration = small().replace("min_ka = 5", bounds).replace(", risk = false, utility = false", "")
    replayed(tmp_path, configuration)
    capfd.readouterr()
    words = ["-c", str(tmp_path / "clinic.toml"), "--original", str(tmp_path / "clinic.csv")]
    figures = _figures(tmp_path, capfd, "steps", *words)
    assert figures is not None
    assert [row["refused"] for row in figures["rows"]] == [""] * len(figures["rows"])
    settings = sources.load(tmp_path / "clinic.toml", {})
    (publication,) = settings.publication
    tables = {(one.name, one.value): one.table for one in alternatives(publication, settings, None)}  # type: ignore[arg-type]
    assert tables["K", 20]["gate"]["max_uniqueness"] == 0.9
    assert not {"risk", "utility"} & {name for name, value in tables["K", 20]["audit"].items() if value is False}
    # Noise is compared without the bounds of groups, so that its audits are not needed.
    assert tables["kind", "dp-variants"]["audit"]["utility"] is False


def test_each_alternative_has_a_risk_that_was_measured(measured: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """K = 5 and 10, one item more, and noise: both halves of 30 cases are released and attacked. K = 20 and 50 are
    more than a half has."""
    figures = _figures(measured, capfd, "steps", "-c", str(measured / "clinic.toml"))
    assert figures is not None
    risks = {(row["name"], row["value"]): row["risk"] for row in figures["rows"]}
    for key in (("K", 5), ("K", 10), ("L", 2)):
        assert risks[key]["low"] <= risks[key]["risk"] <= risks[key]["high"], key
        # All cases have the same three steps: nobody differs from anybody.
        assert risks[key]["low"] <= 0 <= risks[key]["high"], key
    reasons = {(row["name"], row["value"]): row["no_risk"] for row in figures["rows"]}
    for key in (("K", 20), ("K", 50)):
        assert risks[key] is None
        assert "the log has 15 cases" in reasons[key], key
