"""Facts of a ledger by definition: each one is a question to the whole list of entries.

`stream.ledger.view` keeps the same facts entry by entry. Nothing here is kept, shared or fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from models.dp.zcdp import PURE, Accounting
from stream.ledger.entries import ClaimBody, ClaimEntry, Entry, NoteEntry

Exact = tuple[Fraction, Fraction, Fraction]
"""Epsilon, delta, rho."""


def that_count(entries: Sequence[Entry]) -> list[Entry]:
    """The entries without later ones that say the same thing of a publication again."""
    seen: set[tuple[Any, ...]] = set()
    kept = []
    for entry in entries:
        name, body = entry.publication, getattr(entry, "body", None)
        by_kind: dict[str, tuple[Any, ...]] = {
            "charge": (name, entry.cut, getattr(body, "redraw", 0)),
            "withheld": (name, entry.cut),
            "seal": (name, entry.sequence),
            "published": (name, entry.sequence),
        }
        key = by_kind.get(entry.kind)
        if entry.kind == "approval" and getattr(body, "decision", "") != "refused":
            key = (name, entry.sequence)
        if key is not None:
            if (entry.kind, *key) in seen:
                continue
            seen.add((entry.kind, *key))
        kept.append(entry)
    return kept


def of(entries: Sequence[Entry], kind: str, name: str | None = None) -> list[Any]:
    """All entries of a kind, of one publication or of all."""
    counted = that_count(entries)
    return [entry for entry in counted if entry.kind == kind and name in (None, entry.publication)]


def spent(entries: Sequence[Entry], name: str) -> Exact:
    """Sequential charges added up, and the largest of the parallel ones, unit by unit."""

    def in_units(body: Any) -> Exact:
        if body.rho:
            return Fraction(0), Fraction(body.tail), Fraction(body.rho)
        return Fraction(body.epsilon), Fraction(body.delta), Fraction(0)

    bodies = [entry.body for entry in of(entries, "charge", name)]
    added = [in_units(body) for body in bodies if body.scope != "cases"]
    parallel = [in_units(body) for body in bodies if body.scope == "cases"]
    zero = (Fraction(0), Fraction(0), Fraction(0))
    sums = [sum((charge[unit] for charge in added), Fraction(0)) for unit in range(3)]
    largest = [max(charge[unit] for charge in [zero, *parallel]) for unit in range(3)]
    return sums[0] + largest[0], sums[1] + largest[1], sums[2] + largest[2]


def spent_by_all(entries: Sequence[Entry]) -> Exact:
    """Return what all publications in the entries spent together."""
    every = [spent(entries, name) for name in {entry.publication for entry in entries}]
    sums = [sum((one[unit] for one in every), Fraction(0)) for unit in range(3)]
    return sums[0], sums[1], sums[2]


def accounting(entries: Sequence[Entry], name: str) -> Accounting:
    """Return how the last charge by rho is converted; charges by epsilon are added up as they are."""
    by_rho = [entry.body for entry in of(entries, "charge", name) if entry.body.rho]
    if not by_rho:
        return PURE
    return Accounting("zcdp", Fraction(by_rho[-1].delta) - Fraction(by_rho[-1].tail))


def notes(entries: Sequence[Entry], name: str | None = None) -> list[NoteEntry]:
    """Return the notes that are not claims, of one publication or of all."""
    return [entry for entry in entries if isinstance(entry, NoteEntry) and name in (None, entry.publication)]


def first_seen(entries: Sequence[Entry]) -> dict[str, int]:
    """Return the clock of the first note that has one, by publication."""
    seen = [(entry.publication, entry.body.first_seen) for entry in notes(entries) if entry.body.first_seen is not None]
    return dict(reversed(seen))


def owner(entries: Sequence[Entry]) -> tuple[ClaimBody | None, bool]:
    """Return the first claim of a replay, and whether a note of the process itself came before any claim."""
    places = [place for place, entry in enumerate(entries) if isinstance(entry, ClaimEntry)]
    before = entries[: places[0]] if places else entries
    claim = entries[places[0]].body if places else None
    assert claim is None or isinstance(claim, ClaimBody)
    return claim, any(not entry.publication for entry in notes(before))


def state(entries: Sequence[Entry], name: str, number: int) -> str:
    """Return the state of a sealed number."""
    (seal,) = [entry for entry in of(entries, "seal", name) if entry.sequence == number]
    decisions = [entry.body.decision for entry in of(entries, "approval", name) if entry.sequence == number]
    rulings = [decision for decision in decisions if decision != "refused"]
    if any(entry.sequence == number for entry in of(entries, "burned", name)):
        return "burned"
    if seal.body.held_at is not None and rulings != ["approved"]:
        return rulings[0] if rulings else "held"
    return "published" if any(entry.sequence == number for entry in of(entries, "published", name)) else "sealed"


def numbers_in(entries: Sequence[Entry], name: str, *states: str) -> list[int]:
    """The sealed numbers that are in one of the states."""
    numbers = [entry.sequence for entry in of(entries, "seal", name)]
    return sorted(number for number in numbers if state(entries, name, number) in states)


def redraws(entries: Sequence[Entry], name: str, cut: str) -> int:
    """Return how many numbers of a cut were burned."""
    return sum(entry.cut == cut for entry in of(entries, "burned", name))


def open_cut(entries: Sequence[Entry], name: str, cut: str) -> bool:
    """Whether the next draw of a cut is paid for, and the cut is neither refused nor has a seal that was not lost."""
    number = redraws(entries, name, cut)
    paid = any(entry.cut == cut and entry.body.redraw == number for entry in of(entries, "charge", name))
    refused = any(entry.cut == cut for entry in of(entries, "withheld", name))
    decided = False
    for entry in that_count(entries):
        if entry.publication == name and entry.cut == cut and entry.kind in ("seal", "burned"):
            decided = entry.kind == "seal"
    return paid and not refused and not decided


def streak(entries: Sequence[Entry], name: str) -> int:
    """Refusals since the last seal, but those that only waited for an approval."""
    own = [entry for entry in that_count(entries) if entry.publication == name]
    seals = [place for place, entry in enumerate(own) if entry.kind == "seal"]
    since = own[seals[-1] + 1 :] if seals else own
    return sum(entry.kind == "withheld" and not entry.waits_for for entry in since)


def outcome(entries: Sequence[Entry], name: str, cut: str, redraw: int) -> str:
    """Return the outcome of a draw: the last decision on its cut after so many burned numbers."""
    lost, last = 0, "not finished"
    for entry in that_count(entries):
        if entry.publication != name or entry.cut != cut or entry.kind not in ("seal", "withheld", "burned"):
            continue
        if lost == redraw:
            last = state(entries, name, entry.sequence) if entry.kind == "seal" else entry.kind
        lost += entry.kind == "burned"
    return last


def exist(entries: Sequence[Entry]) -> list[tuple[str, int]]:
    """The releases that recipients have, in the order in which they left."""
    left = []
    counted = that_count(entries)
    keys = {(entry.publication, entry.sequence): entry for entry in counted if entry.kind == "seal"}
    for place, entry in enumerate(counted):
        key = (entry.publication, entry.sequence)
        if key not in keys or state(entries, *key) not in ("sealed", "published"):
            continue
        held = keys[key].body.held_at is not None
        approved = entry.kind == "approval" and entry.body.decision == "approved"
        approved_before = any(
            (one.publication, one.sequence) == key and one.kind == "approval" and one.body.decision == "approved"
            for one in counted[:place]
        )
        if (entry.kind == "seal" and (not held or approved_before)) or (
            approved and held and keys[key] in counted[:place]
        ):
            left.append(key)
    return left


def since(entries: Sequence[Entry], name: str, number: int) -> list[Entry]:
    """The entries behind a seal."""
    counted = that_count(entries)
    places = [
        place
        for place, entry in enumerate(counted)
        if entry.kind == "seal" and (entry.publication, entry.sequence) == (name, number)
    ]
    return counted[places[0] + 1 :]


def at_seal(entries: Sequence[Entry], name: str, number: int) -> tuple[Exact, Exact, int, int]:
    """Spent by the publication and by the process, sealed numbers, and those of this publication or charged ones."""
    counted = that_count(entries)
    before = counted[: len(counted) - len(since(entries, name, number))]
    process = spent_by_all(before)
    charged_elsewhere = 0
    for place, entry in enumerate(before):
        charged = {one.cut for one in of(before[:place], "charge", entry.publication)}
        charged_elsewhere += entry.kind == "seal" and entry.publication != name and entry.cut in charged
    return spent(before, name), process, len(of(before, "seal")), len(of(before, "seal", name)) + charged_elsewhere
