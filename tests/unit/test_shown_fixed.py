"""Events of a case that earlier releases showed, if single ones of equal events may be missing."""

from __future__ import annotations

import numpy as np
import pytest

from models.anonymize.shown import ShownItems
from models.eventlog import Column

ABC = ("a", "b", "c")


def shown(*releases: dict[str, str]) -> ShownItems:
    state = ShownItems()
    for release in releases:
        starts = np.cumsum([0, *(len(trace) for trace in release.values())]).astype(np.int64)
        state.add(list(release), starts, Column.encode("".join(release.values())))
    return state


def fixed(state: ShownItems, case: str, trace: str) -> str:
    """The shown events of a case, the others as dots."""
    codes = np.asarray([ABC.index(one) for one in trace], dtype=np.int64)
    found = state.fixed([case], np.asarray([0, len(trace)]), ABC, codes)
    return "".join(one if known else "." for one, known in zip(trace, found.tolist(), strict=True))


@pytest.mark.parametrize(
    ("releases", "trace", "expected"),
    [
        (["ba"], "aba", ".ba"),  # the second a was shown: the first one came before b
        (["ab"], "abab", "ab.."),  # what came later is free
        (["a"], "aa", "a."),
        (["cc"], "abc", "..c"),  # does not fit (late events): the first ones of each item
        (["ab", "b"], "abb", "ab."),  # the newest release has no a: the first one, as counted before
        ([], "abc", "..."),
    ],
)
def test_the_shown_trace_says_which_events_were_shown(releases: list[str], trace: str, expected: str) -> None:
    """The first place at which the newest trace fits; counts where it fits nowhere."""
    assert fixed(shown(*({"case": one} for one in releases)), "case", trace) == expected


def test_a_case_that_no_release_held_is_free() -> None:
    """The other releases do not matter."""
    assert fixed(shown({"other": "abc"}), "case", "abc") == "..."
    assert fixed(shown({"other": "c", "case": "ab"}), "case", "abc") == "ab."
