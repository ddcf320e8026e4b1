"""Audit `series`: what more than two releases reveal together (correspondence-attacks-2021, section 7).

Optimal micro attacks and the compositions B-then-F and B-then-C over the candidate and the releases just before it.
Measured only if every pair fits the model (the audit `anonymity` is `ok`). The numbers are bounds, see
docs/limitations.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, ClassVar

from pydantic import Field

from models.attacks.series import ATTACKS, series_of
from stream.release.audits.anonymity import CorrespondenceAudit, fits, knowledge_of
from stream.release.audits.comparison import pairs_in_series, partners, seen_as
from stream.release.contract import Audit, AuditContext, Reads


class SeriesAudit(Audit):
    """Least numbers left over a series of releases."""

    name: ClassVar[str] = "series"
    reads: ClassVar[Reads] = "raw"
    after: ClassVar[tuple[str, ...]] = ("anonymity",)

    last: int = Field(default=3, ge=2)
    """Number of earlier releases that take part; the cost grows with the square. Set it when recipients keep and
    combine more than three releases."""
    few: int = Field(default=60, ge=0)
    """Up to so many candidates are all tried, of more only the worst of every pair (`complete` is then false). Set it
    when the audit is not complete and an exact least number is worth the time."""

    @property
    def looks_back(self) -> int:
        """Number of earlier releases that are compared; see `Audit.looks_back`."""
        return self.last

    def measure(self, context: AuditContext, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """Measure the attacks on all releases together.

        Returns
        -------
        Mapping
            {status, reason, worst, releases, results}: `worst` is the least number left by any attack at any n; rows
            whose n does not cover what was removed have `assumption: "violated"`.
        """
        pairs = results.get(CorrespondenceAudit.name)
        if pairs is None:
            return _not_measured("not_applicable", "needs the audit anonymity")
        if pairs["status"] != "ok":
            return _not_measured(pairs["status"], pairs["reason"])
        if context.once is not None:
            return _not_measured("ok", "no case is in two releases")
        records = [*context.earlier[-self.last :], context.candidate]
        if len(records) < 3:
            return _not_measured("ok", "a series begins with the third release")
        other_records = [record for record in records if record.publication != context.candidate.publication]
        if other_records:
            reason = f"release {other_records[0].sequence} of {other_records[0].publication} is of other windows"
            return _not_measured("not_incremental", reason)
        ns = sorted(set(pairs["n"]))
        bk_length, bk_on = pairs["bk_length"], pairs["bk_on"]
        unchanged = context.build.immutable
        seen = [seen_as(record, tuple(bk_on)) for record in records] if unchanged else records
        for i, j in combinations(range(len(records)), 2):
            status, reason = fits(context, records[i], records[j], partners(seen[i], seen[j]))
            if status != "ok":
                return _not_measured(status, reason)

        known_part = None if unchanged else knowledge_of(context.build.carries, bk_on)
        compared = pairs_in_series(seen, bk_length, ns, known_part, bk_on, unchanged=unchanged)
        rows = series_of(len(records), compared, bk_length, ns, self.few).json()["results"]
        for pair in compared.values():
            pair.keep_small_tables()

        numbers_left = [row[attack] for row in rows for attack in ATTACKS if row[attack] is not None]
        # The attacks assume that at most n events were removed from a case. Of cases that never change
        # nothing is removed any more, so this holds for every n.
        if not context.build.immutable:
            removed_by_earlier = [record.audit.get("n_actual") or 0 for record in records[:-1]]
            most_removed = max([*removed_by_earlier, context.build.n_actual or 0])
            for row in rows:
                if row["n"] < most_removed:
                    row["assumption"] = "violated"
        return {
            "status": "ok",
            "reason": "",
            "worst": min(numbers_left, default=None),
            "releases": [record.sequence for record in records],
            "results": rows,
        }


def _not_measured(status: str, reason: str) -> Mapping[str, Any]:
    """Return the section of a series that was not attacked."""
    return {"status": status, "reason": reason, "worst": None, "releases": None, "results": None}
