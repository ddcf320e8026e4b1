"""Local suppression: events leave single cases, not the whole log (beyond tlkc-privacy-extended-2021).

For every *original* case events enter by priority of their item, and one that would complete a ban stays out. The
minimal violating candidates of the result become bans; repeat until there are none. Every round adds a ban that no
case may contain any more, and the empty projection is always reachable, so the loop ends; its exit test is the
definition itself.

Value-blind (default): what is banned is banned in every case, so who is shortened depends on traces and bans, not on
who holds a value. Value-aware: a share above C is cured in the fewest holders of the value, which keeps more and tells
who they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from models.anonymize.local_model import Bans, Kept, Reach, SafeState, close, project_onto
from models.anonymize.suppression import losses
from models.anonymize.view import TraceView
from models.anonymize.violations import TlkcBounds
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Codes, Ints
from models.variants import amounts, of_events


def default_priority(view: TraceView, suppressed: Iterable[int]) -> Ints:
    """Rank of each item, 0 first: the items that global suppression keeps, then the others, frequent ones first."""
    gone = set(suppressed)
    total = [int(loss.sum()) for loss in losses(view)]
    order = sorted(range(len(total)), key=lambda item: (item in gone, -total[item], item))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


PLAIN = 10
"""Value of an event where nothing says otherwise: values are whole numbers, so that no sum depends on its order."""


@content_free()
@dataclass(frozen=True, slots=True)
class Choice:
    """What local suppression prefers, instead of what global suppression keeps: frequent items enter first, `first`
    before them; the search looks for most `value`, by item, `PLAIN` where it is not named, and may lose none of `owed`
    altogether."""

    first: tuple[Any, ...] = ()
    value: Mapping[Any, int] = field(default_factory=dict)
    owed: frozenset[Any] = frozenset()

    def priority(self, view: TraceView, events: Ints) -> Ints:
        """Rank of each item. `events`: at each position."""
        code = {item: number for number, item in enumerate(view.alphabet)}
        first = tuple(code[item] for item in self.first if item in code)
        return entering(view.codes, events, len(view.alphabet), first)

    def valued(self, view: TraceView, events: Ints) -> Ints:
        """Value of the events at each position."""
        value = np.asarray([self.value.get(item, PLAIN) for item in view.alphabet], dtype=np.int64)
        return events * value[view.codes]


def entering(codes: Codes, events: Ints, items: int, first: Sequence[int] = ()) -> Ints:
    """Rank of each item: those of `first`, then by the events it has, most first. `events`: at each position."""
    total = np.bincount(codes, events, items)
    order = [*first, *(item for item in np.argsort(-total, kind="stable").tolist() if item not in first)]
    rank = np.empty(items, dtype=np.int64)
    rank[order] = np.arange(items)
    return rank


def under(reach: Reach, state: SafeState) -> Kept:
    """What stays of a view under the bans and priorities of a state of other rows; nothing says that it is safe."""
    kept = np.ones(len(reach.view.codes), dtype=np.bool_)
    project_onto(reach, state.priority, state.bans, state.bans.candidates, kept)
    return kept


def one_case_per_row(view: TraceView) -> TraceView:
    """The same view with equal cases in rows of their own (value-aware bans tell them apart)."""
    if view.cases is not None:
        raise InputError("value_aware tells cases of one variant apart: it needs the cases themselves")
    lengths = np.diff(view.starts)[view.row_of_case]
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    source = np.repeat(view.starts[view.row_of_case] - starts[:-1], lengths) + np.arange(starts[-1])
    cases = len(view.row_of_case)
    return replace(
        view,
        starts=starts,
        codes=view.codes[source],
        weight=np.ones(cases, dtype=np.int64),
        values=np.ascontiguousarray(view.values[:, view.row_of_case]),
        row_of_case=np.arange(cases, dtype=np.int64),
    )


def shortened_by_value(view: TraceView, state: SafeState) -> int:
    """Cases that show less than the bans of all rows alone would leave them: each tells that it holds a value."""
    public = Bans(tuple(ban for k, ban in enumerate(state.bans.candidates) if k not in state.bans.holders))
    kept = np.ones(len(view.codes), dtype=np.bool_)
    project_onto(Reach(view), state.priority, public, public.candidates, kept)
    return int(view.weight[np.unique(view.row_of_position[kept & ~state.kept])].sum())


def events_at_positions(view: TraceView) -> Ints:
    """Events of the log that stand at each position of the rows' traces, over all cases of the row."""
    rows = np.repeat(view.row_of_case, np.diff(view.case_starts))
    return amounts(view.starts[rows] + view.slot_of_event, of_events(view.cases, view.case_starts), len(view.codes))


def kept_events(view: TraceView, kept: Kept) -> Kept:
    """bool[E]: the events whose position stays."""
    rows = np.repeat(view.row_of_case, np.diff(view.case_starts))
    chosen: Kept = kept[view.starts[rows] + view.slot_of_event]
    return chosen


def suppress(
    view: TraceView,
    bounds: TlkcBounds,
    preferred: Iterable[int] | Choice,
    *,
    bans: Sequence[tuple[int, ...]] = (),
    effort: int = 0,
    seed: int = 0,
    value_aware: bool = False,
    max_minimality: int | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[TraceView, SafeState]:
    """Local suppression of a view, with `effort` proposals of search; returns the view that the projection refers to.

    `preferred`: the items that global suppression would remove, which enter last, or a choice of its own; `bans`:
    candidates that no case may match, whatever their counts; `max_minimality`: the most candidates that may have fewer
    than K possible cases for somebody who knows the rules (None: any number).
    """
    from models.anonymize.known_rules import withstanding
    from models.anonymize.local_search import improve

    if not isinstance(preferred, Choice):
        priority = default_priority(view, preferred)
    if value_aware:
        view = one_case_per_row(view)
    events = events_at_positions(view)
    if isinstance(preferred, Choice):
        priority, events = preferred.priority(view, events), preferred.valued(view, events)
    state = close(view, bounds, priority, Bans(tuple(bans)), events, value_aware=value_aware)
    generator = np.random.default_rng(seed)
    if effort:
        state = improve(
            view, bounds, state, events, effort, generator, fixed=bans, value_aware=value_aware, progress=progress
        )
    if max_minimality is not None and not value_aware:
        state = withstanding(view, bounds, state, events, max_minimality)
    return view, state
