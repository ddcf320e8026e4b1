"""The verdict on a publication: what its releases are together, in one word, one sentence and one exit code.

* `SAFE`: every bound of the series was set (KA, FA, CA, BA, and for local suppression `max_minimality`; for dp kinds a
  limit of epsilon), and all releases hold them, also against somebody who knows the public rules of suppression;
* `LIMITED`: something was not set, not measured or only warned about, or holds only against somebody who does not know
  the rules; the smallest number measured is printed next to it;
* `DP VOID`: another publication of the same cases is released without such a promise, so that the dp claim holds only
  for recipients who never see that one;
* `WAITING`: nothing is released yet, because a person decides or too few cases have come;
* `WITHHELD`: nothing is released, because the mechanism, the gate or a person refused it;
* `NOTHING RELEASED`: nothing was attempted, or the log ended while the cases were too few.

It is made from the audits alone, by the same rule for replay, list, report, console and metrics; this module is the one
source of words, symbols, colours and exit codes. SAFE means that the promise of the manifest was kept and checked over
the series, no more. The manifest also lists what the promise leaves out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from models.dp.budget import format_amount
from stream.release.contract import AUDIENCE
from stream.release.documents import AnonymitySection, AuditDocument, Budget
from stream.release.gate import MEASURES, Measure, worst_anonymity
from stream.release.reason import of_record, only_waits

Word = Literal["SAFE", "LIMITED", "DP VOID", "WAITING", "WITHHELD", "NOTHING RELEASED"]

WORDS: tuple[Word, ...] = get_args(Word)

Colour = Literal["green", "yellow", "red", "blue"]


@dataclass(frozen=True, slots=True)
class Look:
    """Appearance of a word in a terminal and on a page.

    Attributes
    ----------
    symbol, sign
        Distinguish the words without `colour`, in a terminal and on a page.
    exit_code
        3 if nothing is released. A command that shows this verdict alone ends with it.
    """

    symbol: str
    sign: str
    colour: Colour
    exit_code: int


LOOKS: Mapping[Word, Look] = {
    "SAFE": Look("+", "\N{CHECK MARK}", "green", 0),
    "LIMITED": Look("!", "!", "yellow", 0),
    "DP VOID": Look("x", "\N{BALLOT X}", "red", 0),
    "WAITING": Look("?", "\N{HORIZONTAL ELLIPSIS}", "yellow", 3),
    "WITHHELD": Look("x", "\N{BALLOT X}", "red", 3),
    "NOTHING RELEASED": Look("-", "\N{EN DASH}", "blue", 3),
}

LOG_END = "final"
"""The trigger of the cut at the end of a log: no other one comes after it."""

NO_WINDOW = (
    "no window has closed, so no release was tried. Next step: let more cases come, or choose a smaller window; for a "
    "log that has ended, veilstream replay --final releases what is left if enough cases are complete"
)
"""The reason and the next step if the ledger holds no attempt."""

TOO_FEW_LEFT = (
    "the log ended while too few cases waited to form a group. Next step: replay a longer log, or publish over a "
    "longer period"
)


def exit_code(verdicts_of_publications: Iterable[Verdict]) -> int:
    """Return 3 if a publication has released nothing, or if there is none; else 0."""
    return max((LOOKS[verdict.verdict].exit_code for verdict in verdicts_of_publications), default=3)


@dataclass(frozen=True, slots=True)
class Smallest:
    """The smallest count above 0: `against` is the earlier release of the attack, None for KA of a release alone."""

    measure: Measure
    value: int
    release: int
    against: int | None

    def sentence(self) -> str:
        """Return a sentence such as `BA = 4 at release 3 against release 1`."""
        against = "" if self.against is None else f" against release {self.against}"
        return f"{self.measure.upper()} = {self.value} at release {self.release}{against}"


@dataclass(frozen=True, slots=True)
class SuppressionKnowledge:
    """Remaining possibilities for a reader of the rules of local suppression.

    Attributes
    ----------
    worst
        Sets of items with fewer than K possible cases, in the group that has most of them; None if not measured.
    groups
        How many groups there are: cohorts, or releases.
    not_measured
        Groups of earlier programs, or of repairs by events.
    bound
        `max_minimality` if every release was gated by it.
    least
        K, if it is known.
    """

    worst: int | None
    groups: int
    not_measured: int
    bound: int | None
    least: int | None = None

    @property
    def holds(self) -> bool:
        """Whether a bound was set, everything was measured, and nobody is narrowed down."""
        return self.bound is not None and self.worst == 0 and not self.not_measured

    @property
    def cause(self) -> str:
        """Why the verdict is not SAFE, as part of its sentence; "" if these rules do not lower it."""
        if self.holds:
            return ""
        if self.worst or self.not_measured or self.worst is None:
            return "only against somebody who does not know the public rules of suppression"
        return "no bound was set on what the public rules of suppression reveal (gate.max_minimality)"

    def line(self, *, is_safe: bool = True) -> str:
        """Return a sentence of its own, below the verdict.

        Parameters
        ----------
        is_safe
            Whether the verdict is SAFE. Under another one, the best sentence must not read as if nobody could be
            narrowed down: it is about these rules alone.
        """
        fewer_than = "fewer than K" if self.least is None else f"fewer than {self.least}"
        gaps = f"; {self.not_measured} of {self.groups} groups were not measured" if self.not_measured else ""
        if self.worst is None:
            return (
                f"Whether a reader of the program's source can narrow a person down to {fewer_than} cases was not "
                "measured: the rules by which events were removed are public."
            )
        bound = "no bound was set" if self.bound is None else f"bound {self.bound}"
        if self.worst:
            sets = f"{self.worst} set{'s' * (self.worst != 1)} of items of a group"
            return (
                f"A reader of the program's source can narrow a person down: up to {sets} leave {fewer_than} possible "
                f"cases (gate.max_minimality: {bound}{gaps})."
            )
        if self.not_measured:
            reader = "a reader of the program's source"
            return f"In the measured releases, no set of items leaves {reader} {fewer_than} cases{gaps}."
        below = "K" if self.least is None else self.least
        if not is_safe:
            return (
                "By the rules of suppression alone, no set of items that the audit looks at leaves a reader of the "
                f"program's source {fewer_than} cases of a group (gate.max_minimality: {bound}). The limit above stays."
            )
        return (
            f"Even a reader of the program's source cannot narrow a person down below {below} cases, by any set of "
            f"items that the audit looks at (gate.max_minimality: {bound})."
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on the releases of one publication together.

    Attributes
    ----------
    publication
        Its name; empty if the ledger names none.
    not_gated
        Measures of the series without a bound.
    withheld
        How many attempts were refused.
    waiting
        How many attempts released nothing because they wait, for more cases or behind a held release.
    minimality
        Facts about releases by local suppression.
    held
        How many releases wait for a person.
    compared_with
        With how many releases of its audience before it each one was compared (`audit.against`); None: with all of
        its publication.
    """

    publication: str
    verdict: Word
    sentence: str
    smallest: Smallest | None
    not_gated: tuple[str, ...]
    released: int
    withheld: int
    void_by: tuple[str, ...] = ()
    minimality: SuppressionKnowledge | None = None
    held: int = 0
    waiting: int = 0
    compared_with: int | None = None

    @property
    def rules(self) -> str | None:
        """Line on a reader of the program's source; None if no rule removed single events."""
        return None if self.minimality is None else self.minimality.line(is_safe=self.verdict == "SAFE")

    def line(self) -> str:
        """Return the line for people: symbol, word, publication, sentence."""
        word = f"DP VOID BY {', '.join(self.void_by)}" if self.void_by else self.verdict
        named = f"{self.publication}: " if self.publication else ""
        return f"[{LOOKS[self.verdict].symbol}] {word}: {named}{self.sentence}"

    def lines(self) -> list[str]:
        """Return the verdict's line, and below it the line on readers of the rules."""
        return [self.line(), *([] if self.rules is None else [f"    {self.rules}"])]

    def as_json(self) -> Mapping[str, Any]:
        """Return the same names as JSON, with `rules` (the second line) and the `exit_code` of commands."""
        return {**asdict(self), "rules": self.rules, "exit_code": LOOKS[self.verdict].exit_code}


