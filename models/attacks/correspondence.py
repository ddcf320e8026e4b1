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
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy.typing as npt

from models.attacks.candidates import CandidateValuer, candidate_values, joint_value, relation_edges, worst_group
from models.attacks.enumeration import enumerate_all, enumerated_minima
from models.attacks.linkability import Edges, edges
from models.attacks.linker import BaseLinker, base_linkers
from models.attacks.obstacles import Obstacle, obstacles
from models.attacks.pairs import NextOccurrences, ReleasePair, encode, join_releases, next_occurrences, unmatched
from models.attacks.search import MEASURES, NO_VALUE, Minimum, exact_minima
from models.content_free import content_free
from models.errors import InputError, check_choice
from models.eventlog import Codes, EventLog, Ints, SimpleLog
from models.knowledge import NANOSECONDS, Unit, perspective

Method = Literal["exact", "sound", "paper", "reference"]
"""exact: Def. 10-12 over all linkers; sound: group formulas that never over-state a crack; paper: Theorems 3-5 as
printed; reference: what the authors' program computes."""

LONGEST_BK = 32
MOST_N = 127


CARRIED = {"ac": "activity", "re": "resource", "time": "relative_time"}
"""The perspective behind each short name that a release can carry and be linked on."""


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
        Other perspectives that the releases carry and can be linked on: any of "ac", "re" and "time".
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
        check_choice("attribute =", self.attribute, ("ac", "re"))
        check_choice("T =", self.T, NANOSECONDS)
        for name in self.link:
            check_choice("link =", name, CARRIED)

    @property
    def carries(self) -> tuple[str, ...]:
        """Perspectives that the releases are linked on. The first one is what background knowledge is about."""
        names = dict.fromkeys([self.attribute, *self.link])
        return tuple(CARRIED[name] for name in names)

    @property
    def known_part(self) -> Callable[[Any], Any] | None:
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
            values = release.sensitive(sensitive)
            logs.append(SimpleLog.from_items(release.starts, items, values, represented))
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
        """Return the answer for two of the releases, with the named candidates whose symbols they show.

        Parameters
        ----------
        earlier, later
            The two releases as simple logs.

        Raises
        ------
        InputError
            If they cannot be compared (`anonymity`).
        """
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
            known=self.known_part,
            taxonomy=self.taxonomy,
            foreign=self.foreign,
            joint=self.joint,
            candidates=candidates,
        )

    def _symbols(self, log: SimpleLog) -> set[Any]:
        """Return the symbols of background knowledge that a release shows."""
        if self.known_part is None:
            return set(log.alphabet)
        return {self.known_part(item) for item in log.alphabet}

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


def check_parameters(
    bk_length: int,
    n: Sequence[int],
    method: str = "exact",
    minimum: str = "realisable",
) -> None:
    """Check the parameters of an attack.

    Parameters
    ----------
    bk_length
        Longest background knowledge, 1 to `LONGEST_BK`.
    n
        Events removed from a case at most, each 0 to `MOST_N`; at least one number.
    method, minimum
        A `Method`, and a `search.Minimum`.

    Raises
    ------
    InputError
        If one is out of range.
    """
    if not 1 <= bk_length <= LONGEST_BK:
        raise InputError(f"bk_length = {bk_length} is not in 1..{LONGEST_BK}")
    if not n:
        raise InputError("n names no number of removed events")
    for number in n:
        if not 0 <= number <= MOST_N:
            raise InputError(f"n = {number} is not in 0..{MOST_N}")
    check_choice("method", method, get_args(Method))
    check_choice("minimum", minimum, get_args(Minimum))


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
        `exact`: Def. 10-12 over all linkers. `sound`, `paper`, `reference`: see `Method`.
    minimum
        The values that count: see `search.Minimum`.
    known
        Maps a carried item to the part that background knowledge can cover. None: the item itself.
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
    ns = sorted(set(n))
    pair = join_releases(earlier, later, known=known, taxonomy=taxonomy, foreign=foreign)
    table = next_occurrences(pair)
    linkable = edges(pair, ns[-1])
    return PairAttack(pair, bk_length, ns, method, minimum, table, linkable=linkable).run(candidates, joint)


# --- All pairs of a series ---


