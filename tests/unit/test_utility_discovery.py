"""Discovery quality through pm4py."""

from __future__ import annotations

import numpy as np
import pytest

from models.errors import InputError
from models.eventlog import EventLog
from models.utility import discovery
from models.utility.discovery import discovery_quality


def _log(*traces: str) -> EventLog:
    return EventLog.from_traces([(trace, None) for trace in traces])


def test_a_sequence_is_found_and_fits_by_both_methods(capsys: pytest.CaptureFixture[str]) -> None:
    """abc discovered from itself: fitness and precision 1, and pm4py prints nothing on either stream."""
    for method in ("alignment", "replay"):
        found = discovery_quality(_log("abc", "abc"), _log("abc"), method)  # type: ignore[arg-type]
        assert (found.fitness, found.precision, found.f1) == (1.0, 1.0, 1.0)
    assert capsys.readouterr() == ("", "")


def test_alignments_see_what_replay_passes_over() -> None:
    """The release lost b and d: aligning abcd with ac costs 2 of 4 + 2 moves; replay ignores unknown activities."""
    original, released = _log("abcd"), _log("ac")
    assert discovery_quality(original, released, "alignment").fitness == pytest.approx(1 - 2 / (4 + 2))
    assert discovery_quality(original, released, "replay").fitness == 1.0


def test_precision_is_that_of_pm4py() -> None:
    """Random logs, some of whose activities the release lost: pm4py replays every prefix whole and agrees exactly."""
    generator = np.random.default_rng(4)
    seen = set()
    for _ in range(15):
        original = _log(*("".join(generator.choice(list("abcde"), int(generator.integers(1, 9)))) for _ in range(12)))
        kept = generator.random(original.n_events) < generator.uniform(0.3, 1)
        released = original.select_events(kept, drop_empty=True)
        with discovery.quiet_pm4py() as pm4py:
            model = pm4py.discover_petri_net_inductive(discovery.as_frame(released), noise_threshold=discovery.NOISE)
            expected = pm4py.precision_token_based_replay(discovery.as_frame(original), *model)
        found = discovery_quality(original, released, "replay").precision
        assert found == pytest.approx(expected, abs=1e-12)
        seen.add(found)
    assert len(seen) > 5


def test_bad_input() -> None:
    """An unknown method and a release without events are named."""
    with pytest.raises(InputError, match="guess"):
        discovery_quality(_log("a"), _log("a"), "guess")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least one event"):
        discovery_quality(_log("a"), _log(""))