@dataclass(slots=True)
class _RulesSeen:
    """Measure for readers of the rules of local suppression, of each release, and the bound of its gate."""

    releases: int = 0
    measured: int = 0
    worst: int | None = None
    bounded: int = 0
    bound: int | None = None
    repaired: int = 0
    """Releases from which a repair took events of single cases: its rules are public, and nothing measures them."""

    def add(self, audit: AuditDocument) -> None:
        self.releases += 1
        mechanism: Mapping[str, Any] = audit.get("mechanism") or {}
        self.repaired += (mechanism.get("repair") or {}).get("by") == "events"
        below = (audit.get("minimality") or {}).get("below_k")
        if below is not None:
            self.measured += 1
            self.worst = max(below, self.worst or 0)
        bound = (audit.get("bounds") or {}).get("max_minimality")
        if bound is not None:
            self.bounded += 1
            self.bound = max(int(bound), self.bound or 0)

    def knowledge_after(self, last: AuditDocument) -> SuppressionKnowledge | None:
        """Return the measured knowledge of every cohort of the last release; without cohorts, of every release."""
        parameters = (last.get("mechanism") or {}).get("parameters") or {}
        if parameters.get("suppression") != "local" and not self.repaired:
            return None
        bound = self.bound if self.bounded == self.releases else None
        least = parameters.get("K")
        cohorts = [cohort.get("minimality_below_k") for cohort in last.get("cohorts") or []]
        if not cohorts or _shows_once(last):  # the last release then has its own cohort alone
            return SuppressionKnowledge(self.worst, self.releases, self.releases - self.measured, bound, least)
        measured = [value for value in cohorts if value is not None]
        return SuppressionKnowledge(
            max(measured, default=None), len(cohorts), len(cohorts) - len(measured), bound, least
        )


