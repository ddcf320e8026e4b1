"""Public documents over neighbours: what a manifest, a header, a statement or metadata of a file says of one case.

Two logs differ in one case. Every field of every public document of every kind of mechanism is either the same for
both, or listed in `DECLARED` with the reason why it may differ. Contents of the released logs themselves are what a
mechanism promises about, and are not looked at here.
"""

from __future__ import annotations

import fnmatch
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from stream.commands import execute
from stream.release import mechanisms
from tests.conftest import DECLARED as DECLARED_INPUT

DAY = 'window = { every = "1d", time = "event" }\nstart = 2031-07-01T00:00:00Z'
PRIVATE = "gate = { max_epsilon = 1000, public_cut = true }"
TLKC = "L = 1, K = 2, C = 1.0, bins = { amount = [1000.0, 1200.0] }"
PUBLICATIONS = {
    "identity": '{ kind = "identity" }',
    "tlkc": f'{{ kind = "tlkc", {TLKC} }}',
    "cohorts": f'{{ kind = "tlkc-cohorts", {TLKC} }}',
    "lcs-start": f'{{ kind = "lcs-start", {TLKC} }}',
    "baseline-1": '{ kind = "baseline-1", K = 2 }',
    "baseline-2": '{ kind = "baseline-2", K = 2 }',
    "pretsa": '{ kind = "pretsa", K = 2 }',
    "amun": '{ kind = "amun", variant = "sampling", delta = 0.2 }\ngate = { public_cut = true }',
    "dp-log": f'{{ kind = "dp-log", epsilon = 9.0, delta_dp = 0.1, max_duration = "1d" }}\n{PRIVATE}',
    "dp-synthetic": f'{{ kind = "dp-synthetic", epsilon = 30.0, delta_dp = 0.1, max_labels = 3 }}\n{PRIVATE}',
    "dp-model": f'{{ kind = "dp-model", epsilon = 30.0, delta_dp = 0.1, max_labels = 3 }}\n{PRIVATE}',
    "dp-variants": f'{{ kind = "dp-variants", epsilon = 9.0, delta_dp = 0.1 }}\n{PRIVATE}',
}
WITH_EPSILON = frozenset({"dp-log", "dp-model", "dp-synthetic", "dp-variants"})

CONTENT = "digest and size of the released log: what the mechanism promises about the log holds for them"
CHAIN = "digest of the manifest before it, which differs where a digest of a log differs"
COUNTS = "counts of what is released; the recipient can count the same in the log"
DECLARED: tuple[tuple[str, str, str], ...] = (
    ("*", "manifest/files/*/sha256", CONTENT),
    ("*", "manifest/files/*/bytes", CONTENT),
    ("*", "manifest/chain/previous_manifest", CHAIN),
    ("no epsilon", "manifest/counts/*", COUNTS),
    ("no epsilon", "manifest/mechanism/n_actual", "least number of cases that share a released trace: see the log"),
    ("no epsilon", "manifest/mechanism/n_actual/*", "the same, cohort by cohort"),
    ("no epsilon", "manifest/mechanism/newest/*", "counts of the newest cohort before and after it was shortened"),
    (
        "no epsilon",
        "manifest/mechanism/suppressed*",
        "items that a K-rule removed: absent from the log, or rarer there",
    ),
    ("no epsilon", "manifest/mechanism/*_cases", COUNTS),
    ("*", "parquet/*/rows", CONTENT),
    ("no epsilon", "manifest/published", "the clock of the machine; releases with epsilon leave at a fixed delay"),
    ("*", "statement/digest/*", CONTENT),
    ("no epsilon", "statement/row/*", COUNTS),
)
"""(kinds, pattern of a field, why it may differ between neighbours)."""

MOMENT = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}")


def log(path: Path, *, dropped: int | None) -> Path:
    """Sixty-one cases on three days, with the amount that each is about; one may be missing."""
    rows = ["case:concept:name,concept:name,time:timestamp,case:diagnosis,case:amount"]
    for number in range(61):
        if number == dropped:
            continue
        for step, activity in enumerate(("register", "visit", "release")[: 2 if number % 7 == 0 else 3]):
            moment = f"2031-07-{1 + number // 21:02d}T{number % 21:02d}:0{step}:00Z"
            sick = "flu" if number % 3 else "cold"
            rows.append(f"c{number},{activity},{moment},{sick},{987 + 31 * (number % 12)}.5")
    path.write_text("\n".join(rows) + "\n")
    return path