@dataclass(frozen=True, slots=True)
class AttackedPair:
    """Two releases (0 is the first), and the anonymity that they leave together.

    Attributes
    ----------
    earlier, later
        Numbers of the releases.
    answer
        Values at each n.
    """

    earlier: int
    later: int
    answer: Anonymity


def _nothing() -> None:
    pass


def attack_pairs(
    question: AttackQuestion, logs: Sequence[SimpleLog], on_pair: Callable[[], None] = _nothing
) -> list[AttackedPair]:
    """Return the answer for each pair of releases, in order of the later one.

    Parameters
    ----------
    question, logs
        The options, and the releases as `question.simple_logs` returns them.
    on_pair
        Called after each pair.
    """
    pairs = []
    for later in range(1, len(logs)):
        for earlier in range(later):
            pairs.append(AttackedPair(earlier, later, question.between(logs[earlier], logs[later])))
            on_pair()
    return pairs


# --- The answer ---


@content_free("n", "linker", "values")
@dataclass(frozen=True, slots=True)
class AttackResult:
    """The minima of a pair at one n.

    Parameters
    ----------
    n
        Events removed at most.
    linker
        "none": no linker exists, so nothing can be stated for any linker.
    values
        Least value of each measure, in records. None if `linker` is "none", or no background knowledge has a value.
    worst
        Background knowledge that attains each minimum.
    groups
        For fa, ca and ba the sensitive value with the most cracked records there.
    obstacles
        Why no linker exists.
    matching
        For fa, ca and ba the records that match the worst one in the attacked release: the earlier one for fa,
        otherwise the later one.
    """

    n: int
    linker: Literal["exists", "none"]
    values: dict[str, int | None]
    worst: dict[str, list[Any] | None] = field(default_factory=dict)
    groups: dict[str, Any] = field(default_factory=dict)
    obstacles: list[Obstacle] = field(default_factory=list)
    matching: dict[str, int | None] = field(default_factory=dict)

    def __getattr__(self, name: str) -> int | None:
        """Return the value of a measure by its name: `result.fa`."""
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def least_n(self) -> int | None:
        """Smallest n with which a linker exists; None if no n can make one, or if one exists already."""
        least = 0
        for obstacle in self.obstacles:
            if obstacle.least_n is None:
                return None
            least = max(least, obstacle.least_n)
        return least if self.obstacles else None

    def json(self) -> dict[str, Any]:
        """Return the entry of `results` in the `attack` document."""
        body: dict[str, Any] = {
            "n": self.n,
            "linker": self.linker,
            **self.values,
            **proportions(self.values, self.matching),
        }
        body["worst"] = {name: self.worst.get(name) for name in ("fa", "ca", "ba", "ka1", "ka2")}
        body["groups"] = self.groups
        if self.linker == "none":
            body["least_n"] = self.least_n
            body["witness"] = [
                {
                    "value": obstacle.value,
                    "earlier": obstacle.earlier,
                    "later": obstacle.later,
                    "least_n": obstacle.least_n,
                }
                for obstacle in self.obstacles
            ]
        return body


@content_free("bk_length", "method", "minimum", "cases", "results")
@dataclass(frozen=True, slots=True)
class Anonymity:
    """Answer of `anonymity`.

    Attributes
    ----------
    bk_length
        Symbols of the longest background knowledge.
    method, minimum
        As `anonymity` takes them.
    cases
        Cases of the earlier and of the later release.
    results
        One result for each n, ascending.
    candidates
        Values of the named background knowledge, at each n.
    """

    bk_length: int
    method: str
    minimum: Minimum
    cases: tuple[int, int]
    results: list[AttackResult]
    candidates: list[dict[str, Any]] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        """Return the `attack` document."""
        body: dict[str, Any] = {
            "bk_length": self.bk_length,
            "method": self.method,
            "minimum": self.minimum,
            "cases": list(self.cases),
            "results": [result.json() for result in self.results],
        }
        if self.candidates:
            body["candidates"] = self.candidates
        return body


