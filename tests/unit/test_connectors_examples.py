"""The bundled sample log is what its generator makes."""

from __future__ import annotations

import gzip
import tomllib

import numpy as np

from connectors import read_log, write_log
from examples.generate import DRIFT, hospital
from tests.conftest import ROOT

SAMPLE = ROOT / "examples" / "hospital.xes.gz"


def test_generating_again_gives_the_same_bytes(tmp_path):
    """Twice here, and as committed (compared unpacked: a different zlib may pack differently)."""
    write_log(hospital(), tmp_path / "one.xes.gz")
    write_log(hospital(), tmp_path / "two.xes.gz")
    assert (tmp_path / "one.xes.gz").read_bytes() == (tmp_path / "two.xes.gz").read_bytes()
    assert gzip.decompress((tmp_path / "one.xes.gz").read_bytes()) == gzip.decompress(SAMPLE.read_bytes())


def test_the_sample_is_as_described():
    """About 2,000 cases over six months, resources, one sensitive attribute, an age, and a drift."""
    log = read_log(SAMPLE)
    assert 1900 <= log.n_cases <= 2100
    assert 175 <= np.ptp(log.time) / 86_400e9 <= 190
    assert set(log.case_attributes) == {"age", "diagnosis"}
    assert None not in log.resource.decode()
    first, scans = log.time[log.starts[:-1]], np.asarray(["CT scan" in trace for trace in log.traces()])
    drift = DRIFT.timestamp() * 1e9
    assert scans[first < drift].sum() == 0
    assert scans[first >= drift].mean() > 0.05
    assert SAMPLE.stat().st_size < 1_500_000


def test_the_configuration_names_what_the_log_has():
    """Sensitive attribute and end activity of hospital.toml occur in the log."""
    config = tomllib.loads((ROOT / "examples" / "hospital.toml").read_text())
    log = read_log(SAMPLE)
    assert set(config["process"]["attributes"]["sensitive"]) <= set(log.case_attributes)
    assert set(config["process"]["completion"]["end_activities"]) <= set(log.activity.values)
