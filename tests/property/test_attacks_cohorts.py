"""Attacks on releases whose cases never change, against sets of cases that are counted by definition.

Random series of cohorts: each release holds all cases of those before it as they were, and new ones. The
one linker is then the identity, so every number is the size of a set of cases
(docs/decisions/113-cohorts-have-one-linker.md).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.attacks.correspondence import anonymity
from models.attacks.linkability import KeptLinks
from models.eventlog import EventLog
from stream.ledger import release_record
from stream.ledger.release_record import ReleaseRecord
from stream.release.audits import comparison
from stream.release.audits.anonymity import CorrespondenceAudit
from stream.release.gate import worst_anonymity
from tests.property.test_attacks_against import fresh, measured, stored

Trace = tuple[str, ...]
LENGTH = 2
NS = (0, 1)


class Cohorts:
    """Cases by name, as they are first published, and the releases made of them."""

    def __init__(self, rng: random.Random, *, values: bool, timed: bool) -> None:
        self.rng, self.values, self.timed = rng, values, timed
        self.cases: dict[str, Trace] = {}
        self.value: dict[str, str | None] = {}
        self.releases: list[dict[str, Trace]] = []

    def release(self) -> ReleaseRecord:
        """Add a cohort, and return the release of all cohorts."""
        for _ in range(self.rng.randint(1, 6)):
            name = f"c{len(self.cases)}"
            self.cases[name] = tuple(self.rng.choices("abc", k=self.rng.randint(1, 5)))
            self.value[name] = self.rng.choice(["x", "y", None]) if self.values else None
        self.releases.append(dict(self.cases))
        return record_of(len(self.releases), self.cases, self.value if self.values else None, timed=self.timed)


def record_of(
    number: int, cases: Mapping[str, Trace], value: Mapping[str, str | None] | None, *, timed: bool = False
) -> ReleaseRecord:
    """Return a release of some cases; the times of a case depend on its name alone."""
    traces = [(list(trace), None if value is None else value[name]) for name, trace in cases.items()]
    log = EventLog.from_traces(traces, "s")
    steps = [sum(map(ord, name)) % 7 for name, trace in cases.items() for _ in trace]
    time = 60_000_000_000 * np.asarray(steps, dtype=np.int64)
    named = replace(log, case_ids=tuple(cases), time=time)
    carries = ("activity", "relative_time") if timed else ("activity",)
    return ReleaseRecord(number, named, carries, "minutes", () if value is None else ("s",), publication="p")


def matching(cases: Mapping[str, Trace], knowledge: Trace, n: int) -> set[str]:
    """The cases that lack at most n symbols of the knowledge (correspondence-attacks-2021, Def. 8)."""
    return {name for name, trace in cases.items() if len(knowledge) - common(knowledge, trace) <= n}


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence, by trying all of the shorter one."""
    for length in range(len(one), 0, -1):
        if any(is_part(part, other) for part in combinations(one, length)):
            return length
    return 0


def is_part(part: Sequence[str], of: Sequence[str]) -> bool:
    """Whether the items appear in this order."""
    rest = iter(of)
    return all(item in rest for item in part)


def knowledge_about(*releases: Mapping[str, Trace]) -> Iterator[Trace]:
    """All knowledge of up to two activities of some releases."""
    shown = sorted({item for release in releases for trace in release.values() for item in trace})
    for length in range(1, LENGTH + 1):
        yield from product(shown, repeat=length)


def least(sizes: Iterator[int]) -> int | None:
    """The least number of at least one case."""
    return min((size for size in sizes if size > 0), default=None)


def pair_by_definition(earlier: Mapping[str, Trace], later: Mapping[str, Trace], n: int) -> dict[str, int | None]:
    """FA, CA and BA: cases of both releases that match, and cases that match and are new in the later one."""
    known = list(knowledge_about(earlier, later))
    both = [len(matching(earlier, knowledge, n)) for knowledge in known]
    new = [len(matching(later, knowledge, n) - set(earlier)) for knowledge in known]
    return {"fa": least(iter(both)), "ca": least(iter(both)), "ba": least(iter(new))}