def proportions(values: Mapping[str, int | None], matching: Mapping[str, int | None]) -> dict[str, float | None]:
    """Return the proportions of cracked cases FC, CC and BC.

    Each is of the one background knowledge in `worst`, so it is between 0 and 1 where cracks are counted exactly.

    The paper (section 5) divides by the least KA, which another background knowledge attains: as printed, a proportion
    can be negative.

    Parameters
    ----------
    values, matching
        As of `AttackResult`, in records.

    Returns
    -------
    dict
        fc, cc, bc; None if no background knowledge has a value.
    """
    return {f"{name[0]}c": _lost(matching.get(name), values.get(name)) for name in ("fa", "ca", "ba")}


def _lost(before: int | None, after: int | None) -> float | None:
    """Return the proportion that was lost, or None if there was nothing, or nothing is known."""
    if not before or after is None:
        return None
    return (before - after) / before


def attack_result(
    pair: ReleasePair, table: NextOccurrences, n: int, best: Ints, worst: npt.NDArray[Any]
) -> AttackResult:
    """Return the answer of a finished search, with symbols in place of codes.

    Parameters
    ----------
    pair, table
        The releases and their next occurrences.
    n
        Events removed at most.
    best, worst
        int64[MEASURES] and int[MEASURES, bk_length], as `search.search` returns them.
    """
    values: dict[str, int | None] = {}
    worst_bk: dict[str, list[Any] | None] = {}
    matching: dict[str, int | None] = {}
    for measure, value, padded_codes in zip(MEASURES, best, worst, strict=True):
        if value >= NO_VALUE:
            values[measure] = worst_bk[measure] = None
            continue
        codes = padded_codes[padded_codes >= 0]
        values[measure] = int(value)
        worst_bk[measure] = [pair.alphabet[code] for code in codes]
        if measure in ("fa", "ca", "ba"):
            ms1, ms2 = _matching_records(pair, table, codes, n)
            matching[measure] = ms1 if measure == "fa" else ms2
    return AttackResult(n, "exists", values, worst_bk, matching=matching)


def _matching_records(
    pair: ReleasePair,
    table: NextOccurrences,
    bk: npt.NDArray[Any],
    n: int,
) -> tuple[int, int]:
    """Return |ms1| and |ms2| of one background knowledge, in records."""
    matches = unmatched(table, bk) <= n
    ms1 = pair.earlier.count[matches[pair.earlier.known_variant]].sum()
    ms2 = pair.later.count[matches[pair.later.known_variant]].sum()
    return int(ms1), int(ms2)


def result_without_linker(n: int, obstacles: list[Obstacle]) -> AttackResult:
    """Return the answer without values: nothing can be stated "for any linker" if there is none.

    Parameters
    ----------
    n
        Events removed from a case at most.
    obstacles
        Records that find no partner at this n, the witnesses of the refusal.
    """
    return AttackResult(n, "none", dict.fromkeys(MEASURES), obstacles=obstacles)


LEGEND = (
    "releases: in the order given; n: events removed from a case, at most; linker: can every earlier case be a later "
    "one; ka1, ka2: least number of cases of each release that match what is known; fa, ca, ba: what is left of it "
    "after the forward, cross and backward attack; fc, cc, bc: the share that each excludes"
)
"""Below the tables. Words of docs/glossary.md."""


def missing_linkers(pairs: Sequence[AttackedPair]) -> list[str]:
    """Return a sentence for each pair and n without a linker.

    Parameters
    ----------
    pairs
        Attacked pairs, each with its answers by n.

    Returns
    -------
    list of str
        Empty if every pair has a linker at every n.
    """
    return [
        _no_linker(pair.earlier, pair.later, result)
        for pair in pairs
        for result in pair.answer.results
        if result.linker == "none"
    ]


def _no_linker(earlier: int, later: int, result: AttackResult) -> str:
    witness = result.obstacles[0]
    if result.least_n:
        hint = f"the least n with a linker is {result.least_n}"
    else:
        hint = f"no n up to {MOST_N} gives one: a value changed, or cases were dropped"
    return (
        f"releases {earlier + 1}, {later + 1}, n = {result.n}: no linker; {len(result.obstacles)} sensitive value(s) "
        f"cannot be matched ({witness.earlier} earlier records link to {witness.later} later ones); {hint}"
    )