@dataclass(slots=True)
class PublicationSeries:
    """Facts about a publication's releases that a verdict needs.

    Releases and refused attempts are added one by one, so that a verdict costs the same after ten thousand releases.
    """

    publication: str
    released: int = 0
    withheld: int = 0
    waiting: int = 0
    """Attempts that released nothing because they wait, for more cases or behind a held release."""
    held: int = 0
    """Releases that wait for a person's decision."""
    _last_reasons: Sequence[str] = ()
    """Reasons of the last attempt that was not released."""
    _refused_at_log_end: bool = False
    """Whether that attempt was the one at the end of a log."""
    _last: AuditDocument | None = None
    """Audit of the last release that can be read."""
    _all_have_budgets: bool = True
    """Whether every release has a budget of epsilon, and so a promise of differential privacy."""
    _smallest: Smallest | None = None
    _measures_without_bound: set[Measure] = field(default_factory=set)
    _last_warned: AuditDocument | None = None
    """Audit of the last release that left in spite of a broken bound."""
    _last_unmeasured: AuditDocument | None = None
    """Audit of the last release without measured attacks."""
    _rules: _RulesSeen = field(default_factory=_RulesSeen)
    _unreadable_audits: int = 0
    _release_numbers: set[int] = field(default_factory=set)
    _compared_with: int | None = None
    _has_compared_others: bool = False
    """Whether releases of other publications were compared in the place of earlier ones of this publication."""

    def refuse(self, reasons: Sequence[str], *, last: bool = False) -> None:
        """Add an attempt that was not released.

        `last`: whether it was the one at the end of a log, after which nothing comes.
        """
        if only_waits(reasons):
            self.waiting += 1
        else:
            self.withheld += 1
        self._last_reasons, self._refused_at_log_end = reasons, last

    def add(self, audit: AuditDocument) -> None:
        """Add the next release that exists.

        An empty audit means that it is gone or damaged. Such a release counts as not measured: its promise is unknown,
        so it ends no promise of others either.
        """
        self.released += 1
        if not audit:
            self._unreadable_audits += 1
            return
        self._last = audit
        self._all_have_budgets = self._all_have_budgets and audit.get("budget") is not None
        if (audit.get("gate") or {}).get("decision") == "warned":
            self._last_warned = audit
        anonymity = audit.get("anonymity") or {}
        if anonymity.get("status") in (None, "not_applicable"):
            self._last_unmeasured = audit
        bounds = audit.get("bounds") or {}
        self._measures_without_bound |= {measure for measure in MEASURES if f"min_{measure}" not in bounds}
        self._rules.add(audit)
        if not _shows_once(audit):  # else no case is in two releases, and there is nothing to compare
            self._count_compared(audit["sequence"], anonymity)
        for measure in MEASURES:
            value = worst_anonymity(anonymity, measure)
            if value is not None and (self._smallest is None or value < self._smallest.value):
                self._smallest = Smallest(measure, value, audit["sequence"], _against(anonymity, measure, value))

    def _count_compared(self, number: int, anonymity: AnonymitySection) -> None:
        """Note with how many releases of its audience a release was compared, if not with all of its publication."""
        rows = anonymity.get("true_linker") or []
        compared = {row["earlier"] for row in rows if "publication" not in row} & self._release_numbers
        if len(compared) < len(self._release_numbers):
            # The audit compares the newest releases of the audience, so the least number holds for every release.
            n_compared = len(rows)
            limits = [n_compared] if self._compared_with is None else [n_compared, self._compared_with]
            self._compared_with = min(limits)
            self._has_compared_others |= len(compared) < n_compared
        self._release_numbers.add(number)

    @property
    def voids(self) -> bool:
        """Whether it leaves without a promise of differential privacy, and so ends that of others."""
        return not self._all_have_budgets

    @property
    def audience(self) -> str:
        """To whom the releases go; releases of earlier programs name nobody, which is everybody."""
        return AUDIENCE if self._last is None else str(self._last.get("audience", AUDIENCE))

    def verdict(self, plain: Sequence[str]) -> Verdict:
        """Return the verdict.

        Parameters
        ----------
        plain
            Publications for the same audience that leave without a promise of differential privacy.
        """
        return replace(self._verdict(plain), held=self.held, waiting=self.waiting)

    def _verdict(self, plain: Sequence[str]) -> Verdict:
        if self._last is None and self._unreadable_audits:
            return self._of_unreadable_audits()
        if self._last is None:
            return self._of_nothing()
        budget = self._last.get("budget")
        if budget is not None:
            other_names = tuple(other for other in plain if other != self.publication)
            by_budget = _of_budget(self.publication, budget, self.released, self.withheld, other_names)
            if not self._unreadable_audits or by_budget.verdict == "DP VOID":
                return by_budget
            return replace(by_budget, verdict="LIMITED", sentence=f"{self._unreadable_sentence}; {by_budget.sentence}")
        return self._of_counts(self._last)

    def _of_nothing(self) -> Verdict:
        """Return the verdict if no release is out: who or what it waits for, or what refused it."""
        codes = {of_record(reason).code for reason in self._last_reasons}
        why = "; ".join(self._last_reasons)
        word: Word
        if self.held:
            many = "1 release waits" if self.held == 1 else f"{self.held} releases wait"
            word, sentence = "WAITING", f"nothing is released yet: {many} for a person to approve or reject"
        elif not self._last_reasons:
            word, sentence = "NOTHING RELEASED", NO_WINDOW
        elif codes == {"cases"} and self._refused_at_log_end:
            word, sentence = "NOTHING RELEASED", f"{why}; {TOO_FEW_LEFT}"
        elif codes == {"cases"}:
            word = "WAITING"
            sentence = f"nothing is released yet ({why}); the next cut tries again with the cases by then"
        else:
            word, sentence = "WITHHELD", f"nothing is released ({why})"
        return Verdict(self.publication, word, sentence, None, (), 0, self.withheld)

    @property
    def _unreadable_sentence(self) -> str:
        unreadable = f"{self._unreadable_audits} of {self.released} audits are gone or damaged"
        return f"{unreadable}, so those releases count as not measured"

    def _of_unreadable_audits(self) -> Verdict:
        return Verdict(self.publication, "LIMITED", self._unreadable_sentence, None, (), self.released, self.withheld)

    def _of_counts(self, last: AuditDocument) -> Verdict:
        smallest, rules = self._smallest, self._rules.knowledge_after(last)
        not_gated = tuple(measure.upper() for measure in MEASURES if measure in self._measures_without_bound)
        least = f"; smallest: {smallest.sentence()}" if smallest else ""

        def verdict(word: Word, sentence: str) -> Verdict:
            return Verdict(
                self.publication,
                word,
                sentence,
                smallest,
                not_gated,
                self.released,
                self.withheld,
                minimality=rules,
                compared_with=self._compared_with,
            )

        if self._last_warned is not None:
            why = "; ".join(self._last_warned["gate"]["reasons"])
            return verdict("LIMITED", f"release {self._last_warned['sequence']} left in spite of: {why}{least}")
        if self._last_unmeasured is not None:
            why = (self._last_unmeasured.get("anonymity") or {}).get("reason") or "the audit is switched off"
            return verdict("LIMITED", f"attacks over the releases were not measured ({why})")
        if self._unreadable_audits:
            return verdict("LIMITED", f"{self._unreadable_sentence}{least}")
        if not_gated:
            return verdict("LIMITED", f"no bound was set on {', '.join(not_gated)}{least}")
        least_bound = min(int(last["bounds"][f"min_{measure}"]) for measure in MEASURES)
        if _shows_once(last) and self.released > 1:
            subject = f"{self.released} releases, each case in one of them"
        else:
            subject = _subject(self.released, self._compared_with, of_audience=self._has_compared_others)
        promise = f"{subject}: at least {least_bound} cases match (or none)"
        if rules is not None and rules.cause:
            # The limit first: a sentence that begins with a promise is read as one.
            return verdict("LIMITED", f"{rules.cause}: {promise}{least}")
        return verdict("SAFE", f"{promise}{least}")


