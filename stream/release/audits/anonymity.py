"""Audit `anonymity`: the correspondence attacks between a release and every earlier one.

Source: correspondence-attacks-2021, Def. 10-12 and 16-18; the contract of `status` is in docs/limitations.md. Linking
uses every item that the releases carry; background knowledge is about the audited attribute. The audit knows the real
partners, so it counts them too (`true_linker`). This count is defined on the cases that are in both releases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import takewhile
from operator import itemgetter
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
from pydantic import Field, field_validator

from models.attacks.correspondence import MOST_N, AttackResult, Method
from models.attacks.pairs import join_releases, next_occurrences
from models.attacks.search import Minimum
from models.attacks.true_linker import RealPartners, least_over_n, true_linker_of_pair
from models.errors import InputError, RefusedError
from models.eventlog import Ints
from stream.ledger.release_record import ReleaseRecord
from stream.release.audits.comparison import Comparison, altered, changes, forget, partners, seen_as, simple
from stream.release.contract import Applicability, Audit, AuditContext, Build, Reads
from stream.release.documents import AnonymitySection, PairRow, PairSection, TrueLinkerRow

Status = Literal["ok", "cases_dropped", "not_incremental", "not_applicable"]
MEASURES: tuple[Literal["fa", "ca", "ba"], ...] = ("fa", "ca", "ba")


class CorrespondenceAudit(Audit):
    """KA of the release, and FA, CA, BA against the releases of `against`, for each n."""

    name: ClassVar[str] = "anonymity"
    reads: ClassVar[Reads] = "raw"

    bk_length: int = Field(default=2, ge=1, le=32)
    """Longest background knowledge, in events. Set it when somebody may know more than two events of a person."""
    n: tuple[Annotated[int, Field(ge=0, le=MOST_N)], ...] = Field(default=(0, 1), min_length=1)
    """Events removed from a case, at most; the gate uses the least value over all n. Set it when a mechanism without
    cohorts removes more than one event of a case."""
    method: Method = "exact"
    """Method of counting crack sizes; all but `exact` are there to compare (docs/limitations.md). Set it when figures
    must be comparable with those of the correspondence paper."""
    minimum: Minimum = "realisable"
    """The least value that is at least 1 (`realisable`); or, for reports, the least over what matches in one of the
    releases (`all`) or in both (`common`). Set it when a report repeats the minima of the correspondence paper."""
    against: Literal["all", "last"] | int = "all"
    """All earlier releases, the last one (`last`), or how many of the last. Set it when recipients keep only so many
    releases, or audits of a long series take too long."""
    bk_on: tuple[Literal["activity", "resource", "relative_time"], ...] | None = None
    """Knowledge of the adversary, among the columns that releases carry; by default all but times. Set it when nobody
    outside knows who did a step, or somebody may know times."""

    @field_validator("against")
    @classmethod
    def _some(cls, value: Literal["all", "last"] | int) -> Literal["all", "last"] | int:
        if isinstance(value, int) and value < 1:
            raise ValueError("at least one earlier release is needed")
        return value

    @field_validator("bk_on")
    @classmethod
    def _something(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and not value:
            raise ValueError("name at least one column: an adversary without knowledge cannot attack")
        return value

    def measure(self, context: AuditContext, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """Measure KA, and the attacks on each earlier release.

        Returns
        -------
        Mapping
            {status, reason, time_basis, linkable_on, bk_on, n_actual, cases_dropped, append_only, ka, results|null,
            true_linker|null}; `results`: one {earlier, n_actual, results} a pair, if the pair fits the model.
        """
        build, candidate = context.build, context.candidate
        known_columns = self._known_columns(build.carries)
        body = self._empty_body(build)
        chosen = self.chosen(context.earlier)
        for earlier in chosen:
            _refuse_other_items(earlier, candidate)
        # The attacks suppose that a release continues the earlier one. Other publications have other windows: of their
        # releases only the real partners of cases are counted.
        earlier_of_publication = [record for record in chosen if record.publication == candidate.publication]
        earlier_of_others = [record for record in chosen if record.publication != candidate.publication]
        other_results = [self._of_other_publication(record, candidate, known_columns) for record in earlier_of_others]
        compared = self._compared(context, earlier_of_publication, known_columns, alone=not other_results)
        real = self._real_partners(compared)
        inserted = insertions(context, earlier_of_publication)
        fitting = _statuses(context, earlier_of_publication, compared, real, inserted)
        if build.immutable and not other_results:
            for record in earlier_of_publication[:-1]:
                record.leave_memory()  # as what is seen of it did
        applies = build.applies.get(self.name, Applicability())
        status, reason = _first_misfit([(applies.status, applies.reason), *fitting])
        body["append_only"] = build.immutable or not any(inserted.values())
        if build.immutable:
            body["linker"] = "identity"
            body["cohorts"] = [cohort["n_actual"] for cohort in build.operator.get("cohorts", ())]
        body["ka"] = self._least_matching_set(compared)
        # Counts of the real partners hold for every pair, attacks over linkers only for pairs that fit the model.
        if status == "ok":
            if build.immutable:
                body["results"] = _counted_sections(context, earlier_of_publication, real)
            else:
                body["results"] = self._all_exact(context, earlier_of_publication, compared)
        body["true_linker"] = [*map(_true_linker_row, earlier_of_publication, real), *other_results]
        if context.once is not None:  # no other release is compared with it
            forget(candidate)
            candidate.cache.clear()
        return {"status": status, "reason": reason, **body}

    def unmeasured(self, context: AuditContext) -> Mapping[str, Any]:
        """Return the keys of the section, without measures."""
        return {"append_only": None, **self._empty_body(context.build)}

    def _empty_body(self, build: Build) -> AnonymitySection:
        """Return what the audit compares, and None in place of each measure."""
        return {
            "time_basis": "first_published" if build.immutable else build.time_basis,
            "linkable_on": [*build.carries, *build.attributes],
            "bk_on": list(self._known_columns(build.carries)),
            "bk_length": self.bk_length,
            "n": list(self.n),
            # Over one linker the exact attack is a count, and no other method is asked for.
            "method": "exact" if build.immutable else self.method,
            "taxonomy": None,  # no mechanism generalizes activities
            "n_actual": build.n_actual,
            "cases_dropped": build.cases_dropped,
            "ka": None,
            "results": None,
            "true_linker": None,
        }

    def against_other_publications(
        self, candidate: ReleaseRecord, other_records: Sequence[ReleaseRecord]
    ) -> list[TrueLinkerRow]:
        """Return `true_linker` of a release against releases of other publications, cut before or after it."""
        for record in other_records:
            _refuse_other_items(record, candidate)
        known_columns = self._known_columns(candidate.carries)
        return [self._of_other_publication(record, candidate, known_columns) for record in other_records]

    @property
    def looks_back(self) -> int | None:
        """Number of earlier releases that are compared; see `Audit.looks_back`."""
        if self.against == "all":
            return None
        return 1 if self.against == "last" else int(self.against)

    def chosen(self, earlier: Sequence[ReleaseRecord]) -> Sequence[ReleaseRecord]:
        """Return the earlier releases that `against` names."""
        if self.looks_back is None:
            return earlier
        return earlier[-self.looks_back :]

    def _known_columns(self, carries: Sequence[str]) -> tuple[str, ...]:
        foreign = [name for name in self.bk_on or () if name not in carries]
        if foreign:
            raise InputError(f"audit.bk_on: the releases do not carry {foreign[0]}; they carry {', '.join(carries)}")
        return self.bk_on or tuple(name for name in carries if name != "relative_time")

    def _compared(
        self,
        context: AuditContext,
        earlier_of_publication: Sequence[ReleaseRecord],
        known_columns: tuple[str, ...],
        *,
        alone: bool,
    ) -> Comparison:
        """Give numbers to the candidate and the earlier releases, and return both.

        Cases that never change are linked by what they are. So these releases are numbered by what is known
        alone.
        """
        candidate, cap = context.candidate, max(self.n)
        if context.build.immutable:
            earlier_as_seen = [seen_as(record, known_columns) for record in earlier_of_publication]
            return Comparison(seen_as(candidate, known_columns), earlier_as_seen, cap, alone=alone)
        known_part = knowledge_of(candidate.carries, known_columns)
        return Comparison(candidate, earlier_of_publication, cap, known_part, alone=alone)

    def _least_matching_set(self, compared: Comparison) -> int | None:
        """Return the least matching set of this release alone, over all n: every case is its own partner."""
        n_cases = compared.later.n_cases
        if not n_cases:
            return None
        # The release is compared with itself: the cases that match knowledge of it are those that it shows.
        pair, table = compared.alone()
        answer = true_linker_of_pair(pair, table, np.arange(n_cases), self.bk_length, self.n, self.minimum)
        sizes = [result.values["ka1"] for result in answer.results]
        return min((size for size in sizes if size is not None), default=None)

    def _real_partners(self, compared: Comparison) -> list[RealPartners]:
        """Return what the real partners leave of each earlier release."""
        # One release at a time: the partners of all of them would be as large as all releases.
        partners_by_release = (partners(earlier, compared.candidate) for earlier in compared.earlier)
        results = compared.true_counts(partners_by_release, self.bk_length, self.n, self.minimum)
        real = []
        for place, earlier in enumerate(compared.earlier):
            partner = partners(earlier, compared.candidate)
            if results is None:
                results_of_pair = self._true_linker_minima(compared, earlier, partner)
            else:
                results_of_pair = results[place]
            gone = int(np.count_nonzero(partner < 0))
            # Whether a value changed is asked only if all cases are there.
            changed = 0 if gone else changes(earlier, compared.candidate, partner)
            real.append(RealPartners(len(partner) - gone, gone, changed, results_of_pair))
        return real

    def _true_linker_minima(
        self,
        compared: Comparison,
        earlier: ReleaseRecord,
        partner: Ints,
    ) -> list[AttackResult]:
        """Return the true-linker minima of one earlier release by a search of its own."""
        pair, table = compared.pair(earlier)
        return true_linker_of_pair(pair, table, partner, self.bk_length, self.n, self.minimum).results

    def _all_exact(
        self, context: AuditContext, earlier_of_publication: Sequence[ReleaseRecord], compared: Comparison
    ) -> list[PairSection]:
        """Return the exact attacks on all pairs, computed from one earlier release to the next if that is possible."""
        ns = sorted(set(self.n))
        results_of_pairs = None
        if self.method == "exact":
            results_of_pairs = compared.followed(self.bk_length, ns, self.minimum)
        if results_of_pairs is None:
            return [self._exact(context, record, compared) for record in earlier_of_publication]
        sections = []
        for record, results in zip(earlier_of_publication, results_of_pairs, strict=True):
            actual = _most_removed_events(context, record)
            rows = [_with_assumption(cast(PairRow, result.json()), actual) for result in results]
            sections.append(_section(record, actual, rows))
        return sections

    def _exact(self, context: AuditContext, earlier: ReleaseRecord, compared: Comparison) -> PairSection:
        """Return the exact attacks on a pair that fits the model, by itself."""
        actual = _most_removed_events(context, earlier)
        counted = compared.alone_with(earlier, self.bk_length, sorted(set(self.n)), self.method, self.minimum)
        rows = [_with_assumption(cast(PairRow, result.json()), actual) for result in counted.run().results]
        return _section(earlier, actual, rows)

    def _of_other_publication(
        self, earlier: ReleaseRecord, candidate: ReleaseRecord, known_columns: Sequence[str]
    ) -> TrueLinkerRow:
        """Return the counts of the real partners of a release of another publication.

        Its windows differ, so each of the two releases may show cases and events that the other one lacks. Therefore
        no linker is searched, and `ba` is the less of both directions: new cases of either release count.
        """
        known_part = knowledge_of(candidate.carries, known_columns)
        rows = []
        for first, second in ((earlier, candidate), (candidate, earlier)):
            pair = join_releases(simple(first), simple(second), known=known_part)
            partner = partners(first, second)
            answer = true_linker_of_pair(pair, next_occurrences(pair), partner, self.bk_length, self.n, self.minimum)
            rows.append(_row(least_over_n(answer.results)))
        row, reversed_row = rows
        survivors = int(np.count_nonzero(partners(earlier, candidate) >= 0))
        if reversed_row["ba"] and (not row["ba"] or reversed_row["ba"] < row["ba"]):
            row["ba"], row["worst"]["ba"] = reversed_row["ba"], reversed_row["worst"]["ba"]
        return {
            "earlier": earlier.sequence, "publication": earlier.publication, "survivors": survivors, **row
        }  # fmt: skip


def correspondence_audit(audits: Iterable[Audit]) -> CorrespondenceAudit | None:
    """Return the anonymity audit of a publication.

    None if it is switched off: nothing would show that a bound on an attack holds.
    """
    for audit in audits:
        if isinstance(audit, CorrespondenceAudit):
            return audit
    return None


def _statuses(
    context: AuditContext,
    earlier: Sequence[ReleaseRecord],
    compared: Comparison,
    real: Sequence[RealPartners],
    inserted: Mapping[tuple[str, int], int],
) -> list[tuple[Status, str]]:
    """Return whether each pair fits the model of the attacks, and why not.

    Parameters
    ----------
    context
        The candidate and its build.
    earlier, compared, real
        The earlier releases, what is seen of them, and what the real partners leave of each.
    inserted
        By release, the events that came before events that it shows.
    """
    candidate, statuses = context.candidate, []
    for record, seen, of_pair in zip(earlier, compared.earlier, real, strict=True):
        n_altered = 0
        if context.build.immutable and not of_pair.gone:  # then its cases must be as they were
            n_altered = altered(record, candidate, partners(seen, compared.candidate))
        differences = Differences(of_pair.gone, inserted[record.key], of_pair.changed, n_altered)
        statuses.append(_status_of_differences(context, record, candidate, differences))
    return statuses


def _counted_sections(
    context: AuditContext, earlier: Sequence[ReleaseRecord], real: Sequence[RealPartners]
) -> list[PairSection]:
    """Return the attacks on pairs of cases that never change: over one linker they are counts."""
    sections = []
    for record, counted in zip(earlier, real, strict=True):
        rows = [cast(PairRow, result.json()) for result in counted.results]
        sections.append(_section(record, _most_removed_events(context, record), rows))
    return sections


def _most_removed_events(context: AuditContext, earlier: ReleaseRecord) -> int:
    """Return the most events that were removed from a case in either release."""
    return max(earlier.audit.get("n_actual") or 0, context.build.n_actual or 0)


def _section(earlier: ReleaseRecord, actual: int, rows: list[PairRow]) -> PairSection:
    return {"earlier": earlier.sequence, "n_actual": actual, "results": rows}


def _row(least_values: Mapping[str, tuple[int | None, list[Any] | None]]) -> TrueLinkerRow:
    """Return FA, CA and BA as `true_linker` shows them; 0 if no background knowledge gives a value."""
    least: TrueLinkerRow = {"worst": {}}
    for name in MEASURES:
        value, least["worst"][name] = least_values[name]
        least[name] = value or 0
    return least


def _true_linker_row(earlier: ReleaseRecord, real: RealPartners) -> TrueLinkerRow:
    return {"earlier": earlier.sequence, "survivors": real.survivors, **_row(real.least)}


def knowledge_of(carries: Sequence[str], known_columns: Sequence[str]) -> Callable[[Any], Any] | None:
    """Return the function from a carried item to the part that is known; None if all of it is known."""
    if tuple(carries) == tuple(known_columns):
        return None
    return parts(tuple(list(carries).index(name) for name in known_columns))


@cache
def parts(places: tuple[int, ...]) -> Callable[[Any], Any]:
    """Return the function that reads some places of an item.

    Equal places give one and the same function: one projection of a series.
    """
    return itemgetter(*places)


def _refuse_other_items(earlier: ReleaseRecord, later: ReleaseRecord) -> None:
    """Refuse to compare releases that carry different columns.

    Their items differ, so no count would mean anything.
    """
    timed = "relative_time" in later.carries
    if earlier.carries != later.carries or (timed and earlier.T != later.T):
        columns, own_columns = _carried_columns(earlier), _carried_columns(later)
        raise RefusedError(
            f"release {earlier.sequence} carries {columns}, this one {own_columns}: their attacks cannot be "
            "counted; set the mechanism back, or give the publication another name"
        )


def _carried_columns(record: ReleaseRecord) -> str:
    with_unit = {"relative_time": f"relative_time in {record.T}"}
    return ", ".join(with_unit.get(name, name) for name in record.carries)


def inserted_since(context: AuditContext, earlier: ReleaseRecord, later: ReleaseRecord) -> int:
    """Count the late events, in releases after `earlier` up to `later`, that come before events released already.

    Parameters
    ----------
    context
        The candidate, the earlier releases, and the counts of the cut.
    earlier, later
        The two releases.
    """
    since = takewhile(lambda record: record.key != earlier.key, reversed(context.earlier))
    total = 0
    for record in since:
        if record.publication == earlier.publication and record.sequence <= later.sequence:
            total += _insertions_of_release(record)
    if later is context.candidate:
        total += _insertions_of_counts(context.counts)
    return total


def insertions(context: AuditContext, earlier_of_publication: Sequence[ReleaseRecord]) -> dict[tuple[str, int], int]:
    """Return `inserted_since` of the candidate for each earlier release of its publication, in one pass."""
    total, inserted = _insertions_of_counts(context.counts), dict[tuple[str, int], int]()
    for record in reversed(earlier_of_publication):
        inserted[record.key] = total
        total += _insertions_of_release(record)
    return inserted


def _insertions_of_release(record: ReleaseRecord) -> int:
    return _insertions_of_counts(record.audit.get("counts") or {})


def _insertions_of_counts(counts: Mapping[str, Any]) -> int:
    return counts.get("non_append_insertions") or 0


def fits(
    context: AuditContext,
    earlier: ReleaseRecord,
    later: ReleaseRecord,
    partner: Ints,
) -> tuple[Status, str]:
    """Return whether a pair fits the model, and the reason if it does not.

    It fits if every earlier case is in the later release (the candidate, or one before it), and only grew.

    Parameters
    ----------
    context
        The candidate and its counts.
    earlier, later
        The releases of the pair.
    partner
        Place of each earlier case in the later release (`partners`).
    """
    gone = int(np.count_nonzero(partner < 0))
    changed, n_altered = 0, 0
    if context.build.immutable and not gone:
        n_altered = altered(earlier, later, partner)  # sensitive values included
    elif not gone:
        changed = changes(earlier, later, partner)
    inserted = inserted_since(context, earlier, later)
    return _status_of_differences(context, earlier, later, Differences(gone, inserted, changed, n_altered))


class Differences(NamedTuple):
    """How a later release of a pair differs from the earlier one.

    gone : cases that the later release lacks
    inserted : late events that were inserted before events released already
    changed : cases with another sensitive value
    altered : cases that show something else, of a kind that never changes cases
    """

    gone: int
    inserted: int
    changed: int
    altered: int


def _status_of_differences(
    context: AuditContext, earlier: ReleaseRecord, later: ReleaseRecord, differences: Differences
) -> tuple[Status, str]:
    """Return the status of a pair, and the reason if it does not fit the model, from its differences."""
    number = earlier.sequence
    if differences.gone:
        reason = f"{differences.gone} cases of release {number} are not in release {later.sequence}"
        return "cases_dropped", reason
    for record in (earlier, later):
        if record.sequence in context.erased_releases:
            return "cases_dropped", f"release {record.sequence} holds a case that was erased since"
    if (earlier.audit.get("counts") or {}).get("suppressed_cases"):
        return "cases_dropped", f"release {number} had dropped cases: a new case may have started before it"
    if differences.inserted and not context.build.immutable:
        reason = f"{differences.inserted} late events were inserted before events released in or after {number}"
        return "not_incremental", reason
    if differences.changed:
        reason = f"the sensitive value of {differences.changed} cases changed since release {number}"
        return "not_incremental", reason
    if differences.altered:
        return "not_incremental", f"{differences.altered} cases are not as they were in release {number}"
    return "ok", ""


def _first_misfit(states: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return the first status that is not ok, with its reason; ("ok", "") if all fit."""
    return next((state for state in states if state[0] != "ok"), ("ok", ""))


def _with_assumption(row: PairRow, actual: int) -> PairRow:
    """Mark a row whose n is below the number of events that were really removed.

    Such a row is reported, and the gate ignores it.
    """
    return {**row, "assumption": "violated"} if row["n"] < actual else row
