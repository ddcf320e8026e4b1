"""`--set KEY=VALUE` of `anonymize` takes what the configuration file takes, and the documented figures hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models.errors import InputError
from stream.commands import execute
from stream.release.mechanisms import mechanism
from stream.release.single import mechanism_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("kind", "key", "text", "expected"),
    [
        ("tlkc", "algorithm", "2", 2),
        ("tlkc", "algorithm", "1", 1),
        ("tlkc", "suppression", "local", "local"),
        ("tlkc", "also", "set,mult", ("set", "mult")),
        ("tlkc", "capping", "false", False),
        ("tlkc", "L", "3", 3),
        ("tlkc-cohorts", "balance", "0.4", 0.4),
    ],
)
def test_a_value_of_set_is_read_by_the_type_of_its_key(kind: str, key: str, text: str, expected: Any) -> None:
    assert getattr(mechanism_of(kind, {key: text}), key) == expected


def test_a_pair_of_moments_is_one_value() -> None:
    """`start` is two moments: in a file a list, in a flag with a comma."""
    given = {"epsilon": "5", "delta_dp": "1e-6", "max_duration": "30d"}
    found = mechanism_of("dp-synthetic", {**given, "start": "2024-01-01T00:00:00Z,2024-03-01T00:00:00Z"})
    assert [moment.month for moment in found.start] == [1, 3]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("key", "text"), [("algorithm", "3"), ("algorithm", "two"), ("also", "rel")])
def test_a_wrong_value_is_still_refused(key: str, text: str) -> None:
    with pytest.raises(InputError):
        mechanism_of("tlkc", {key: text})


def test_set_and_the_flag_of_its_own_release_the_same(tmp_path: Path) -> None:
    """`--algorithm 2` and `--set algorithm=2`, from outside."""
    source = str(ROOT / "examples" / "hospital.xes.gz")
    for name, flags in (("a", ["--algorithm", "2"]), ("b", ["--set", "algorithm=2"])):
        target = str(tmp_path / f"{name}.xes.gz")
        command = ["anonymize", source, "-o", target, "--mechanism", "tlkc", "--set", "suppression=pruned", *flags]
        assert execute(command) == 0


def test_the_threshold_of_a_hundred_releases_is_what_the_page_says() -> None:
    """docs/dp.md: epsilon 1 and delta 1e-6 for 100 releases, with Laplace and with Gaussian noise."""
    laplace = mechanism({"kind": "dp-variants", "epsilon": "0.01", "delta_dp": "1e-8"})
    gaussian = mechanism({"kind": "dp-variants", "rho": "1/4360", "delta_dp": "5e-9"})
    page = " ".join((ROOT / "docs" / "dp.md").read_text(encoding="utf-8").split())
    figures = gaussian.threshold(), laplace.threshold()  # type: ignore[attr-defined]
    assert "a variant needs {:,} cases, with Laplace noise {:,}.".format(*figures) in page
