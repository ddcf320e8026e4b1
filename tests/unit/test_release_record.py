"""Parts of a published release that stay in memory: its log leaves, and is read again when it is needed."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from models.errors import RefusedError
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.ledger import release_record
from stream.ledger.release_record import ReleaseRecord
from stream.run.replay import Replay

ROOT = Path(__file__).parents[2]

CASES = [["a", "b"], ["a"], ["b", "b", "c"]]
AUDIT = {"anonymity": True, "series": True, "against": "all", "leakage": False, "risk": False, "utility": False}
AUDIT |= {"n": [0], "bk_length": 2}


def made(number: int = 1) -> ReleaseRecord:
    log = EventLog.from_traces([(trace, "x") for trace in CASES], "s")
    return ReleaseRecord(number, log, ("activity",), "minutes", ("s",), publication="p")


def test_without_a_file_a_log_never_leaves() -> None:
    """A candidate is in memory alone."""
    record = made()
    log = record.log
    record.leave_memory()
    assert record.log is log


def test_a_log_that_left_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole where the log is asked for, and then it stays; the cases alone where only they are."""
    record, path = made(), tmp_path / "variants.parquet"
    ids, traces = record.log.case_ids, record.log.traces()
    release_record.write(path, record)
    record = record.released({}, release_record.VariantsFile(path))
    record.leave_memory()
    with monkeypatch.context() as whole:
        whole.setattr(release_record, "_log", lambda _table: pytest.fail("the whole log was read"))
        assert record.case_ids == ids
    assert record.log.traces() == traces
    path.unlink()
    assert record.log.traces() == traces
    record.leave_memory()
    with pytest.raises(RefusedError, match="restore it from a backup"):
        _ = record.log


THREADS_AFTER_A_READ = """
import sys
from pathlib import Path
import pyarrow.parquet
from stream.ledger.release_record import VariantsFile

def threads():
    return len(list(Path("/proc/self/task").iterdir()))

before = threads()
log = VariantsFile(Path(sys.argv[1])).log()
print(log.n_cases, threads() - before)
"""


def test_a_log_is_read_without_threads_of_arrow(tmp_path: Path) -> None:
    """A coordinator whose memory was too short for such a thread waited for it for ever (found by `make chaos`)."""
    path = tmp_path / "variants.parquet"
    release_record.write(path, made())
    command = [sys.executable, "-c", THREADS_AFTER_A_READ, str(path)]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert printed.split() == [str(len(CASES)), "0"]


def test_of_an_audit_stays_what_later_ones_ask(tmp_path: Path) -> None:
    """The rest names every release before it, so that all audits together would grow with the square."""
    record = made()
    record = record.released(
        {"n_actual": 1, "counts": {"suppressed_cases": 2}, "anonymity": {"results": []}, "cut": {"time": "now"}},
        release_record.VariantsFile(tmp_path / "variants.parquet"),
    )
    assert record.audit == {"n_actual": 1, "counts": {"suppressed_cases": 2}, "cut": {"time": "now"}}


def test_another_log_is_the_same_release_without_what_was_kept() -> None:
    """State that audits kept with it was about the log that it had."""
    record = made(7)
    record.cache["simple"] = record.simple()
    other = EventLog.from_traces([(["c"], "y")], "s")
    found = record.showing(other)
    assert (found.key, found.carries, found.T, found.sensitive) == (("p", 7), ("activity",), "minutes", ("s",))
    assert found.log is other
    assert not found.cache
    assert record.cache


def replayed(folder: Path, names: list[str]) -> Replay:
    """Eight releases of a log that grows, each of publications that look back at all before."""
    publications: list[dict[str, Any]] = [
        {"name": name, "window": {"new_cases": 3}, "mechanism": {"kind": "identity"}, "audit": AUDIT} for name in names
    ]
    settings = Settings.model_validate({"process": {"name": "x"}, "publication": publications})
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    traces = [[(name, begin + timedelta(hours=12 * at + place)) for place, name in enumerate("ab" if at % 3 else "aac")]
              for at in range(24)]  # fmt: skip
    replay = Replay(settings, folder)
    replay.run(timed(traces))
    return replay


def timed(traces: list[list[tuple[str, datetime]]]) -> EventLog:
    """A log of cases with times."""
    import numpy as np

    log = EventLog.from_traces([([name for name, _ in trace], None) for trace in traces], "s")
    moments = [int(moment.timestamp()) * 10**9 for trace in traces for _, moment in trace]
    ids = tuple(f"case{place}" for place in range(len(traces)))
    return EventLog(ids, log.starts, log.activity, np.asarray(moments), log.resource, log.row, log.case_attributes)


def test_a_daemon_holds_the_logs_of_the_last_two_releases(tmp_path: Path) -> None:
    """However many releases an audit looks back at. If publications with other windows go to the same audience,
    cases are looked up by name at every cut: all logs stay."""
    alone = list(replayed(tmp_path / "one", ["p"]).service.pipelines["p"].earlier)
    assert len(alone) == 8
    assert [record._log is not None for record in alone] == [False] * 6 + [True] * 2
    both = list(replayed(tmp_path / "two", ["p", "q"]).service.pipelines["p"].earlier)
    assert len(both) == 16
    assert sum(record._log is not None for record in both) >= 14
