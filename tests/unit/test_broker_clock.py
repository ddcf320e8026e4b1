"""The clock of a process that hears the broker's."""

from __future__ import annotations

from stream.daemon.broker_clock import BrokerClock

SECOND = 1_000_000_000


def test_the_brokers_stamp_counts_and_durations_carry_it_on() -> None:
    """The clock of this host does not matter before and after the stamp."""
    wall, elapsed = [100 * SECOND], [7 * SECOND]
    clock = BrokerClock(lambda: wall[0], lambda: elapsed[0])
    assert clock.now() == 100 * SECOND  # nothing heard yet: this host's
    clock.set_by(5_000_250)
    assert clock.now() == 5_000_250_000_000
    wall[0] += 86_400 * SECOND  # set by hand
    elapsed[0] += 3 * SECOND
    assert clock.now() == 5_003_250_000_000


def test_a_later_stamp_corrects_the_clock_in_both_directions() -> None:
    """A broker's clock may be set as well, and a host's count of durations may run fast."""
    clock = BrokerClock(lambda: 0, lambda: 0)
    for stamp in (2_000, 1_000, 3_000):
        clock.set_by(stamp)
        assert clock.now() == stamp * 1_000_000
