"""The variants of a log and how many cases each has: all that the stages of a synthetic release read of activities."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise

import numpy as np

from models.content_free import content_free
from models.eventlog import Column, EventLog, Ints, SimpleLog
from models.variants import amounts

Variant = tuple[int, ...]
"""Labels of a trace, as places in the alphabet."""


@content_free()
@dataclass(frozen=True, slots=True)
class VariantCounts:
    """Variants of a log with their counts.

    Attributes
    ----------
    alphabet
        Labels, sorted.
    variants
        Distinct; may contain the empty one.
    counts : int64[V]
        Cases of each variant, >= 1.
    """

    alphabet: tuple[str, ...]
    variants: tuple[Variant, ...]
    counts: Ints

    @classmethod
    def of(cls, log: EventLog, alphabet: Sequence[str] | None = None, cases: Ints | None = None) -> VariantCounts:
        """Count every case of the log by its activities.

        Parameters
        ----------
        alphabet : optional
            Public labels, those of the log and others. By default the labels of the log, which are data.
        cases : int64[C], optional
            Number of cases that each case of the log represents; by default one each.
        """
        simple = SimpleLog.from_log(log, cases=cases)
        names = sorted({str(value) for value in simple.alphabet}) if alphabet is None else list(alphabet)
        place = {name: rank for rank, name in enumerate(names)}
        code = np.asarray([place[str(value)] for value in simple.alphabet], dtype=np.int64)
        labels = code[np.fromiter(chain.from_iterable(simple.variants), dtype=np.int64)].tolist()
        ends = accumulate(map(len, simple.variants), initial=0)
        variants = tuple(tuple(labels[begin:end]) for begin, end in pairwise(ends))
        return cls(tuple(names), variants, amounts(simple.variant, simple.count, len(variants)))

    def without(self, excluded: Collection[Variant]) -> tuple[list[Variant], Ints]:
        """Return the variants that are not in `excluded`, with their counts.

        Parameters
        ----------
        excluded
            Variants as label codes.

        Returns
        -------
        variants
            Those that remain, in order.
        counts
            int64, cases of each.
        """
        kept = [place for place, variant in enumerate(self.variants) if variant not in excluded]
        return [self.variants[place] for place in kept], self.counts[np.asarray(kept, dtype=np.int64)]


def only(log: EventLog, labels: Iterable[str]) -> EventLog:
    """Return the log without the events of other labels.

    It changes each case by itself; cases without events stay.

    Parameters
    ----------
    log
        The log.
    labels
        Labels of the events that stay.
    """
    kept_labels = set(labels)
    is_kept = np.asarray([str(value) in kept_labels for value in log.activity.values] + [False], dtype=np.bool_)
    return log.select_events(is_kept[log.activity.codes])


def merged(log: EventLog, labels: Iterable[str], other: str) -> EventLog:
    """Return the log with the label `other` instead of every label that is not in `labels`.

    It changes each case by itself.

    Parameters
    ----------
    log
        The log.
    labels
        Labels that stay as they are.
    other
        Label of all others. Missing activities stay missing.
    """
    kept_labels = set(labels)
    kept_labels.discard(other)  # it is a value of its own, whether the log has it or not
    kept = [code for code, value in enumerate(log.activity.values) if str(value) in kept_labels]
    recode = np.full(len(log.activity.values) + 1, len(kept), dtype=np.int32)
    recode[kept] = np.arange(len(kept), dtype=np.int32)
    recode[-1] = -1  # missing activities stay missing
    values = (*[log.activity.values[code] for code in kept], other)
    return replace(log, activity=Column(recode[log.activity.codes], values))
