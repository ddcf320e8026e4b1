"""State that audits keep and share over a series gives every pair the result of a computation alone.

Random series of releases: cases join, grow, are hidden, change their sensitive value, leave (retention) and are erased
from what is kept; candidates are withheld and come again. After each step the audit of the candidate against all
releases before it must equal the audit of fresh records that share nothing.
"""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.attacks import linkability
from models.attacks.linkability import SUBSEQUENCE, Edges, edges
from models.attacks.numbering import Numbering
from models.attacks.pairs import NextOccurrences, ReleasePair, encode, join_releases, next_occurrences, unmatched
from models.attacks.series import PairInSeries
from models.attacks.shared_pairs import NumberedRelease, SharedPairs
from models.errors import TooLargeError
from models.eventlog import EventLog, SimpleLog
from stream.ledger import release_record
from stream.ledger.release_record import ReleaseRecord
from stream.release.audience import Earlier
from stream.release.audits import comparison
from stream.release.audits.anonymity import CorrespondenceAudit, parts
from stream.release.audits.series import SeriesAudit
from stream.release.contract import AuditContext, Build, Exposure
from stream.release.mechanisms.identity import Identity
from tests.oracles.attacks import least_n


@dataclass
class Series:
    """Cases as they grow, and the releases made of them. `timed`: they carry times that background knowledge may not
    be about."""

    rng: random.Random
    values: bool
    timed: bool = False
    cases: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    value: dict[str, Any] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)

    def grow(self, steps: int) -> None:
        """Events of new and of open cases."""
        for _ in range(steps):
            fresh = not self.cases or self.rng.random() < 0.4
            name = f"c{len(self.cases)}" if fresh else self.rng.choice(list(self.cases))
            events = self.cases.setdefault(name, [])
            minute = (events[-1][1] if events else 0) + self.rng.choice([0, 0, 1])
            events.append((self.rng.choice("aaabbcd"[: 4 + len(self.cases) // 4]), minute))
            if self.values and (fresh or self.rng.random() < 0.03):
                self.value[name] = self.rng.choice(["x", "y", None])

    def release(self, number: int, *, hidden: float, leaves: float) -> ReleaseRecord:
        """Return a release of the cases: some events may be suppressed, some cases left out."""
        shown = [
            ([one for one in trace if self.rng.random() >= hidden], self.value.get(name), name)
            for name, trace in self.cases.items()
            if name not in self.erased and self.rng.random() >= leaves
        ]
        log = EventLog.from_traces([([activity for activity, _ in trace], value) for trace, value, _ in shown], "s")
        time = np.asarray([60_000_000_000 * minute for trace, *_ in shown for _, minute in trace], dtype=np.int64)
        named = EventLog(
            tuple(name for *_, name in shown), log.starts, log.activity, time, log.resource, log.row,
            log.case_attributes,
        )  # fmt: skip
        sensitive = ("s",) if self.values else ()
        return ReleaseRecord(number, named, self.carries, "minutes", sensitive, publication="p")

    @property
    def carries(self) -> tuple[str, ...]:
        return ("activity", "relative_time") if self.timed else ("activity",)


def fresh(record: ReleaseRecord) -> ReleaseRecord:
    """The same release as it is read from its file: nothing is kept with it."""
    return ReleaseRecord(
        record.sequence, record.log, record.carries, record.T, record.sensitive, record.audit, {}, record.publication
    )


def stored(record: ReleaseRecord, path: Path) -> ReleaseRecord:
    """The release with a file, from which its log can be read again."""
    release_record.write(path, record)
    return record.released(record.audit, release_record.VariantsFile(path))


def measured(
    candidate: ReleaseRecord, earlier: list[ReleaseRecord], audit: CorrespondenceAudit, *, immutable: bool
) -> Any:
    """The audits of a candidate."""
    exposure = Exposure(
        candidate.log, np.ones(candidate.log.n_cases, dtype=np.bool_), candidate.sensitive, 0, publication="p"
    )
    build = Build(
        candidate.log, np.arange(candidate.log.n_cases, dtype=np.int64), candidate.carries, n_actual=0,
        immutable=immutable,
    )  # fmt: skip
    context = AuditContext(candidate, earlier, build, exposure, Identity(kind="identity"), [], {})
    found: Mapping[str, Any] = audit.measure(context, {})
    return found, SeriesAudit().measure(context, {"anonymity": found})


def comparable(audits: Any) -> Any:
    """Return audits without the background knowledge that the real partners name.

    Several attain a least count. `test_attacks_real_partners` checks that the named one does.
    """
    anonymity, series = audits
    rows = anonymity["true_linker"]
    if rows is None:
        return audits
    named = [{name: knowledge is not None for name, knowledge in row["worst"].items()} for row in rows]
    unnamed = [{**row, "worst": names} for row, names in zip(rows, named, strict=True)]
    return {**anonymity, "true_linker": unnamed}, series


@pytest.mark.parametrize("values", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("method", ["exact", "sound"])
@pytest.mark.parametrize("against", ["all", "last", 2])
# 0 keeps releases in memory, 1 has times; 1 and 2 read releases from files.
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 2))])
def test_audits_of_a_series_equal_those_from_scratch(
    values: bool, method: str, against: Any, seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Over growth, suppression, retention, erasure, withheld candidates, a numbering that begins again, restarts, and
    earlier releases whose logs have left memory."""
    rng = random.Random(f"{values}{method}{against}{seed}")
    series, kept = Series(rng, values, timed=seed == 1), []
    monkeypatch.setattr(comparison, "SPARE", rng.choice([0, 1000]))
    audit = CorrespondenceAudit(n=(0, 1, 2), method=method, against=against)  # type: ignore[arg-type]
    hidden, leaves = rng.choice([(0.0, 0.0), (0.0, 0.0), (0.1, 0.0), (0.0, 0.1)])
    statuses, too_large = set(), 0
    for number in range(1, 7):
        series.grow(rng.randint(3, 25))
        if rng.random() < 0.3:  # a restart: what was kept with the releases is gone
            kept = [fresh(one) for one in kept]
        for _attempt in range(rng.choice([1, 1, 2])):  # the first of two is withheld
            candidate = series.release(number, hidden=hidden, leaves=leaves)
            immutable = rng.random() < 0.3
            # An attempt that needs too much room is withheld too.
            with monkeypatch.context() as small:
                small.setattr(linkability, "MOST_RUNS", 0)
                try:
                    measured(fresh(candidate), kept, audit, immutable=immutable)
                except TooLargeError:
                    too_large += 1
            found = measured(candidate, kept, audit, immutable=immutable)
            with monkeypatch.context() as alone:
                alone.setattr(comparison, "SharedPairs", _refused)
                alone.setattr(comparison, "together", lambda _one, _two: None)
                wanted = measured(fresh(candidate), [fresh(one) for one in kept], audit, immutable=immutable)
            assert comparable(found) == comparable(wanted)
            statuses.add(found[0]["status"])
        kept.append(candidate if seed == 0 else stored(candidate, tmp_path / f"{number}.parquet"))
        if rng.random() < 0.3:
            gone = {rng.choice(list(series.cases))}
            series.erased |= gone
            kept = [release_record.without_cases(one, gone) if gone & set(one.log.case_ids) else one for one in kept]
            if seed != 0:
                kept = [stored(one, tmp_path / f"{one.sequence}.parquet") for one in kept]
    assert statuses
    if (method, against) == ("exact", "all"):
        assert too_large


@pytest.mark.parametrize("most", [0, 1 << 22])
def test_only_pairs_of_the_last_releases_keep_tables(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair that no series asks again keeps numbers only; a withheld candidate changes nothing of that."""
    monkeypatch.setattr("models.attacks.series.MOST_KEPT", most)
    tables_of = weakref.WeakKeyDictionary[PairInSeries, list[weakref.ref[Any]]]()

    def watched(make: Callable[[], Any], make_shared: Callable[[], Any] | None = None) -> PairInSeries:
        """Return a pair, and note its tables and its way to the tables that pairs share."""
        noted: list[weakref.ref[Any]] = []

        def noting(maker: Callable[[], Any]) -> Callable[[], Any]:
            def tables() -> Any:
                made = maker()
                if made is not None:
                    noted.append(weakref.ref(made))
                return made

            return tables

        noting_shared = None if make_shared is None else noting(make_shared)
        if noting_shared is not None:
            noted.append(weakref.ref(noting_shared))
        pair = PairInSeries(noting(make), noting_shared)
        tables_of[pair] = noted
        return pair

    monkeypatch.setattr(comparison, "PairInSeries", watched)
    rng = random.Random(5)
    series, kept = Series(rng, values=False), list[ReleaseRecord]()
    audit = CorrespondenceAudit()
    for number in range(1, 9):
        series.grow(15)
        for _attempt in range(1 + number % 2):  # the first of two is withheld
            candidate = series.release(number, hidden=0.0, leaves=0.0)
            found, more = measured(candidate, kept, audit, immutable=False)
            assert (found["status"], more["status"]) == ("ok", "ok")
        kept.append(candidate)
        gc.collect()
        held = {
            (earlier.sequence, record.sequence)
            for record in kept
            for earlier, pair in record.cache.get(comparison.SERIES, {}).values()
            if any(reference() is not None for reference in tables_of[pair])
        }
        wanted = (
            {(i, j) for j in range(1, number + 1) for i in range(1, j) if i >= number - 3} if number >= 3 else set()
        )
        assert held == (wanted if most else set())


def test_what_erasure_writes_again_leaves_nothing_in_memory() -> None:
    """Pairs, numbers and links that are kept with other releases hold what the erased case was."""
    series, records = Series(random.Random(1), values=False), list[ReleaseRecord]()
    audit = CorrespondenceAudit()
    for number in range(1, 5):
        series.grow(10)
        records.append(series.release(number, hidden=0.0, leaves=0.0))
        measured(records[-1], records[:-1], audit, immutable=False)
    held = {record.key: record for record in records}
    earlier = Earlier(held.__getitem__, list(held), None)
    assert all(record.cache for record in earlier)
    earlier[1] = release_record.without_cases(records[1], {records[1].log.case_ids[0]})
    assert not any(record.cache for record in earlier)


def _refused(*_given: object) -> None:
    raise comparison.InputError("nothing is shared")


@pytest.mark.parametrize("seed", range(10))
def test_a_pair_that_shares_equals_the_pair_alone(seed: int) -> None:
    """Rows, alphabets, values, tables and links are the same once variants are spelt out."""
    rng = random.Random(seed)
    series = Series(rng, values=seed % 2 == 0)
    records = []
    for number in range(1, 6):
        series.grow(20)
        records.append(series.release(number, hidden=rng.choice([0, 0.2]), leaves=0.1))
    numbering = Numbering()
    logs = [one.simple() for one in records]
    known = [
        NumberedRelease(log, numbering.number(log, one.log.case_ids)) for log, one in zip(logs, records, strict=True)
    ]
    cap = rng.randint(0, 3)
    against = SharedPairs(numbering, known[-1], known[:-1], cap)
    for one in known[:-1]:
        given, table = against.pair(one)
        alone = join_releases(one.log, known[-1].log)
        assert given.items == tuple(dict.fromkeys(item for log in logs for item in log.alphabet))
        assert (given.alphabet, given.values) == (alone.alphabet, alone.values)
        assert _spelt(given) == _spelt(alone)
        assert _next_rows(given, table) == _next_rows(alone, next_occurrences(alone))
        links = _links(given, against.edges(one, given))
        assert links == _links(alone, edges(alone, cap))
        assert _named_links(given, links) == _links_by_definition(one.log, known[-1].log, cap)
        for bk in _some_knowledge(given.alphabet, rng):
            for n in range(3):
                counted = _matching_records(given, table, bk, n)
                assert counted == _matching_by_definition(one.log, known[-1].log, bk, n, lambda item: item)


@pytest.mark.parametrize("seed", range(10))
def test_a_pair_whose_knowledge_is_less_than_its_items_equals_the_pair_alone(seed: int) -> None:
    """Releases carry times that background knowledge is not about: it sees fewer symbols and fewer variants."""
    rng = random.Random(seed)
    series, records = Series(rng, values=seed % 2 == 0, timed=True), []
    for number in range(1, 6):
        series.grow(20)
        records.append(series.release(number, hidden=rng.choice([0, 0.2]), leaves=0.1))
    numbering, cap, known = Numbering(), rng.randint(0, 3), parts((0,))
    logs = [one.simple() for one in records]
    numbered = [
        NumberedRelease(log, numbering.number(log, one.log.case_ids)) for log, one in zip(logs, records, strict=True)
    ]
    for later in (2, 4):  # what the second candidate brings is added to what the first one brought
        against = SharedPairs(numbering, numbered[later], numbered[:later], cap, known)
        for one in numbered[: later + 1]:
            given, table = against.pair(one)
            alone = join_releases(one.log, numbered[later].log, known=known)
            assert given.items == tuple(dict.fromkeys(item for log in logs for item in log.alphabet))
            assert (given.alphabet, given.values) == (alone.alphabet, alone.values)
            assert (_spelt(given), _seen(given)) == (_spelt(alone), _seen(alone))
            assert _next_rows(given, table) == _next_rows(alone, next_occurrences(alone))
            if one is not numbered[later]:
                links = _links(given, against.edges(one, given))
                assert links == _links(alone, edges(alone, cap))
                assert _named_links(given, links) == _links_by_definition(one.log, numbered[later].log, cap)
            for bk in _some_knowledge(given.alphabet, rng):
                for n in range(3):
                    counted = _matching_records(given, table, bk, n)
                    assert counted == _matching_by_definition(one.log, numbered[later].log, bk, n, known)


def _next_rows(given: ReleasePair, table: NextOccurrences) -> dict[tuple[Any, ...], list[list[int]]]:
    """The next occurrences of each symbol at each position, by the variant as background knowledge sees it."""
    rows = {}
    for variant, (begin, end) in enumerate(pairwise(given.known_variants.start.tolist())):
        word = tuple(given.known_items[code] for code in given.known_variants.items[begin:end])
        first = table.first[variant]
        rows[word] = table.after[first : first + len(word) + 1].tolist()
    return rows


def _some_knowledge(alphabet: tuple[Any, ...], rng: random.Random) -> list[tuple[Any, ...]]:
    """Background knowledge of one to three symbols."""
    return [tuple(rng.choices(alphabet, k=length)) for length in (1, 2, 3) for _ in range(3)]


def _matching_records(given: ReleasePair, table: NextOccurrences, bk: tuple[Any, ...], n: int) -> tuple[int, int]:
    """Records of both releases in the matching sets, by the tables."""
    matches = unmatched(table, encode(given, bk)) <= n
    return tuple(int(rows.count[matches[rows.known_variant]].sum()) for rows in (given.earlier, given.later))  # type: ignore[return-value]


def _matching_by_definition(
    earlier: SimpleLog, later: SimpleLog, bk: tuple[Any, ...], n: int, known: Callable[[Any], Any]
) -> tuple[int, int]:
    """The same by Def. 8: at most n symbols of bk are not part of a common subsequence with the trace."""
    sizes = []
    for log in (earlier, later):
        size = 0
        for (trace, _value), count in log.decoded().items():
            word = [known(item) for item in trace]
            if len(bk) - _longest_common_subsequence(bk, word) <= n:
                size += count
        sizes.append(size)
    return sizes[0], sizes[1]


def _longest_common_subsequence(one: Sequence[Any], other: Sequence[Any]) -> int:
    lengths = [0] * (len(other) + 1)
    for item in one:
        previous = lengths
        lengths = [0]
        for at, other_item in enumerate(other):
            if item == other_item:
                lengths.append(previous[at] + 1)
            else:
                lengths.append(max(previous[at + 1], lengths[at]))
    return lengths[-1]


def _named_links(given: ReleasePair, links: list[Any]) -> list[Any]:
    """Links by earlier rows, with names in place of codes of sensitive values."""
    return sorted((word1, str(given.values[value]), word2, n) for word1, value, word2, n in links)


def _links_by_definition(earlier: SimpleLog, later: SimpleLog, cap: int) -> list[Any]:
    """The same by Def. 9: records of one sensitive value whose least n is at most `cap`."""
    links = []
    for word1, value1 in earlier.decoded():
        for word2, value2 in later.decoded():
            n = least_n(word1, word2)
            if value1 == value2 and n <= cap:
                is_subsequence = _longest_common_subsequence(word1, word2) == len(word1)
                links.append((word1, str(value1), word2, n + SUBSEQUENCE * is_subsequence))
    return sorted(links)


def _seen(given: ReleasePair) -> list[Any]:
    """For each record class what is carried and what is known of it."""
    carried = _words(given)
    known = [
        tuple(given.known_items[code] for code in given.known_variants.items[a:b])
        for a, b in pairwise(given.known_variants.start.tolist())
    ]
    assert len(set(known)) == len(known)
    return [
        sorted((carried[one], known[other]) for one, other in zip(rows.linked, rows.known_variant, strict=True))
        for rows in (given.earlier, given.later)
    ]


def _spelt(given: ReleasePair) -> list[Any]:
    """Record classes and the class of each case, with traces in place of numbers."""
    words = _words(given)
    return [
        [
            sorted(
                (words[variant], given.values[value] or "", count)
                for variant, value, count in zip(rows.linked.tolist(), rows.value, rows.count.tolist(), strict=True)
            ),
            [words[rows.linked[row]] for row in rows.row_of_case],
        ]
        for rows in (given.earlier, given.later)
    ]


def _links(given: ReleasePair, found: Edges) -> list[Any]:
    """Links with traces in place of rows."""
    words, own, other = _words(given), given.earlier, given.later
    return sorted(
        (words[own.linked[row]], int(own.value[row]), words[other.linked[at]], int(n))
        for row, at, n in zip(*found.links(), strict=True)
    )


def _words(given: ReleasePair) -> list[tuple[Any, ...]]:
    return [
        tuple(given.items[code] for code in given.linked.items[a:b]) for a, b in pairwise(given.linked.start.tolist())
    ]
