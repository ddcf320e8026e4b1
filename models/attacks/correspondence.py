"""F-, C- and B-anonymity between two releases: the public entry points.

Adversary: knows a subsequence of the activities of a victim (background knowledge, bk, at most `bk_length` of them),
when the case started (before or after the earlier release), and that releases are incremental: every earlier case is in
the later release.

Claim: for every such bk at least the reported number of records stay possible, whichever linker is the true one. Unit:
records of one release that match the bk.

Not claimed: anything about other knowledge (times, or resources unless linked), about attacks on several victims at
once, or against recipients who hold the raw data.

References
----------
correspondence-attacks-2021, Def. 9-12 (linkers and cracks) and Def. 16-18 (anonymity).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.attacks.candidates import CandidateValuer, candidate_values, joint_value, relation_edges, worst_group
from models.attacks.enumeration import enumerate_all
from models.attacks.linkability import Edges, edges
from models.attacks.linker import BaseLinker, Flags, base_linkers, obstacles
from models.attacks.matching import NextOccurrences, next_occurrences
from models.attacks.outcome import (
    FLOOR,
    Anonymity,
    AttackResult,
    Method,
    Minimum,
    attack_result,
    check_parameters,
    result_without_linker,
)
from models.attacks.pairs import ReleasePair, encode, join_releases
from models.attacks.search import (
    ASK_M,
    C1,
    C2,
    KA2_COMMON,
    MEASURES,
    NEW,
    OPEN,
    FlowAnswer,
    no_incumbents,
    search,
)
from models.compiled import kernel
from models.errors import InputError
from models.eventlog import Codes, EventLog, Ints, SimpleLog
from models.knowledge import NANOSECONDS, Unit, perspective

CARRIED = {"ac": "activity", "re": "resource", "time": "relative_time"}
"""What a release can carry and be linked on, by its short name, and the perspective that shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackQuestion:
    """A question about the anonymity that releases leave together.

    Parameters
    ----------
    bk_length, n, method, minimum
        As `anonymity`.
    bk
        Named background knowledge, whose values are reported as well.
    joint
        Whether named background knowledge counts a link only if it also contains this knowledge.
    foreign
        Whether background knowledge may hold an activity that no release shows.
    attribute
        Items that background knowledge is about: "ac" (activities) or "re" (resources).
    link
        What else the releases carry and can be linked on: any of "ac", "re" and "time".
    T
        Accuracy of the relative times that are linked on.
    taxonomy
        Generalization of each activity (child -> parent).

    Raises
    ------
    InputError
        If an option is unknown or contradicts another one.
    """

    bk_length: int = 2
    n: Sequence[int] = (0, 1)
    method: Method = "exact"
    minimum: Minimum = "realisable"
    bk: Sequence[Sequence[str]] = ()
    joint: bool = False
    foreign: bool = False
    attribute: str = "ac"
    link: Sequence[str] = ()
    T: Unit = "minutes"
    taxonomy: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        """Check the options before a release is read, which may take long."""
        check_parameters(self.bk_length, self.n, self.method, self.minimum)
        if not all(self.bk):
            raise InputError("bk names no activity")
        if self.joint and not self.bk:
            raise InputError("joint links are about named background knowledge: name it by bk")
        if self.attribute not in ("ac", "re"):
            raise InputError(f"attribute = {self.attribute!r} is not one of ac, re")
        if self.T not in NANOSECONDS:
            raise InputError(f"T = {self.T!r} is not one of {', '.join(NANOSECONDS)}")
        for name in self.link:
            if name not in CARRIED:
                raise InputError(f"link = {name!r} is not one of {', '.join(CARRIED)}")

    @property
    def carries(self) -> tuple[str, ...]:
        """Perspectives that the releases are linked on. The first one is what background knowledge is about."""
        names = dict.fromkeys([self.attribute, *self.link])
        return tuple(CARRIED[name] for name in names)

    @property
    def known(self) -> Callable[[Any], Any] | None:
        """Return what background knowledge can be about of a carried item. None: the item itself."""
        return _first_part if len(self.carries) > 1 else None

    def simple_logs(
        self,
        releases: Sequence[EventLog],
        sensitive: Sequence[str] = (),
        *,
        names: Sequence[object] | None = None,
        cases: Sequence[Ints | None] | None = None,
    ) -> list[SimpleLog]:
        """Return releases as simple logs over the items that they carry.

        Parameters
        ----------
        releases
            In order of publication.
        sensitive
            Sensitive attributes of a case. Records of different values are never linked.
        names
            Names of the releases in messages, for example their files.
        cases
            For each release the cases that each of its records represents: int64[cases of the log]. None: one each.

        Raises
        ------
        InputError
            If the releases cannot be compared, or none shows what the options are about.
        """
        if names is None:
            names = [f"release {number}" for number in range(1, len(releases) + 1)]
        if cases is None:
            cases = [None] * len(releases)
        logs: list[SimpleLog] = []
        for release, name, represented in zip(releases, names, cases, strict=True):
            for attribute in sensitive:
                if attribute not in release.case_attributes and attribute not in release.event_attributes:
                    raise InputError(
                        f"{name}: no attribute {attribute!r}; releases are compared on the same sensitive ones"
                    )
            try:
                items = perspective(release, self.carries, self.T)
            except InputError as error:
                raise InputError(f"{name}: {error}") from None
            logs.append(SimpleLog.from_items(release.starts, items, release.sensitive(sensitive), represented))
        for place in range(1, len(logs)):
            n_cases, n_before = logs[place].n_cases, logs[place - 1].n_cases
            if n_cases < n_before:
                raise InputError(
                    f"{names[place]} has {n_cases} cases, fewer than the {n_before} of {names[place - 1]}: "
                    "give releases in order of publication; the attacks assume that no case leaves"
                )
        self._check_symbols([self._symbols(log) for log in logs])
        return logs

    def between(self, earlier: SimpleLog, later: SimpleLog) -> Anonymity:
        """Return the answer for two of the releases, with the named candidates whose symbols they show."""
        candidates = self.bk
        if not self.taxonomy:
            shown = {"*"} | self._symbols(earlier) | self._symbols(later)
            candidates = [bk for bk in self.bk if shown.issuperset(bk)]
        return anonymity(
            earlier,
            later,
            bk_length=self.bk_length,
            n=self.n,
            method=self.method,
            minimum=self.minimum,
            known=self.known,
            taxonomy=self.taxonomy,
            foreign=self.foreign,
            joint=self.joint,
            candidates=candidates,
        )

    def _symbols(self, log: SimpleLog) -> set[Any]:
        """Return the symbols of background knowledge that a release shows."""
        if self.known is None:
            return set(log.alphabet)
        return {self.known(item) for item in log.alphabet}

    def _check_symbols(self, shown: list[set[Any]]) -> None:
        """Refuse releases without a common symbol, and a taxonomy or candidates about symbols that none shows.

        `shown`: the symbols of each release.
        """
        perspective_name = self.carries[0]
        shown_by_any = set.union(*shown)
        if self.taxonomy:
            if shown_by_any.isdisjoint([*self.taxonomy, *self.taxonomy.values()]):
                raise InputError(f"taxonomy: it names no {perspective_name} that a release shows")
            return  # named candidates may then be specializations that no release shows
        if not set.intersection(*shown):
            raise InputError(f"the releases have no {perspective_name} in common: are they of one process?")
        if self.foreign:
            shown_by_any.add("*")
        for bk in self.bk:
            for place, name in enumerate(bk, start=1):
                if name not in shown_by_any:
                    raise InputError(f"bk: {perspective_name} {place} of {len(bk)} occurs in none of the releases")