def _shows_once(audit: AuditDocument) -> bool:
    """Return whether each case is in one release of the publication (`cases = "completed"`)."""
    return audit.get("cases") == "completed"


def _subject(released: int, compared_with: int | None, *, of_audience: bool = False) -> str:
    """Return the scope of KA, FA, CA and BA: each release, and pairs. `gate.min_series` is a bound of its own.

    Parameters
    ----------
    released
        How many releases there are.
    compared_with
        With how many releases before it each one was compared; None: with all of them.
    of_audience
        Whether these releases are also those of other publications for the same audience.
    """
    audience = " of its audience" if of_audience else ""
    if released == 1:
        return "1 release"
    if compared_with == 0:
        return f"{released} releases, each alone (no two of them were compared)"
    if compared_with == 1:
        return (
            f"{released} releases, each alone and together with the one{audience} before it (other pairs were not "
            "compared)"
        )
    if compared_with is not None:
        return (
            f"{released} releases, each alone and together with any of the {compared_with}{audience} before it (other "
            "pairs were not compared)"
        )
    if released == 2:
        return "2 releases, each alone and both together"
    return f"{released} releases, each alone and any two of them together"


def verdicts(
    released: Mapping[str, Sequence[AuditDocument]],
    withheld: Mapping[str, Sequence[Sequence[str]]],
    held: Mapping[str, int] | None = None,
    ended: Collection[str] = (),
) -> list[Verdict]:
    """Return one verdict for each publication; one without a name if there is none.

    Parameters
    ----------
    released
        Audits of the releases that are out, in order.
    withheld
        Reasons of each attempt that was not released.
    held
        How many releases wait for a person.
    ended
        Publications whose last attempt was the one at the end of a log.
    """
    held = held or {}
    names = dict.fromkeys((*released, *withheld, *held))
    series_of_name = {name: PublicationSeries(name) for name in names}
    for name, series in series_of_name.items():
        for audit in released.get(name, ()):
            series.add(audit)
        for reasons in withheld.get(name, ()):
            series.refuse(reasons, last=name in ended)
        series.held = held.get(name, 0)
    return judged(series_of_name or {"": PublicationSeries("")})