def series_by_definition(releases: Sequence[Mapping[str, Trace]], n: int) -> dict[str, int | None]:
    """The cases that remain possible under the best attack of each kind, with one linker.

    F on a release excludes nobody. C on a release leaves those who are in the first one. B leaves those who
    are not in the release before it, and so does B followed by F or C, since nothing changes later.
    """
    sizes: dict[str, list[int]] = {name: [] for name in ("fa", "ca", "ba", "bf", "bc")}
    last = len(releases) - 1
    for knowledge in knowledge_about(*releases):
        sets = [matching(release, knowledge, n) for release in releases]
        sizes["fa"] += [len(match) for match in sets[:last]]
        sizes["ca"] += [len(match & set(releases[0])) for match in sets[1:]]
        for place in range(1, len(releases)):
            new = len(sets[place] - set(releases[place - 1]))
            sizes["ba"].append(new)
            if place < last:
                sizes["bf"].append(new)
                sizes["bc"].append(new)
    return {name: least(iter(numbers)) for name, numbers in sizes.items()}


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_all_numbers_are_sizes_of_sets_of_cases(values: bool, seed: int, tmp_path: Path) -> None:
    """Pairs and series of random cohorts, with and without times, in memory and as read from files."""
    rng = random.Random(f"{values}{seed}")
    cohorts = Cohorts(rng, values=values, timed=seed % 2 == 1)
    kept: list[ReleaseRecord] = []
    for number in range(1, 6):
        candidate = cohorts.release()
        anonymity_section, series_section = measured(candidate, kept, CorrespondenceAudit(n=NS), immutable=True)
        assert (anonymity_section["status"], anonymity_section["linker"]) == ("ok", "identity")
        for release, section in enumerate(anonymity_section["results"]):
            for row in section["results"]:
                wanted = pair_by_definition(cohorts.releases[release], cohorts.releases[-1], row["n"])
                assert {name: row[name] for name in wanted} == wanted
        if number >= 3:
            first = max(0, number - 4)
            for row in series_section["results"]:
                wanted = series_by_definition(cohorts.releases[first:], row["n"])
                assert {name: row[name] for name in wanted} == wanted
                assert row["complete"]
        kept.append(candidate if seed < 3 else stored(candidate, tmp_path / f"{number}.parquet"))


@pytest.mark.parametrize("seed", range(4))
def test_no_other_linker_leaves_fewer(seed: int) -> None:
    """For somebody who does not know that cases never change, each matching set with a victim keeps at least as many
    records: the exact attack over all linkers, at all knowledge."""
    cohorts = Cohorts(random.Random(seed), values=seed % 2 == 1, timed=False)
    earlier, later = cohorts.release(), cohorts.release()
    first, second = cohorts.releases
    known = list(knowledge_about(first, second))
    exact = anonymity(earlier.simple(), later.simple(), bk_length=LENGTH, n=NS, candidates=known)
    assert len(exact.candidates) == len(known) * len(NS)
    for row in exact.candidates:
        knowledge, n = tuple(row["bk"]), row["n"]
        both = len(matching(first, knowledge, n))
        new = len(matching(second, knowledge, n) - set(first))
        assert (row["fa"] >= both, row["ca"] >= both, row["ba"] >= new) == (True, True, True)


def test_the_gate_judges_as_with_all_linkers() -> None:
    """The least number that the gate reads is the least one with a victim, which the search over all linkers also
    finds among the victims' knowledge."""
    cohorts = Cohorts(random.Random(3), values=True, timed=False)
    earlier, later = cohorts.release(), cohorts.release()
    section, _ = measured(later, [earlier], CorrespondenceAudit(n=NS), immutable=True)
    for name in ("fa", "ca", "ba"):
        wanted = [pair_by_definition(*cohorts.releases, n)[name] for n in NS]
        assert worst_anonymity(section, name) == min(value for value in wanted if value is not None)  # type: ignore[arg-type]


def test_a_method_of_comparison_is_not_used() -> None:
    """The formulas of the paper may over-state a crack; a section never names a method that did not count it."""
    cohorts = Cohorts(random.Random(7), values=True, timed=False)
    earlier, later = cohorts.release(), cohorts.release()
    sections = [
        measured(later, [fresh(earlier)], CorrespondenceAudit(n=NS, method=method), immutable=True)[0]  # type: ignore[arg-type]
        for method in ("exact", "sound", "paper")
    ]
    assert sections[0]["method"] == "exact"
    assert sections[1:] == [sections[0], sections[0]]


