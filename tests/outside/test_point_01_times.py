"""Point 1: a frame of pm4py is read with its own years, whatever unit its datetimes have."""

from __future__ import annotations

import pytest

from models.eventlog import EventLog


@pytest.mark.filterwarnings("ignore")
def test_a_frame_of_pm4py_keeps_its_times() -> None:
    """pandas 3 makes datetimes of microseconds, pandas 2 of nanoseconds."""
    import pandas as pd
    import pm4py

    times = ["2025-03-01T10:00:00Z", "2025-03-02T11:30:00Z", "2025-03-05T09:15:00Z"]
    rows = pd.DataFrame({"case": ["1", "1", "2"], "act": ["in", "out", "in"], "at": pd.to_datetime(times)})
    frame = pm4py.format_dataframe(rows, case_id="case", activity_key="act", timestamp_key="at")
    column = frame["time:timestamp"].astype("datetime64[us, UTC]")
    log = EventLog.from_events(frame["case:concept:name"], frame["concept:name"], column)
    read = [pd.Timestamp(time, unit="ns", tz="UTC") for time in sorted(log.time.tolist())]
    assert read == [pd.Timestamp(time) for time in times]
