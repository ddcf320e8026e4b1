"""Keys of earlier programs: a file that has one says what to do; a folder of before is still read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.errors import InputError
from stream.config import removed, sources
from stream.ledger.layout import OperatorLayout
from tests.conftest import ROOT

BEFORE = """\
[source]
topics = ["events"]
{source}
[metrics]
{metrics}
[[publication]]
name = "p"
window = {{ new_cases = 5{window} }}
mechanism = {{ kind = "{kind}"{mechanism} }}
{publication}
"""
EMPTY = {"source": "", "metrics": "", "window": "", "kind": "identity", "mechanism": "", "publication": ""}
AMUN = {"kind": "amun"}


@pytest.mark.parametrize(
    ("old", "name"),
    [
        ({"source": 'attributes = ["ward"]'}, "source.attributes"),
        ({"source": "delta_batch_bytes = 4096"}, "source.delta_batch_bytes"),
        ({"metrics": 'first_release = "30d"'}, "metrics.first_release"),
        ({"publication": "first = { new_cases = 9 }"}, "publication.first"),
        ({"publication": "audit = { least_n = true }"}, "publication.audit.least_n"),
        ({"publication": "audit = { taxonomy = { a = 'b' } }"}, "publication.audit.taxonomy"),
        ({"publication": "audit = { risk = { seed = 3 } }"}, "publication.audit.risk.seed"),
        ({**AMUN, "mechanism": ', delta = 0.1, replicas = "own"'}, "publication.mechanism.replicas"),
        ({**AMUN, "mechanism": ', delta = 0.1, compression = "none"'}, "publication.mechanism.compression"),
        ({"kind": "tlkc", "mechanism": ", value_aware = true"}, "publication.mechanism.value_aware"),
        (
            {"window": ", events_per_case = { x = 1, lockstep = true, releases = 3 }"},
            "publication.window.events_per_case.releases",
        ),
        ({"window": ", events_per_case = { x = 1, seed = 3 }"}, "publication.window.events_per_case.seed"),
    ],
)
def test_a_removed_key_says_what_to_do(tmp_path: Path, old: dict[str, str], name: str) -> None:
    """One line with the file, the key and the way out; the page on upgrades has the same key."""
    path = tmp_path / "veilstream.toml"
    path.write_text(BEFORE.format(**{**EMPTY, **old}))
    with pytest.raises(InputError) as raised:
        sources.load(path)
    (entry,) = [entry for entry in removed.REMOVED if entry.name == name]
    assert str(raised.value) == f"{path}: {name} is not a key any more: {entry.advice}"
    assert f"`{name}`" in (ROOT / "docs" / "upgrading.md").read_text()


def test_the_file_without_removed_keys_is_read(tmp_path: Path) -> None:
    """Control: the same file is a good one without them."""
    path = tmp_path / "veilstream.toml"
    path.write_text(BEFORE.format(**EMPTY))
    assert sources.load(path).publication[0].name == "p"


def test_the_configuration_in_a_folder_of_before_is_read(tmp_path: Path) -> None:
    """The first release moves into the window; keys that decide nothing of a release are dropped."""
    publication = {
        "name": "p",
        "window": {"new_cases": 5},
        "first": {"new_cases": 9},
        "mechanism": {"kind": "identity"},
        "audit": {"least_n": True},
    }
    body = {"metrics": {"first_release": "30d"}, "publication": [publication]}
    path = OperatorLayout(tmp_path).configuration
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(body))
    (read,) = sources.of_folder(tmp_path).publication
    assert read.build_window.first is not None
    assert read.build_window.first.new_cases == 9
    assert read.audit == {}
