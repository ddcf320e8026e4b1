"""The words of promises and tables in plain language, for pages without a glossary: statement and report.

Each entry is shown if its pattern appears in the text of the page. docs/glossary.md explains the same words at more
length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORDS: tuple[tuple[str, str, str], ...] = (
    (r"\bitems?\b", "item", "one thing that can be known of a case: an activity, a resource, or both"),
    (r"\bseq\b", "seq", "knowing in which order the items came"),
    (r"\bmult\b", "mult", "knowing how often each item came"),
    (r"\bset\b(?=[,;)])", "set", "knowing which items came"),
    (r"\brel\b", "rel", "knowing the order of the items, and the times between them"),
    (r"\bac\b", "ac", "items are activities"),
    (r"\bre\b", "re", "items are resources: who did the step"),
    (r"\bar\b", "ar", "items are activities together with resources"),
    (r"\bmatch(es|ing)?\b", "matches", "a case matches what is known of a person if it shows all of that"),
    (
        r"\b(F|C|B|FA|CA|BA|F-)\b",
        "F, C, B",
        "the three correspondence attacks. Somebody compares two releases and excludes cases that cannot be the "
        "person: forward (F) and cross (C), where the person is in both releases; backward (B), where the person is "
        "new in the later one. FA, CA and BA say how many cases are left",
    ),
    (r"\bKA\b", "KA", "how many cases of one release match what is known, in the worst case"),
    (
        r"\bn\b(?=:| )",
        "n",
        "how many events may have been removed from a case; somebody who has to allow for more removals excludes less",
    ),
    (r"\bsensitive\b", "sensitive", "of an attribute: nobody may learn its value about a person, such as a diagnosis"),
    (r"\bcohorts?\b", "cohort", "a group of completed cases that leaves together and stays the same in later releases"),
    (r"\balphabets?\b", "alphabet", "the activities that a cohort shows"),
    (r"\bclass(es)?\b", "class", "cases with the same sensitive value"),
    (r"\b(local )?suppression\b", "suppression", "events are removed; `local` removes them from single cases"),
    (r"^L$", "L", "how many items somebody may know of a case, at most"),
    (r"^K$", "K", "how many cases must match that, at least"),
    (r"^C$", "C", "how large a share of the matching cases may have the same sensitive value"),
    (r"^T$", "T", "the unit of times"),
    (r"\bvariants?\b", "variant", "the activities of a case in their order; several cases may share it"),
    (r"\bP\[", "P[M(L) in S]", "the chance that the program M, given the log L, makes a result of the set S"),
    (
        r"\bepsilon\b",
        "epsilon",
        "how much releases may reveal. If one person more or less is in the log, no result becomes more than e to the "
        "power epsilon times as likely",
    ),
    (
        r"\bdelta\b",
        "delta",
        "what is added to that: a chance p becomes at most e to the power epsilon times p, plus delta",
    ),
    (r"\bunbounded\b", "unbounded", "the two logs that are compared differ by one person who is added or removed"),
    (r"\bTPL\b|\bnats\b", "TPL, nats", "what all releases together reveal about a case's state; nats are the unit"),
    (r"\blinkers?\b", "linker", "a way to give every earlier case a later case that it may have become"),
    (r"\bprojection\b", "projection", "the adversary's knowledge of an event. A: activity and time. E: activity alone"),
    (r"\bguessing advantage\b", "guessing advantage", "how much better somebody can guess one count or one time"),
    (r"\bretention\b", "retention", "old cases are deleted after a time that the operator set"),
    (r"\bmanifest\b", "manifest", "the file next to a release that describes it and its promise"),
    (r"\bsha256\b", "sha256", "a sum of a file's bytes: another file has another sum"),
)


_CODE = 4
"""Letters of a code such as `seq` or `K`: in a word that short, capitals matter."""


def explained(text: str) -> Iterator[tuple[str, str]]:
    """Yield (word, meaning) of the words that appear in `text`, in the order of the list above.

    Parameters
    ----------
    text
        Text of the page.
    """
    for pattern, word, meaning in _WORDS:
        flags = re.MULTILINE
        if len(word) > _CODE:
            flags |= re.IGNORECASE
        if re.search(pattern, text, flags):
            yield word, sentence(meaning)


def every() -> list[tuple[str, str]]:
    """Return all words, for a page that may hold each of them."""
    return [(word, sentence(meaning)) for _, word, meaning in _WORDS]


def sentence(text: str) -> str:
    """Return a text with a capital letter and a full stop.

    Parameters
    ----------
    text
        A clause.
    """
    text = text.strip().rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."