def _first_part(item: Any) -> Any:
    """Return the part of a carried item that background knowledge is about."""
    return item[0]


def attack(
    earlier: EventLog,
    later: EventLog,
    question: AttackQuestion | None = None,
    *,
    sensitive: Sequence[str] = (),
    names: Sequence[object] | None = None,
) -> Anonymity:
    """Return the anonymity that two releases leave together (F-, C- and B-attack).

    Parameters
    ----------
    earlier, later
        The releases, in order of publication.
    question
        Options of the attack. None: the defaults of `AttackQuestion`.
    sensitive
        Sensitive attributes of a case. Records of different values are never linked.
    names
        Names of the two releases in messages, for example their files.

    Returns
    -------
    Anonymity
        The least KA, FA, CA and BA for each n. Its `json()` is the document of `veilstream attack --json`.

    Raises
    ------
    InputError
        If the releases cannot be compared, or are too large to be searched.

    References
    ----------
    correspondence-attacks-2021, Def. 10-12 and 16-18.
    """
    question = question or AttackQuestion()
    first, second = question.simple_logs([earlier, later], sensitive, names=names)
    return question.between(first, second)


def anonymity(
    earlier: SimpleLog,
    later: SimpleLog,
    *,
    bk_length: int = 2,
    n: Sequence[int] = (0, 1),
    method: Method = "exact",
    minimum: Minimum = "realisable",
    known: Callable[[Any], Any] | None = None,
    taxonomy: Mapping[Any, Any] | None = None,
    foreign: bool = False,
    joint: bool = False,
    candidates: Sequence[Sequence[Any]] = (),
) -> Anonymity:
    """Return the least KA, FA, CA and BA over all background knowledge, for each n.

    Parameters
    ----------
    earlier, later
        Simple logs over every item that the releases carry.
    bk_length
        Longest background knowledge, in activities; all of length 1..bk_length are searched.
    n
        Events removed from a case at most, each searched by itself.
    method
        `exact`: Def. 10-12 over all linkers. `sound`, `paper`, `reference`: see `outcome.Method`.
    minimum
        Which values count: see `outcome.Minimum`.
    known
        Maps a carried item to what background knowledge can be about. None: the item itself.
    taxonomy
        Child -> parent, for generalized activities.
    foreign
        Whether background knowledge may hold one activity that no release shows (written `*`).
    joint
        Whether the F and C of `candidates` count a link only if one pair of originals is linkable and also contains bk
        before the earlier release. Stricter; the paper does not use it.
    candidates
        Named background knowledge whose values are reported as well.

    Raises
    ------
    InputError
        If a parameter is out of range, or the logs are too large to be searched.

    References
    ----------
    correspondence-attacks-2021, Def. 10-12 and 16-18.
    """
    check_parameters(bk_length, n, method, minimum)
    pair = join_releases(earlier, later, known=known, taxonomy=taxonomy, foreign=foreign)
    return PairAttack(pair, bk_length, sorted(set(n)), method, minimum).run(candidates, joint)