def judged(series_of_name: Mapping[str, PublicationSeries]) -> list[Verdict]:
    """Return the verdict on each publication.

    A promise of differential privacy ends if another publication releases without one to the same audience.
    """
    plain = {name: series.audience for name, series in series_of_name.items() if series.voids}
    return [
        series.verdict([name for name, audience in plain.items() if audience == series.audience])
        for series in series_of_name.values()
    ]


def _amount(spent: float | None) -> str:
    return format_amount(math.inf if spent is None else spent, 6)


def _of_budget(name: str, budget: Budget, released: int, withheld: int, void_by: tuple[str, ...]) -> Verdict:
    """Return the verdict by the budget.

    `void_by`: publications that show the same cases without a promise of differential privacy.
    """

    def verdict(word: Word, sentence: str) -> Verdict:
        return Verdict(name, word, sentence, None, (), released, withheld, void_by)

    epsilon, delta = format_amount(budget["epsilon"], 6), format_amount(budget["delta"], 6)
    each = f"each release is ({epsilon}, {delta})-differentially private"
    spent = f"{_amount(budget['spent']['epsilon'])} spent"
    once = budget.get("scope") == "cases"
    if once:
        total_epsilon, total_delta = _amount(budget["spent"]["epsilon"]), _amount(budget["spent"]["delta"])
        each = (
            f"all releases together are ({total_epsilon}, {total_delta})-differentially private: "
            "each case is in one of them"
        )
    if void_by:
        publications = ", ".join(void_by)
        sentence = (
            f"{each}, but {publications} shows the same cases without: "
            f"it holds for readers who never see {publications}"
        )
        return verdict("DP VOID", sentence)
    if once:
        return verdict("SAFE", each)
    if budget["limit"] is None:
        # The limit first: a sentence that begins with a promise is read as one.
        return verdict("LIMITED", f"no limit is set, so the loss grows with every release; {spent} by now, and {each}")
    return verdict("SAFE", f"{each}; {spent} of {format_amount(budget['limit'], 6)}")


def _against(anonymity: AnonymitySection, measure: Measure, value: int) -> int | None:
    """Return the earlier release that gives the value."""
    if measure == "ka":
        return None
    for row in anonymity.get("true_linker") or []:
        if row.get(measure) == value:
            return int(row["earlier"])
    for pair in anonymity.get("results") or []:
        if any(result.get(measure) == value for result in pair["results"]):
            return int(pair["earlier"])
    return None