# --- The attacks on one pair ---


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
        Whether the least n with a linker is searched if none exists.
    """

    def __init__(
        self,
        pair: ReleasePair,
        bk_length: int,
        ns: Sequence[int],
        method: Method,
        minimum: Minimum,
        table: NextOccurrences | None = None,
        *,
        linkable: Edges | None = None,
        least_n: bool = True,
    ) -> None:
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
        """Return the minima at all n, and the values of the named candidates.

        Parameters
        ----------
        candidates
            Background knowledge to value besides the search, as symbols.
        joint
            Whether the named values are those of joint links (`anonymity`).

        Raises
        ------
        InputError
            If a symbol occurs in none of the releases.
        """
        codes_of_candidates = [encode(self.pair, bk) for bk in candidates]
        results: list[AttackResult] = []
        named: list[dict[str, Any]] = []
        for base in base_linkers(self.pair, self.linkable, self.ns):
            results.append(self.least(base))
            for bk, codes in zip(candidates, codes_of_candidates, strict=True):
                named.append(self._named(base, bk, codes, joint))
        cases = (self.pair.earlier.n_cases, self.pair.later.n_cases)
        return Anonymity(self.bk_length, self.method, self.minimum, cases, results, named)

    def valuer(self, base: BaseLinker) -> CandidateValuer:
        """Return how this method values a candidate at the n of `base`.

        Parameters
        ----------
        base
            The base linker of one n.
        """
        return CandidateValuer(self.pair, self.table, self.method, base.n, self.compared, base)

    def least(self, base: BaseLinker) -> AttackResult:
        """Return the minima at the n of `base`, or its witnesses if no linker exists.

        Parameters
        ----------
        base
            The base linker of one n.

        Returns
        -------
        AttackResult
            Minima over all background knowledge of up to `bk_length` symbols, with the knowledge that
            attains each, and the sensitive value that loses most.
        """
        if not base.exists:
            return result_without_linker(base.n, obstacles(self.pair, base, self.least_n, self.ns[-1]))
        valuer = self.valuer(base)
        if self.method == "exact":
            best, worst = exact_minima(self.pair, self.table, base, self.bk_length, self.minimum)
        else:
            best, worst = enumerated_minima(valuer, self.bk_length, self.minimum)
        result = attack_result(self.pair, self.table, base.n, best, worst)
        for attack in ("fa", "ca", "ba"):
            records_left, attacked = result.values[attack], result.matching.get(attack)
            if records_left is None or attacked is None:
                continue  # no background knowledge has a value
            padded_codes = worst[MEASURES.index(attack)]
            codes = padded_codes[padded_codes >= 0]
            if self.method == "exact" and len(self.pair.values) == 1:
                # All records are one group: its cracks are those that the search has counted.
                ms1, ms2 = _matching_records(self.pair, self.table, codes, base.n)
                group = {"value": self.pair.values[0], "ms1": ms1, "ms2": ms2, "cracked": attacked - records_left}
            else:
                group = worst_group(valuer, codes, attack)
            result.groups[attack] = group
        return result

    def _named(self, base: BaseLinker, bk: Sequence[Any], codes: Codes, joint: bool) -> dict[str, Any]:
        """Return one candidate at one n; its cracks are None if no linker exists."""
        valuer = self.valuer(base)
        values = joint_value(valuer, codes) if joint else candidate_values(valuer, codes)
        if not base.exists:
            sizes = {"ms1": values["ms1"], "ms2": values["ms2"]}
            values = {**dict.fromkeys(values), **sizes}
        return {"bk": list(bk), "n": base.n, **values}


def every_candidate(
    question: AttackQuestion, earlier: SimpleLog, later: SimpleLog
) -> Iterator[tuple[int, tuple[Any, ...], Any, Any]]:
    """Yield every background knowledge with its values, in blocks.

    Parameters
    ----------
    question, earlier, later
        The options, and two releases as `question.simple_logs` returns them.

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
        If the candidates are too many to be listed.
    """
    pair = join_releases(
        earlier, later, known=question.known_part, taxonomy=question.taxonomy, foreign=question.foreign
    )
    attack = PairAttack(pair, question.bk_length, sorted(set(question.n)), question.method, "realisable")
    for base in base_linkers(pair, attack.linkable, attack.ns):
        if base.exists:
            for codes, values in enumerate_all(attack.valuer(base), question.bk_length):
                yield base.n, pair.alphabet, codes, values
