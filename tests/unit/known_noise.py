"""Noise that a test sets in place of random draws, and the logs that go with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.dp.noise import NoiseSource
from models.eventlog import EventLog

DAY_MS = 86_400_000


class NoisePerKey(NoiseSource):
    """Laplace noise of one call, key by key (zeros if not set). Records the scale and size of each call in `asked`."""

    __slots__ = ("asked", "noise")

    def __init__(self, noise: Sequence[int] = ()) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(1))
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "noise", noise)

    def laplace(self, scale: float, size: int) -> np.ndarray:
        self.asked.append((scale, size))
        return np.asarray(self.noise if self.noise else [0] * size, dtype=np.int64)


class EqualNoise(NoiseSource):
    """The same noise for every draw, seeded words. Records scale and size of each call (`asked`) and all words."""

    __slots__ = ("asked", "drawn_words", "noise")

    def __init__(self, noise: int = 0, *, seed: int = 1) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(seed))
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "drawn_words", [])
        object.__setattr__(self, "noise", noise)

    def laplace(self, scale: float, size: int) -> np.ndarray:
        self.asked.append((scale, size))
        return np.full(size, self.noise, dtype=np.int64)

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        return self.laplace(scale, size)

    def words(self, size: int) -> np.ndarray:
        self.drawn_words.append(super().words(size))
        return self.drawn_words[-1]


class RecordingNoise(NoiseSource):
    """Seeded noise of the right law. Records the scale and size of each call in `asked`."""

    __slots__ = ("asked",)

    def __init__(self, *, seed: int = 1) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(seed))
        object.__setattr__(self, "asked", [])

    @property
    def scales(self) -> list[float]:
        return [scale for scale, _ in self.asked]

    def laplace(self, scale: float, size: int) -> np.ndarray:
        self.asked.append((scale, size))
        return super().laplace(scale, size)

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        self.asked.append((scale, size))
        return super().gaussian(scale, size)


class ScriptedNoise(NoiseSource):
    """Noise as written: the first call (the counts) gets `of_counts`, each later one the next of `of_times`; every
    permutation is the reverse order."""

    __slots__ = ("asked", "of_counts", "of_times")

    def __init__(self, of_counts: int | Sequence[int] = 0, of_times: Sequence[int] = ()) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(1))
        object.__setattr__(self, "of_counts", of_counts)
        object.__setattr__(self, "of_times", list(of_times))
        object.__setattr__(self, "asked", [])

    def laplace(self, scale: float, size: int) -> np.ndarray:
        self.asked.append(scale)
        if len(self.asked) == 1:
            return np.zeros(size, dtype=np.int64) + np.asarray(self.of_counts, dtype=np.int64)
        drawn = self.of_times.pop(0) if self.of_times else 0
        return np.full(size, drawn, dtype=np.int64)

    def permutation(self, size: int) -> np.ndarray:
        return np.arange(size, dtype=np.int64)[::-1].copy()


def timed_log(*cases: tuple[str, Sequence[int]]) -> EventLog:
    """Cases as (trace, times of its events in milliseconds)."""
    case, activity, time = [], [], []
    for number, (trace, moments) in enumerate(cases):
        case += [str(number)] * len(trace)
        activity += list(trace)
        time += [moment * 1_000_000 for moment in moments]
    return EventLog.from_events(case, activity, np.asarray(time, dtype=np.int64), unit="ns")