class PairAttack:
    """The attacks on one pair, with the tables that all n share.

    Parameters
    ----------
    pair
        The two releases under one numbering.
    bk_length, method, minimum
        As `anonymity`.
    ns
        Events removed at most, ascending.
    table, linkable
        Next occurrences and linkable pairs (up to the last n) of this pair, if they exist already.
    least_n
        Whether the least n with a linker is searched where there is none.
    """

    def __init__(
        self, pair: ReleasePair, bk_length: int, ns: Sequence[int], method: Method, minimum: Minimum,
        table: NextOccurrences | None = None, *, linkable: Edges | None = None, least_n: bool = True,
    ) -> None:  # fmt: skip
        self.pair, self.bk_length, self.ns = pair, bk_length, ns
        self.method: Method = method
        self.minimum: Minimum = minimum
        self.table = next_occurrences(pair) if table is None else table
        self.linkable = edges(pair, ns[-1]) if linkable is None else linkable
        # The least n of each sensitive value, once it was searched; None if it is not to be searched.
        self.least_n: dict[int, int | None] | None = {} if least_n else None
        uses_closed_form = method in ("exact", "sound")
        self.compared = self.linkable if uses_closed_form else relation_edges(pair, ns[-1], method)

    def run(self, candidates: Sequence[Sequence[Any]] = (), joint: bool = False) -> Anonymity:
        """Return the minima at all n, and the values of the named candidates."""
        codes = [encode(self.pair, bk) for bk in candidates]
        results: list[AttackResult] = []
        named: list[dict[str, Any]] = []
        for base in base_linkers(self.pair, self.linkable, self.ns):
            results.append(self.least(base))
            for bk, code in zip(candidates, codes, strict=True):
                named.append(self._named(base, bk, code, joint))
        cases = (self.pair.earlier.n_cases, self.pair.later.n_cases)
        return Anonymity(self.bk_length, self.method, self.minimum, cases, results, named)

    def valuer(self, base: BaseLinker) -> CandidateValuer:
        """Return how this method values a candidate at the n of `base`."""
        return CandidateValuer(self.pair, self.table, self.method, base.n, self.compared, base)

    def least(self, base: BaseLinker) -> AttackResult:
        """Return the minima at the n of `base`, or its witnesses if no linker exists."""
        if not base.exists:
            return result_without_linker(base.n, obstacles(self.pair, base, self.least_n, self.ns[-1]))
        valuer = self.valuer(base)
        if self.method == "exact":
            best, worst = exact_minima(self.pair, self.table, base, self.bk_length, self.minimum)
        else:
            best, worst = enumerated_minima(valuer, self.bk_length, self.minimum)
        result = attack_result(self.pair, self.table, base.n, best, worst)
        for attack in ("fa", "ca", "ba"):
            if result.worst[attack]:
                codes = worst[MEASURES.index(attack)]
                left = result.values[attack] if self.method == "exact" else None
                result.groups[attack] = worst_group(valuer, codes[codes >= 0].tolist(), attack, left)
        return result

    def _named(self, base: BaseLinker, bk: Sequence[Any], code: Codes, joint: bool) -> dict[str, Any]:
        """Return one candidate at one n; its cracks are None if no linker exists."""
        valuer = self.valuer(base)
        values = joint_value(valuer, code) if joint else candidate_values(valuer, code)
        if not base.exists:
            values = {key: size if key in ("ms1", "ms2") else None for key, size in values.items()}
        return {"bk": list(bk), "n": base.n, **values}


