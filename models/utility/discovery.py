"""Discovery quality: how well the model found in the release explains the original log.

Source: tlkc-privacy-extended-2021, section 6.2.1: discover a model from the release (inductive miner infrequent, noise
threshold 0.2), measure its fitness, precision and F1 against the original. Fitness is by alignments by default: token
replay passes over activities that the model lacks, and so rates a release that dropped them too well (Sepsis, weak
seq: .976 by replay, .757 by alignments). Replay is the fast choice.

pm4py is imported through `quiet_pm4py` alone: it prints a banner and warns about optional parts on import.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from models.errors import InputError, check_choice
from models.eventlog import EventLog, place_in_run
from models.utility.graphs import Agreement

if TYPE_CHECKING:
    import pandas as pd

NOISE = 0.2
"""Noise threshold of the paper's experiments."""

HIDDEN_DEPTH = 50
"""Hidden transitions in a row that token replay looks through (pm4py's own bound)."""

State = tuple[Any, frozenset[str]]
"""A marking, and the labels that may come next in it."""

Method = Literal["alignment", "replay"]


def discovery_quality(
    original: EventLog, released: EventLog, method: Method = "alignment", noise: float = NOISE
) -> Agreement:
    """Measure the fitness and the precision of the release's model on the original log.

    Precision counts the escaping edges of replayed prefixes under either method: to align every prefix of every variant
    takes hours on logs like Sepsis.

    Parameters
    ----------
    original, released
        The logs.
    method
        How fitness is measured.
    noise
        Threshold of the miner (`discover_petri_net_inductive` of pm4py).

    Raises
    ------
    InputError
        If the method is unknown, or a log has no events.
    """
    check_choice("fitness method", method, ("alignment", "replay"))
    if not original.n_events or not released.n_events:
        raise InputError("discovery quality compares two logs with at least one event each")
    with quiet_pm4py() as pm4py:
        model = pm4py.discover_petri_net_inductive(as_frame(released), noise_threshold=noise)
        return model_quality(pm4py, original, model, method)


def model_quality(pm4py: Any, original: EventLog, model: tuple[Any, Any, Any], method: Method) -> Agreement:
    """Return fitness and precision of a model on a log, as `discovery_quality` measures them.

    Parameters
    ----------
    pm4py
        The library, imported by `quiet_pm4py`.
    original
        The log.
    model
        The Petri net, its initial marking and its final one.
    method
        How fitness is measured.
    """
    measure = pm4py.fitness_alignments if method == "alignment" else pm4py.fitness_token_based_replay
    fitness = measure(as_frame(original), *model)
    return Agreement(float(fitness["log_fitness"]), _precision(original, *model))


def _precision(log: EventLog, net: Any, initial: Any, final: Any) -> float:
    """Return the value of pm4py.precision_token_based_replay (Munoz-Gama and Carmona, 2010), prefix by prefix.

    pm4py replays every prefix of every variant from its first event. A step depends on the marking and the activity
    alone, so each such pair is replayed once here (Sepsis: 12,000 prefixes, some hundred pairs).
    """
    from pm4py.objects.petri_net.utils.align_utils import get_visible_transitions_eventually_enabled_by_marking

    step, labels = _step(net, final), {t.label for t in net.transitions}
    start = get_visible_transitions_eventually_enabled_by_marking(net, initial)
    following = _following(log)
    states: dict[tuple[str, ...], State | None] = {(): (initial, frozenset(t.label for t in start))}
    allowed = escaping = 0
    for prefix in sorted(following, key=len):
        if prefix:
            state = states[prefix[:-1]]
            if state is not None and prefix[-1] in labels:
                state = step(state[0], prefix[-1])
            states[prefix] = state
        state = states[prefix]
        if state is not None:
            cases = following[prefix].total()
            allowed += len(state[1]) * cases
            escaping += len(state[1] - following[prefix].keys()) * cases
    return 1 - escaping / allowed if allowed else 1.0


def _following(log: EventLog) -> dict[tuple[str, ...], Counter[str]]:
    """Per prefix that some trace continues: how often each activity follows."""
    result: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for trace, cases in Counter(tuple(map(str, trace)) for trace in log.traces()).items():
        for k, activity in enumerate(trace):
            result[trace[:k]][activity] += cases
    return result


def _step(net: Any, final: Any) -> Callable[[Any, str], State | None]:
    """Replay one activity from a marking: return the marking reached and the labels that may come next.

    None if the activity does not fit. Activities that the model lacks are passed over.
    """
    from pm4py.algo.conformance.tokenreplay.variants import token_replay
    from pm4py.objects.petri_net.utils.petri_utils import get_places_shortest_path_by_hidden

    hidden = get_places_shortest_path_by_hidden(net, HIDDEN_DEPTH)
    of_label = {t.label: t for t in sorted(net.transitions, key=lambda t: str(t.name))}
    states: dict[tuple[frozenset[Any], str], State | None] = {}

    def replayed(marking: Any, activity: str) -> State | None:
        fits, _, _, _, reached, enabled, *_ = token_replay.apply_trace(
            [{"concept:name": activity}],
            net,
            marking,
            final,
            of_label,
            False,
            {},
            {},
            {},
            hidden,
            False,
            try_to_reach_final_marking_through_hidden=False,
            stop_immediately_unfit=True,
            post_fix_caching=token_replay.PostFixCaching(),
            marking_to_activity_caching=token_replay.MarkingToActivityCaching(),
        )
        return (reached, frozenset(t.label for t in enabled)) if fits else None

    def step(marking: Any, activity: str) -> State | None:
        key = frozenset(marking.items()), activity
        if key not in states:
            states[key] = replayed(marking, activity)
        return states[key]

    return step


def as_frame(log: EventLog) -> pd.DataFrame:
    """Build the frame that pm4py reads: control flow only, times are the position in the trace."""
    import pandas as pd

    return pd.DataFrame(
        {
            "case:concept:name": log.case_of_event.astype(str),
            "concept:name": [str(name) for name in log.activity.decode()],
            "time:timestamp": pd.to_datetime(place_in_run(log.starts), unit="s", utc=True),
        }
    )


@contextlib.contextmanager
def quiet_pm4py() -> Iterator[Any]:
    """Import pm4py without its banner, its warnings and its progress bars."""
    level = logging.root.manager.disable
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            import pm4py

            yield pm4py
        finally:
            logging.disable(level)
