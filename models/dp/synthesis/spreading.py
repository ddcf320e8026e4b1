"""Cases of a cell as several traces: few candidates represent many cases, and the model gave traces near each of them.

A cell counts the cases that are nearest to its candidate. Not all of them are that candidate: of a frequent variant its
own noisy count is known and is kept. The other cases leave as drawn traces that are nearest to the candidate, each with
its part of these draws; another candidate is one of them. A candidate that did not come from this model keeps half at
least: a model seldom draws a long trace, however many cases have it. It reads the outputs of earlier stages alone:
post-processing.

Not guaranteed: that a trace that was drawn is one that somebody had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.content_free import content_free
from models.dp.noise import NoiseSource
from models.dp.synthesis import candidates
from models.dp.synthesis.table import Variant
from models.eventlog import Floats, Ints

POOL = 2_000
"""Drawn traces among which the cases of all cells are spread: two million distances at most."""

LARGE_POOL = 20_000
"""Drawn traces if few draws repeat one."""

MOST_DISTANCES = 5_000_000
"""Distances of drawn traces from candidates. With twice as many, releases of BPIC 2012 at epsilon 1, which
have a thousand candidates, are no better, and those of BPIC 2013 have .0007 more similarity; with half as many
BPIC 2012 has .0013 less (docs/decisions/144). Sepsis has three hundred candidates, and needs the large
pool."""

REPEATED = 0.7
"""Share of draws that repeat a trace, from which `POOL` is enough.

At epsilon 1 three logs of few variants have .74 and more: a larger pool only adds variants of noise.
Sepsis and BPIC 2012 have .19 to .66, and need the rare traces of a larger one.
"""


@content_free()
@dataclass(frozen=True, slots=True)
class Spread:
    """Traces, each once, those of a cell one after another.

    Attributes
    ----------
    cell : int64[traces]
        Place of the candidate that each trace is nearest to, or equal to.
    cases : float64[traces]
        Cases of each trace, above 0.
    """

    traces: tuple[Variant, ...]
    cell: Ints
    cases: Floats

    @classmethod
    def of(
        cls,
        shown: Sequence[tuple[Variant, int]],
        listed: Sequence[Variant],
        drawn: Mapping[Variant, int],
        draw: NoiseSource,
        noisy_counts: Mapping[Variant, int] | None = None,
        pool: int = POOL,
        keep_half: Collection[Variant] = (),
    ) -> Spread:
        """Spread the cases of candidates' cells over the traces near them.

        Parameters
        ----------
        shown
            Candidates of `listed` with the cases of their cells.
        drawn
            Traces of the model, by how often each was drawn.
        noisy_counts
            Noisy counts of the frequent variants.
        pool
            Most draws that are compared.
        keep_half
            Candidates that keep half of their cell at least: those that this model did not give.
        """
        drawn_near = _near(listed, drawn, draw, pool)
        place_of = {trace: place for place, trace in enumerate(listed)}
        rows: list[tuple[Variant, int, float]] = []
        for trace, count in shown:
            place = place_of[trace]
            near = drawn_near.get(place, Counter())
            n_near = sum(near.values())

            # Of a frequent variant its own noisy count is known. Another candidate has its part of the drawn
            # traces near it, as each of them has. What the candidate does not keep, the others divide.
            n_others = n_near - near[trace]
            kept = float(count)
            if n_others:
                part = near[trace] / n_near
                if trace in keep_half:
                    part = max(part, 0.5)
                kept = min((noisy_counts or {}).get(trace, count * part), count)
            cases = {trace: kept}
            for variant, n in near.items():
                if variant != trace:
                    cases[variant] = (count - kept) * n / n_others
            rows += [(variant, place, float(n)) for variant, n in cases.items() if n]
        traces, cells, weights = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(traces, np.asarray(cells, dtype=np.int64), np.asarray(weights, dtype=np.float64))

    @classmethod
    def like_drawn(cls, drawn: Mapping[Variant, int], cases: float, draw: NoiseSource, pool: int = POOL) -> Spread:
        """Spread so many cases over at most `pool` draws, each with its part, as one cell.

        It has no traces if no drawn trace has a label.

        Parameters
        ----------
        drawn
            How often a model drew each trace.
        cases
            Cases of the cell.
        draw
            Source of the choice among the draws.
        pool
            Most draws to use.
        """
        pooled = _pooled(drawn, draw, pool)
        times_drawn = np.asarray(list(pooled.values()), dtype=np.float64)
        # If no trace has a label, both arrays are empty and nothing is divided.
        prior = times_drawn * cases / times_drawn.sum()
        return cls(tuple(pooled), np.zeros(len(pooled), dtype=np.int64), prior)

    def whole_cases(self, cases: Floats, draw: NoiseSource) -> list[tuple[Variant, int]]:
        """Return the traces with whole numbers of cases.

        Rounding keeps the sums of cells, and of all together, within one; each number is on average what it was.

        Parameters
        ----------
        cases
            float64[traces], cases of each trace.
        draw
            Source of the offset.
        """
        # Sums up to each trace are rounded with one random offset. So a sum over neighbouring traces is off
        # by less than one, and each number is rounded up with the chance of its fraction.
        offset = float(draw.uniform(1)[0])
        upto = np.floor(np.concatenate(([0.0], np.cumsum(cases))) + offset).astype(np.int64)
        return [(trace, n) for trace, n in zip(self.traces, np.diff(upto).tolist(), strict=True) if n]


def pool_size(drawn: Mapping[Variant, int]) -> int:
    """Return how many draws of a model the cells of a release are spread over.

    If the model has many variants, few draws repeat a trace, and a small pool has too few draws near the
    cases. If most draws repeat a trace, the others are mostly traces of noise, of which a small pool has few.

    Parameters
    ----------
    drawn
        How often the model drew each trace.
    """
    draws = sum(drawn.values())
    repeated = sum(n for n in drawn.values() if n > 1)
    return POOL if repeated >= REPEATED * draws else LARGE_POOL


def affordable_pool(pool: int, n_candidates: int) -> int:
    """Return how many of so many draws can be compared with so many candidates (`MOST_DISTANCES`).

    It is `POOL` at least, however many candidates a file declares.

    Parameters
    ----------
    pool
        Draws, as `pool_size` gives them.
    n_candidates
        Candidates that each draw is compared with.
    """
    return min(pool, max(MOST_DISTANCES // max(n_candidates, 1), POOL))


def _near(
    listed: Sequence[Variant], drawn: Mapping[Variant, int], draw: NoiseSource, pool: int
) -> dict[int, Counter[Variant]]:
    """Return some of the drawn traces, by the place of the candidate that is nearest to each."""
    pooled = _pooled(drawn if listed else {}, draw, pool)
    near: dict[int, Counter[Variant]] = {}
    for variant, cell in zip(pooled, candidates.nearest(list(pooled), listed).tolist(), strict=True):
        near.setdefault(cell, Counter())[variant] = pooled[variant]
    return near


def _pooled(drawn: Mapping[Variant, int], draw: NoiseSource, pool: int) -> Counter[Variant]:
    """Return `pool` of the draws of a trace that has a label, or all of them if they are fewer."""
    variants = [variant for variant in drawn if variant]
    place_of_draw = np.repeat(np.arange(len(variants)), [drawn[variant] for variant in variants])
    chosen = place_of_draw[draw.permutation(len(place_of_draw))[:pool]]
    return Counter({variants[place]: n for place, n in Counter(chosen.tolist()).items()})