def exact_minima(
    pair: ReleasePair, table: NextOccurrences, base: BaseLinker, bk_length: int, minimum: Minimum
) -> tuple[Ints, Codes]:
    """Return the exact minima at one n by branch and bound.

    Returns
    -------
    best
        int64[MEASURES], as `search.search`.
    worst
        int32[MEASURES, bk_length], the background knowledge that attains each.
    """
    known1, known2 = pair.earlier.known, pair.later.known
    loose = base.loose.copy()  # by rows; the search reads known variants
    loose[:, 0] = known1[loose[:, 0]]
    loose[:, 1] = known2[loose[:, 1]]

    def ask(question: int, inside: Flags, enough: int) -> FlowAnswer:
        in2 = inside[known2]
        try:
            if question == ASK_M:
                in1 = inside[known1]
                ms1 = int(pair.earlier.count[in1].sum())
                return ms1 - base.fewest_leaving(in1, in2), None
            most_free = base.most_free(in2, enough)
            free = np.bincount(known2, weights=base.linker.free, minlength=pair.n_known)
            return most_free, free.astype(np.int64)
        finally:
            base.undo()

    surplus = pair.later.n_cases - pair.earlier.n_cases
    weights = _search_weights(pair, base)
    best, worst, _ = search(table, weights, loose, base.n, bk_length, FLOOR[minimum], surplus, ask)
    return best, worst


def _search_weights(pair: ReleasePair, base: BaseLinker) -> Ints:
    """Return the `weights` of `search.search`, by known variant."""
    weights = np.zeros((pair.n_known, 4), dtype=np.int64)
    earlier, later = pair.earlier, pair.later
    _tally(earlier.known, earlier.count, later.known, later.count, base.linker.free, base.reachable, weights)
    return weights