@pytest.mark.parametrize("values", [[5, 5.5], [True, None], [date(2024, 3, 1), "x"], [("a", 1), ("a", 2)]])
def test_a_release_and_its_file_show_the_same_cases(values: list[Any], tmp_path: Path) -> None:
    """After a restart the earlier release is read from its file, where values are JSON."""
    log = EventLog.from_traces([(list("ab"), values[0]), (list("ac"), values[1])], "s")
    named = replace(log, case_ids=("c1", "c2"))
    record = ReleaseRecord(1, named, ("activity",), "minutes", ("s",), publication="p")
    read = release_record.VariantsFile(tmp_path / "variants.parquet")
    release_record.write(read.path, record)
    restarted = ReleaseRecord(1, read.log(), record.carries, "minutes", ("s",), publication="p")
    assert comparison.altered(restarted, record, np.arange(2)) == 0
    assert comparison.altered(restarted, record, np.asarray([1, 0])) == 2


def test_links_between_records_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number grows with the square of the cases; the identity needs none."""

    def refused(*_given: object) -> None:
        raise AssertionError("links were listed")

    monkeypatch.setattr(KeptLinks, "move_on", refused)
    monkeypatch.setattr("models.attacks.correspondence.edges", refused)
    cohorts = Cohorts(random.Random(4), values=False, timed=True)
    kept: list[ReleaseRecord] = []
    for _ in range(4):
        candidate = cohorts.release()
        section, series = measured(candidate, kept, CorrespondenceAudit(n=NS), immutable=True)
        assert (section["status"], series["status"]) == ("ok", "ok")
        kept.append(candidate)


def test_logs_of_earlier_releases_leave_memory(tmp_path: Path) -> None:
    """All but that of the last release, as of any other kind; a file is read once after a restart."""
    cohorts = Cohorts(random.Random(6), values=True, timed=True)
    kept: list[ReleaseRecord] = []
    for number in range(1, 5):
        candidate = cohorts.release()
        measured(candidate, kept, CorrespondenceAudit(n=NS), immutable=True)
        kept.append(stored(candidate, tmp_path / f"{number}.parquet"))
    in_memory = [[seen._log is not None for seen in (one, *one.cache[comparison.SEEN].values())] for one in kept]
    assert in_memory == [[False, False], [False, False], [True, True], [True, True]]

    restarted = [Read(one, number) for number, one in enumerate(kept, start=1)]
    measured(cohorts.release(), [one.record for one in restarted], CorrespondenceAudit(n=NS), immutable=True)
    assert [one.reads for one in restarted] == [1, 1, 1, 1]


class Read:
    """A release as it is after a restart, and how often its log was read from the file."""

    def __init__(self, released: ReleaseRecord, number: int) -> None:
        self._file, self.reads = released.stored, 0
        self.record = ReleaseRecord(
            number, None, released.carries, released.T, released.sensitive, released.audit, publication="p"
        )
        self.record.stored = self

    def log(self) -> EventLog:
        """Count and read."""
        assert self._file is not None
        self.reads += 1
        return self._file.log()

    def case_ids(self) -> tuple[str, ...]:
        """Read identifiers alone."""
        assert self._file is not None
        return self._file.case_ids()


@pytest.mark.parametrize("shared", [True, False])
def test_a_case_that_changed_fits_no_model(shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that says that its cases never change, and changes one: its attacks cannot be counted in this way."""
    if not shared:
        monkeypatch.setattr(comparison, "together", lambda _one, _two: None)
    cases = {"c1": ("a", "b"), "c2": ("a", "c")}
    earlier = record_of(1, cases, None)
    same, longer = {**cases, "c3": ("a",)}, {**cases, "c2": ("a", "c", "b"), "c3": ("a",)}
    statuses = []
    for later in (same, longer):
        section, _ = measured(record_of(2, later, None), [fresh(earlier)], CorrespondenceAudit(n=NS), immutable=True)
        statuses.append((section["status"], section["reason"], section["results"] is None))
        assert section["true_linker"] is not None
    assert statuses == [("ok", "", False), ("not_incremental", "1 cases are not as they were in release 1", True)]


def test_an_erased_case_is_counted_by_real_partners_alone(tmp_path: Path) -> None:
    """Cohorts that became smaller: the pair does not fit, and the counts of the surviving cases remain."""
    cohorts = Cohorts(random.Random(5), values=False, timed=False)
    earlier, later = cohorts.release(), cohorts.release()
    gone = {next(iter(cohorts.cases))}
    section, _ = measured(
        release_record.without_cases(later, gone), [earlier], CorrespondenceAudit(n=NS), immutable=True
    )
    assert (section["status"], section["results"]) == ("cases_dropped", None)
    assert section["true_linker"][0]["survivors"] == len(cohorts.releases[0]) - 1
