"""Why a gate refuses, or would have: a code from a closed list, the bound, the value, and the sentence for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from stream.ledger.entries import ApprovalBody

Code = Literal[
    "ka", "fa", "ca", "ba", "series", "uniqueness", "utility", "tpl", "epsilon", "delta", "process_budget",
    "premise", "mechanism", "held", "cases",
]  # fmt: skip
"""`premise`: the audit's premise does not hold, or a bound could not be shown; `mechanism`: whatever else refuses;
`held`: an earlier release waits for a person's decision, or this one was rejected; `cases`: too few of them so far."""

CODES: tuple[Code, ...] = get_args(Code)

Number = int | float | Fraction


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason. `bound` and `value` are None if there is no such number (a premise, or not measured)."""

    code: Code
    text: str
    bound: Number | None = None
    value: Number | None = None

    def __str__(self) -> str:
        """Return the sentence."""
        return self.text


_BEGINS: dict[str, Code] = {
    **{code: code for code in CODES},
    "process budget": "process_budget",
    "no linker": "premise",
    "anonymity": "premise",
}


def of_record(text: str) -> Reason:
    """Return the reason of a decision that an earlier process took.

    Ledger and audit.json keep the sentence alone, which begins with the value that the gate checked.
    """
    start = next((start for start in _BEGINS if text.startswith((f"{start}:", f"{start} "))), None)
    return Reason("mechanism" if start is None else _BEGINS[start], text)


_BLOCKED = re.compile(r"held: release \d+ waits")


def blocked(publication: str, number: int) -> Reason:
    """Return why a cut waits behind a release that a person has yet to decide on."""
    text = f"held: release {number} waits for a decision (veilstream approve or reject {publication} {number})"
    return Reason("held", text)


def only_waits(reasons: Sequence[str]) -> bool:
    """Return whether a cut released nothing only because it waits: for more cases, or behind a held release.

    Such a cut breaks no bound, and the next cut tries again. Rejected releases have the code `held` too, and do not
    wait.

    Parameters
    ----------
    reasons
        The sentences that ledger and audit.json keep.
    """
    waits = [of_record(text).code == "cases" or _BLOCKED.match(text) is not None for text in reasons]
    return bool(waits) and all(waits)


def ruled(ruling: ApprovalBody) -> str:
    """Return why a held release is not published, as a sentence."""
    return f"held: {ruling.decision} by {ruling.by}: {ruling.why}"