@kernel
def _tally(known1, count1, known2, count2, free, reachable, weights):  # type: ignore[no-untyped-def]
    """Add up rows by known variant; one pass is faster than four calls of numpy."""
    for i in range(len(known1)):
        weights[known1[i], C1] += count1[i]
    for j in range(len(known2)):
        weights[known2[j], C2] += count2[j]
        weights[known2[j], NEW] += free[j]
        weights[known2[j], OPEN] += np.int64(reachable[j])


def enumerated_minima(
    valuer: CandidateValuer, bk_length: int, minimum: Minimum, exactly: bool | None = None
) -> tuple[Ints, Codes]:
    """Return the minima over every candidate, for methods whose values may grow when bk is extended.

    Parameters
    ----------
    valuer
        The method, at one n.
    bk_length, minimum
        As `anonymity`.
    exactly
        Whether only bk of length bk_length count, as in the authors' program. None: for `reference` alone.

    Returns
    -------
    As `exact_minima`.
    """
    best, worst = no_incumbents(bk_length)
    floor = FLOOR[minimum]
    is_reference = valuer.method == "reference"
    if exactly is None:
        exactly = is_reference
    for codes, values in enumerate_all(valuer, bk_length):
        ms1, ms2, f, c, b = values.T.astype(np.int64)
        valid = codes[:, -1] >= 0 if exactly else codes[:, 0] >= 0
        in_both = valid & (ms1 > 0) & (ms2 > 0)
        in_one = valid & ((ms1 > 0) | (ms2 > 0))
        # The authors' program drops a bk with an empty matching set, for KA too.
        for_ka = in_both if is_reference else valid
        if is_reference or floor < 0:
            for_attacks = in_both
        else:
            for_attacks = valid if floor == 1 else in_one
        columns = (
            (ms1, for_ka & (ms1 > 0)),
            (ms2, for_ka & (ms2 > 0)),
            (ms1, in_both),
            (ms2, in_both),
            (ms1 - f, for_attacks),
            (ms2 - c, for_attacks),
            (ms2 - b, for_attacks),
        )  # in the order of MEASURES
        for measure, (numbers, allowed) in enumerate(columns):
            if floor == 1 or measure <= KA2_COMMON:
                allowed = allowed & (numbers >= 1)
            _take_least(best, worst, measure, numbers, allowed, codes)
    return best, worst


def _take_least(
    best: Ints, worst: Codes, measure: int, numbers: Ints, allowed: npt.NDArray[np.bool_], codes: npt.NDArray[Any]
) -> None:
    """Make the least allowed number the incumbent of a measure, if it is smaller."""
    rows = np.flatnonzero(allowed)
    if not len(rows):
        return
    row = rows[np.argmin(numbers[rows])]
    if numbers[row] < best[measure]:
        best[measure] = numbers[row]
        worst[measure] = codes[row]


def every_candidate(
    earlier: SimpleLog,
    later: SimpleLog,
    *,
    bk_length: int,
    n: Sequence[int],
    method: Method = "exact",
    known: Callable[[Any], Any] | None = None,
    taxonomy: Mapping[Any, Any] | None = None,
    foreign: bool = False,
) -> Iterator[tuple[int, tuple[Any, ...], Any, Any]]:
    """Yield every background knowledge with its values, in blocks.

    Parameters
    ----------
    earlier, later, bk_length, n, method, known, taxonomy, foreign
        As `anonymity`.

    Yields
    ------
    n
        Events removed at most. An n without a linker gives no block.
    symbols
        Names of the symbol codes.
    codes
        int16[N, bk_length], symbol codes of N candidates, -1 after the end of each.
    values
        int32[N, 5]: ms1, ms2, F, C, B.

    Raises
    ------
    InputError
        If a parameter is out of range, or the candidates are too many to be listed.
    """
    check_parameters(bk_length, n, method)
    pair = join_releases(earlier, later, known=known, taxonomy=taxonomy, foreign=foreign)
    attack = PairAttack(pair, bk_length, sorted(set(n)), method, "realisable")
    for base in base_linkers(pair, attack.linkable, attack.ns):
        if base.exists:
            for codes, values in enumerate_all(attack.valuer(base), bk_length):
                yield base.n, pair.alphabet, codes, values