def documents(folder: Path, source: Path) -> Path:
    """Releases of all kinds, and a statement of each series in both formats."""
    lines = ['[process]\nname = "ward"\nsensitive = ["amount"]\ncompletion = "log_end"']
    for name, mechanism in PUBLICATIONS.items():
        formats = "" if name == "dp-model" else 'formats = ["xes", "csv", "parquet"]\n'
        lines.append(f'[[publication]]\nname = "{name}"\naudience = "{name}"\n{formats}{DAY}\nmechanism = {mechanism}')
    folder.mkdir()
    (folder / "c.toml").write_text("\n".join(lines) + "\n" + DECLARED_INPUT)
    command = ["replay", str(source), "-c", str(folder / "c.toml"), "-o", str(folder / "out"), "--json"]
    assert execute(command) in (0, 3)  # 3: some cut could release nothing
    for name in PUBLICATIONS:
        for suffix in ("md", "html"):
            page = folder / f"{name}.{suffix}"
            assert execute(["statement", str(folder / "out"), name, "-o", str(page)]) == 0
    return folder


def flat(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    """(path, value) of each leaf of a JSON value."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from flat(inner, f"{at}/{name}")
    elif isinstance(value, list) and value:
        for place, inner in enumerate(value):
            yield from flat(inner, f"{at}/{place}")
    else:
        yield at, value


def header(path: Path, end: str) -> str:
    """All of a packed file before its content, and the header of gzip, which could reveal names and times."""
    data = path.read_bytes()
    return data[:10].hex() + gzip.decompress(data).decode().partition(end)[0]


def fields(folder: Path, name: str) -> dict[str, Any]:
    """Every field of every public document of a publication, by release and path."""
    found: dict[str, Any] = {}
    for release in sorted((folder / "out" / "public" / name).glob("release-*")):
        own: dict[str, Any] = dict(flat(json.loads((release / "manifest.json").read_text()), "manifest"))
        if (release / "log.parquet").exists():
            own["xes/header"] = header(release / "log.xes.gz", "<trace")
            own["csv/header"] = header(release / "log.csv.gz", "\n")
            metadata = pq.read_metadata(release / "log.parquet")
            schema = pq.read_schema(release / "log.parquet")
            own["parquet/log/rows"] = (metadata.num_rows, metadata.serialized_size)
            own["parquet/schema"] = (schema.names, [str(kind) for kind in schema.types], schema.metadata)
            own["parquet/created_by"] = (metadata.created_by, metadata.format_version)
        own["names"] = sorted(path.name for path in release.iterdir())
        found |= {f"{release.name}/{path}": value for path, value in own.items()}
    for suffix in ("md", "html"):
        for number, line in enumerate((folder / f"{name}.{suffix}").read_text().splitlines()):
            digests = re.findall(r"\b[0-9a-f]{64}\b", line)
            kind = "digest" if digests else "row" if MOMENT.search(line) and "log.xes.gz" in line else "line"
            found[f"{suffix}/statement/{kind}/{number}"] = line
    return found


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("neighbours")
    full = documents(folder / "full", log(folder / "full.csv", dropped=None))
    without = documents(folder / "without", log(folder / "without.csv", dropped=16))
    return full, without


def allowed(name: str, path: str) -> bool:
    """Whether a field of a publication is in the table."""
    inner = path.partition("/")[2]
    kinds = ("*",) if name in WITH_EPSILON else ("*", "no epsilon")
    return any(kind in kinds and fnmatch.fnmatch(inner, pattern) for kind, pattern, _ in DECLARED)


def test_every_kind_is_looked_at() -> None:
    """A new kind joins here too."""
    assert {table.split('"')[1] for table in PUBLICATIONS.values()} == set(mechanisms.kinds())


@pytest.mark.parametrize("name", PUBLICATIONS)
def test_a_field_is_the_same_for_neighbours_or_declared(neighbours: tuple[Path, Path], name: str) -> None:
    """One case more changes no other field."""
    full, without = (fields(folder, name) for folder in neighbours)
    assert any("/manifest/promise" in path for path in full)
    differing = {path for path in full.keys() | without.keys() if full.get(path) != without.get(path)}
    assert differing
    assert sorted(path for path in differing if not allowed(name, path)) == []


@pytest.mark.parametrize("name", ["tlkc", "cohorts", "lcs-start"])
def test_edges_of_an_attribute_that_does_not_leave_are_nowhere(neighbours: tuple[Path, Path], name: str) -> None:
    """Neither in the manifest, nor in a header, nor in a statement."""
    for release in sorted((neighbours[0] / "out" / "public" / name).iterdir()):
        for path in sorted(release.iterdir()):
            data = path.read_bytes()
            text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("latin-1")
            assert "amount" not in text
            assert "1200.0" not in text
    for suffix in ("md", "html"):
        assert "amount" not in (neighbours[0] / f"{name}.{suffix}").read_text()
