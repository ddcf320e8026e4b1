"""The dossier: seven parts on one publication, from evidence and facts, for two pages of paper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Literal

from stream.operator.dossier import criteria, decisions
from stream.operator.dossier.criteria import Family, family
from stream.operator.dossier.evidence import DossierEvidence, has_open_moment
from stream.operator.dossier.facts import KEYS
from stream.operator.dossier.texts import DossierTexts, English, MarkedQuestion, day
from stream.operator.history import late_events
from stream.operator.report.document import BudgetAnswer
from stream.operator.report.statement import Section, Statement, consecutive_ranges
from stream.operator.report.words import sentence
from stream.release.manifest import MAP, software
from stream.release.verdict import LOG_END, LOOKS
from stream.values.duration import as_text

PEOPLE_FACTS = ("controller", "officer", "purpose", "legal_basis", "people", "recipients", "storage_period")
"""Facts of part 1."""

MOST_REASONS = 2
"""Reasons of withheld attempts that are printed; the report has all of them."""

MOST_REASONS_ALONE = 6
"""Reasons that are printed if every attempt was withheld."""

MOST_CHANGES = 3
"""Changes of the configuration that are printed, the newest; the report has all of them."""

WINDOWS = ("new_cases", "new_events", "completed_cases", "events_per_case", "every", "manual")

DURATION = re.compile(r"(\d+)([smhdw])")


def dossier(
    evidence: DossierEvidence,
    facts: Mapping[str, str],
    texts: DossierTexts,
    *,
    today: date,
    alternatives: Mapping[str, Any] | None = None,
) -> Statement:
    """Return the dossier.

    Parameters
    ----------
    evidence
        The evidence of one publication.
    facts
        Facts that people know, by the keys of `dossier.toml`.
    texts
        The texts of one language.
    today
        Date of the document.
    alternatives
        The figures of part 4; None if nobody computed them.
    """
    parts = (
        _what(evidence, facts, texts),
        _criteria(evidence, facts, texts),
        _learned(evidence, texts),
        *decisions.sections(evidence, alternatives, texts),
        _history(evidence, facts, texts),
        _frameworks(evidence, facts, texts),
        *_signatures(facts, texts),
    )
    questions = [text for part in parts for text in _strings(part) if isinstance(text, MarkedQuestion)]
    first = Section(texts.say("first.title"), points=tuple(_first(evidence, texts, len(questions))))
    program = software()
    made = {"program": f"{program['name']} {program['version']}", "day": day(today)}
    closing = texts.say("page.made", **made)
    if alternatives is not None:
        closing = texts.say("page.made_with_original", read=alternatives["day"], **made)
    title = texts.say("page.title", publication=evidence.name, process=evidence.process)
    return Statement(
        title,
        texts.say("page.note"),
        (first, *parts, Section("", paragraphs=(closing,))),
        _data(evidence, facts, texts, questions, alternatives),
    )


def _data(
    evidence: DossierEvidence,
    facts: Mapping[str, str],
    texts: DossierTexts,
    questions: Sequence[str],
    alternatives: Mapping[str, Any] | None,
) -> Mapping[str, Any]:
    """Return what `--json` prints."""
    document = evidence.document
    return {
        "version": 1,
        "process": evidence.process,
        "publication": evidence.name,
        "audience": evidence.audience,
        "language": texts.language,
        "verdict": evidence.verdict.as_json(),
        "release": document["sequence"] or None,
        "manifest_sha256": evidence.manifest_digest or None,
        "config_digest": document["config_digest"],
        "releases": [row["sequence"] for row in evidence.released],
        "withheld": len(evidence.with_status("withheld")),
        "assessments": [
            {"sha256": file.digest, "releases": list(file.numbers), "pooled": file.pooled}
            for file in evidence.assessments
        ],
        "alternatives": alternatives,
        "facts": {key: facts.get(key) for key in KEYS},
        "open_questions": [str(question) for question in questions],
        "written_by": software(),
    }


def _strings(section: Section) -> Iterator[str]:
    yield from section.paragraphs
    for row in (*section.facts, *section.rows):
        yield from row
    yield from section.points


# before the parts


def _first(evidence: DossierEvidence, texts: DossierTexts, questions: int) -> Iterator[str]:
    """Yield the verdict and everything that weakens the dossier, the gravest first."""
    verdict = evidence.verdict
    yield f"[{LOOKS[verdict.verdict].sign} {verdict.verdict}] {_meaning(evidence, texts)}"
    yield English(texts.say("first.sentence", sentence=sentence(verdict.sentence)))
    refused = len(evidence.with_status("withheld"))
    if refused:
        yield texts.count("first.refused", refused)
    if not evidence.has_release:
        yield texts.say("first.nothing_released")
    elif not evidence.released:
        yield texts.count("first.held", len(evidence.account.held), release=evidence.document["sequence"])
    if evidence.empty_releases:
        yield texts.say("first.empty_releases", releases=ranges(evidence.empty_releases, texts))
    yield from _weaknesses(evidence, texts)
    if evidence.document.get("clock") == "simulated":
        yield texts.say("first.simulated")
    if questions:
        yield texts.count("first.questions", questions)


def _meaning(evidence: DossierEvidence, texts: DossierTexts) -> str:
    """Return the meaning of the verdict's word for this kind of promise."""
    word = evidence.verdict.verdict
    if word == "SAFE":
        if not evidence.budget:
            return _safe_groups(evidence.verdict.compared_with, texts)
        return texts.say("verdict.safe_once" if evidence.is_once else "verdict.safe_noise")
    key = word.lower().replace(" ", "_")
    return texts.say(f"verdict.{key}", others=texts.both(evidence.verdict.void_by))


def _safe_groups(compared_with: int | None, texts: DossierTexts) -> str:
    """Return the meaning of SAFE for groups: which pairs of releases were compared."""
    if compared_with is None:
        return texts.say("verdict.safe_groups")
    if compared_with == 0:
        return texts.say("verdict.safe_groups_alone")
    return texts.count("verdict.safe_groups_near", compared_with)


def _weaknesses(evidence: DossierEvidence, texts: DossierTexts) -> Iterator[str]:
    """Yield what an assessment saw, and why its figures are weak."""
    files = evidence.assessments
    if not files:
        if evidence.has_release:
            yield texts.say("first.no_assessment_map" if _is_map(evidence) else "first.no_assessment")
        return
    results: dict[str, set[str]] = {}
    for file in files:
        for attack, words in file.results.items():
            results.setdefault(attack, set()).update(words)
    seen = [texts.translated("attack", attack) for attack, words in results.items() if "seen" in words]
    if seen:
        yield texts.say("first.seen", attacks=texts.both(seen))
    powerless = [attack for attack, words in results.items() if words <= {"not run", "could not see"}]
    if powerless:
        yield texts.say(
            "first.no_power", attacks=texts.both([texts.translated("attack", attack) for attack in powerless])
        )
    with_control = [file for file in files if file.has_control]
    if not with_control:
        yield texts.say("first.no_control")
    elif all(file.is_trial for file in files):
        yield texts.say("first.trial_only")
    elif all(file.is_trial for file in with_control):
        yield texts.say("first.trial_control")
    for file in files:
        drift = file.document["assessments"][0].get("drift")
        if drift is not None and drift.get("clear"):
            yield texts.say("first.drift")
        last = evidence.document["sequence"]
        if file.numbers and max(file.numbers) != last:
            yield texts.say("first.older", assessed=max(file.numbers), last=last)


# part 1


def _what(evidence: DossierEvidence, facts: Mapping[str, str], texts: DossierTexts) -> Section:
    sentences = [_extent(evidence, texts), _frequency(evidence, texts)]
    if evidence.has_release:
        sentences.append(_contents(evidence, texts))
    if evidence.has_release and family(evidence.document) == "noise" and not _is_map(evidence):
        sentences.append(texts.say("one.artificial"))
    if evidence.is_once:
        sentences.append(texts.say("one.once"))
    sentences.append(_promise(evidence, texts))
    people = tuple((texts.say(f"facts.{key}.label"), criteria.fact(facts, texts, key)) for key in PEOPLE_FACTS)
    return Section(texts.say("one.title"), paragraphs=(" ".join(sentences),), facts=people)


def _extent(evidence: DossierEvidence, texts: DossierTexts) -> str:
    named = {"process": evidence.process, "audience": evidence.audience}
    released = evidence.released
    if not evidence.has_release:
        return texts.say("one.withheld", **named)
    if not released:
        return texts.say("one.released_none", release=evidence.document["sequence"], **named)
    first, last = day(released[0]["time"]), day(released[-1]["time"])
    return texts.count("one.released", len(released), first=first, last=last, **named)


def _frequency(evidence: DossierEvidence, texts: DossierTexts) -> str:
    if evidence.publication is None:
        return texts.say("one.window_unknown")
    window = evidence.publication.window
    parts = [_trigger(name, window[name], texts) for name in WINDOWS if window.get(name)]
    return texts.say("one.window", window=texts.say("window.or").join(parts))


def _trigger(name: str, value: Any, texts: DossierTexts) -> str:
    if name == "every":
        return texts.say("window.every", period=_duration(str(value), "unit", texts))
    number = value.get("x") if isinstance(value, Mapping) else value
    return texts.say(f"window.{name}", number=number)


def _duration(written: str, form: Literal["unit", "span"], texts: DossierTexts) -> str:
    """Return a duration of the configuration (`7d`) in words: a period that repeats (`unit`), or a span."""
    match = DURATION.fullmatch(written)
    if match is None:
        return written
    return texts.count(f"{form}.{match[2]}", int(match[1]))


def _is_map(evidence: DossierEvidence) -> bool:
    """Return whether the last release is a process map, which has no cases."""
    return evidence.document.get("content") == MAP


def _contents(evidence: DossierEvidence, texts: DossierTexts) -> str:
    if _is_map(evidence):
        return texts.say("one.contents_map")
    columns = []
    for column in evidence.document["carries"]:
        if column == "relative_time":
            columns.append(texts.translated("times", str(evidence.document["time_basis"])))
        else:
            columns.append(texts.translated("columns", column))
    return texts.say("one.contents", columns=texts.both(columns))


def _promise(evidence: DossierEvidence, texts: DossierTexts) -> str:
    kind, parameters = family(evidence.document), evidence.parameters
    if kind == "groups":
        key = "one.promise_groups" if criteria.compares_releases(evidence) else "one.promise_groups_alone"
        return texts.say(
            key,
            L=texts.number(parameters["L"]),
            K=texts.number(parameters["K"]),
            items=texts.say(f"items.{parameters['attribute']}"),
            # lcs-start has no such parameter: knowledge of a case always includes the order of its items.
            structure=texts.say(f"structure.{parameters.get('knowledge', 'seq')}"),
        )
    budget = evidence.budget
    if budget:
        spent = budget["spent"]
        return texts.say(
            "one.promise_noise_once" if evidence.is_once else "one.promise_noise",
            cases=criteria.persons(evidence, texts),
            epsilon=texts.amount(budget["epsilon"]),
            delta=texts.amount(budget["delta"]),
            spent=texts.amount(spent["epsilon"] or 0.0),
            spent_delta=texts.amount(spent["delta"] or 0.0),
        )
    if kind == "nothing":
        return texts.say("one.promise_nothing")
    return English(texts.say("one.promise_other", sentence=sentence(evidence.document["promise"]["guaranteed"])))


# part 2


def _criteria(evidence: DossierEvidence, facts: Mapping[str, str], texts: DossierTexts) -> Section:
    table = tuple(criteria.rows(evidence, facts, texts))
    notes = [texts.say("two.note")]
    if family(evidence.document) == "groups":
        notes.insert(0, texts.say("two.note_groups"))
    return Section(texts.say("two.title"), paragraphs=(" ".join(notes),), rows=table)


# part 3


def _learned(evidence: DossierEvidence, texts: DossierTexts) -> Section:
    kind = family(evidence.document)
    paragraphs = (
        _families(evidence, kind, texts),
        _rare(evidence, kind, texts),
        _employees(evidence, texts),
        _small_groups(evidence, kind, texts),
        texts.say("three.limits"),
    )
    return Section(
        texts.say("three.title"), paragraphs=tuple(filter(None, paragraphs)), points=tuple(_limits(evidence, texts))
    )


def _families(evidence: DossierEvidence, kind: Family, texts: DossierTexts) -> str:
    if kind == "noise":
        return texts.say("three.families_noise", cases=criteria.persons(evidence, texts))
    return texts.say("three.families_groups")


def _rare(evidence: DossierEvidence, kind: Family, texts: DossierTexts) -> str:
    if kind == "noise":
        return texts.say("three.rare_noise")
    if kind != "groups":
        return texts.say("three.rare_none" if kind == "nothing" else "three.rare_other")
    if "cohorts" in evidence.kind:
        return texts.say("three.rare_cohorts")
    return texts.say("three.rare_groups", K=texts.number(evidence.parameters["K"]))


def _employees(evidence: DossierEvidence, texts: DossierTexts) -> str:
    if not evidence.has_release:
        return ""
    if "resource" not in evidence.document["carries"]:
        return texts.say("three.employees_none")
    resources = evidence.document.get("resources") or {"named_by": "process"}
    return texts.say("three.employees_shown", form=texts.translated("resources", str(resources["named_by"])))


def _small_groups(evidence: DossierEvidence, kind: Family, texts: DossierTexts) -> str:
    if kind == "groups":
        return texts.say("three.small_groups", K=texts.number(evidence.parameters["K"]))
    return texts.say("three.small_noise") if kind == "noise" else ""


def _limits(evidence: DossierEvidence, texts: DossierTexts) -> Iterator[str]:
    """Yield the limitations that are true of this configuration, and no others."""
    kind, document = family(evidence.document), evidence.document
    if kind == "groups":
        yield from _limits_of_groups(evidence, texts)
    if evidence.is_once:
        yield texts.say("limit.once")
    # With noise the number is exact, and no epsilon covers it: it stays in the report.
    if kind != "noise" and (late := late_events(evidence.rows)):
        yield texts.count("limit.late", late)
    if kind == "noise":
        yield texts.say("limit.labels")
        if not evidence.is_once:
            yield texts.say("limit.adds_up")
        yield texts.say("limit.persons", cases=criteria.persons(evidence, texts))
        if document.get("approval"):
            yield texts.say("limit.approval")
        if "public_cut" in document["promise"]:
            yield texts.say("limit.public_cut")
        if evidence.follows_watermark:
            yield texts.say("limit.watermark")
        if evidence.ends_with_log:
            yield texts.say("limit.log_end")
    if kind == "nothing":
        yield texts.say("limit.identity")
    if evidence.kind == "amun":
        yield texts.say("limit.amun")
    elif kind == "other":
        yield texts.say("limit.trace")
    carried = document.get("carries") or []
    released = [column for column in carried if column not in ("activity", "resource", "relative_time")]
    if released:
        yield texts.say("limit.attributes", attributes=texts.both(released))
    resources = document.get("resources")
    has_pseudonyms = resources is None or resources["named_by"] != "roles"
    if "resource" in carried and has_pseudonyms:
        yield texts.say("limit.pseudonyms")
    yield from _limits_of_departures(evidence, texts)
    if evidence.gaps:
        yield texts.say("limit.gaps", number=evidence.gaps)
    if evidence.publication is not None and evidence.publication.gate.on_violation == "warn":
        yield texts.say("limit.warned")


def _limits_of_groups(evidence: DossierEvidence, texts: DossierTexts) -> Iterator[str]:
    document, parameters = evidence.document, evidence.parameters
    for doubt in document.get("doubts") or ():
        yield texts.say("limit.doubt", doubt=doubt)
    if parameters.get("suppression") == "local":
        yield texts.say("limit.local")
        yield texts.say("limit.known_rules")
    if "cohorts" in evidence.kind:
        yield texts.say("limit.cohort_alphabets")
        yield texts.say("limit.start_of_case")
    if not criteria.compares_releases(evidence):
        is_checked = not criteria.unbounded_comparisons(document)
        yield texts.say("limit.alone", bounded=texts.say("limit.bounded" if is_checked else "limit.unbounded"))
    if document.get("time_basis") == "microaggregated":
        yield texts.say("limit.microaggregated", K=texts.number(parameters["K"]))
    if document.get("time_basis") == "relative":
        yield texts.say("limit.relative", T=texts.translated("accuracy", str(parameters["T"])))


def _limits_of_departures(evidence: DossierEvidence, texts: DossierTexts) -> Iterator[str]:
    """Yield what erasures and the retention of cases leave with recipients."""
    account = evidence.account
    if account.erased_releases:
        releases = ranges(sorted(account.erased_releases), texts)
        yield texts.count("limit.erased", account.erased, releases=releases)
    settings = evidence.settings
    # With noise each case counts in sums alone, and no two releases show that one of them is gone.
    if settings is None or settings.process.retention is None or family(evidence.document) == "noise":
        return
    period = _duration(as_text(settings.process.retention), "span", texts)
    yield texts.say("limit.retention", period=period)


# part 5


def _history(evidence: DossierEvidence, facts: Mapping[str, str], texts: DossierTexts) -> Section:
    lines = [(texts.say(f"five.{name}"), text) for name, text in _events(evidence, texts)]
    lines.append((texts.say("five.incidents"), criteria.fact(facts, texts, "incidents")))
    lines += [(texts.say(f"five.{name}"), text) for name, text in _configurations(evidence, texts)]
    if evidence.has_release:
        number = evidence.document["sequence"]
        lines.append((texts.say("five.manifest", number=number), evidence.manifest_digest))
    lines += [(texts.say("five.assessment"), file.digest) for file in evidence.assessments]
    if evidence.left is not None:
        lines.append((texts.say("five.budget"), _budget(evidence.left, texts)))
    lines.append((texts.say("five.next_review"), criteria.fact(facts, texts, "next_review")))
    lines.append((texts.say("five.triggers"), texts.say("five.triggers_text")))
    label = texts.say("facts.review_triggers.label")
    lines.append((label, criteria.fact(facts, texts, "review_triggers")))
    return Section(texts.say("five.title"), facts=tuple(lines))


def _events(evidence: DossierEvidence, texts: DossierTexts) -> Iterator[tuple[str, str]]:
    """Yield each kind of event of the ledger that happened, by the key of its label."""
    released = evidence.released
    if released:
        numbers = ranges([row["sequence"] for row in released], texts)
        first, last = day(released[0]["time"]), day(released[-1]["time"])
        described = texts.count("five.releases_text", len(released), numbers=numbers, first=first, last=last)
        yield "releases", described
    refused = evidence.with_status("withheld")
    if refused:
        reasons = dict.fromkeys(reason for row in refused for reason in row["reasons"])
        # Without a release the reasons are all that the history has.
        most = MOST_REASONS if evidence.has_release else MOST_REASONS_ALONE
        shown = "; ".join([*reasons][:most]) + (" ..." if len(reasons) > most else "")
        yield "withheld", texts.say("five.reasons", number=len(refused), reasons=shown)
    waiting = evidence.with_status("waiting")
    if waiting:
        yield "waiting", str(len(waiting))
    for status in ("held", "rejected", "superseded", "burned"):
        numbers_of_status = [row["sequence"] for row in evidence.with_status(status)]
        if numbers_of_status:
            yield status, _numbered(numbers_of_status, texts)
    for decision in ("repaired", "warned"):
        numbers_of_decision = [row["sequence"] for row in released if row["decision"] == decision]
        if numbers_of_decision:
            yield decision, _numbered(numbers_of_decision, texts)
    account = evidence.account
    approvals = [entry for entry in account.rulings.values() if entry.body.decision == "approved"]
    if approvals:
        last_one = approvals[-1]
        yield (
            "approved",
            texts.say("five.approval", release=last_one.sequence, by=last_one.body.by, why=last_one.body.why),
        )
    if account.erased:
        releases = sorted(account.erased_releases)
        if releases:
            shown = ranges(releases, texts)
            yield "erased", texts.count("five.erased_text", account.erased, releases=shown)
        else:
            yield "erased", texts.count("five.erased_unreleased", account.erased)
    if evidence.gaps:
        yield "gaps", str(evidence.gaps)


def _configurations(evidence: DossierEvidence, texts: DossierTexts) -> Iterator[tuple[str, str]]:
    """Yield the digest of the configuration, and the newest changes."""
    changes = evidence.changes
    if len(changes) < 2:
        yield "configuration", evidence.document["config_digest"]
        return
    newest = changes[-MOST_CHANGES:]
    lines = [texts.say("five.configuration_change", release=change.number, digest=change.digest) for change in newest]
    if len(changes) > len(newest):
        lines.append(texts.say("five.configuration_more", number=len(changes) - len(newest)))
    yield "configuration", "\n".join(lines)


def _budget(budget: BudgetAnswer, texts: DossierTexts) -> str:
    spent, each = texts.amount(budget["spent"]), texts.amount(budget["each"])
    rule = texts.say(f"rule.{budget['rule']}")
    if budget["limit"] is None:
        return texts.say("five.budget_unlimited", spent=spent, each=each, rule=rule)
    text = texts.say("five.budget_text", spent=spent, each=each, limit=texts.amount(budget["limit"]), rule=rule)
    return f"{text}; {_budget_end(budget, texts)}"


def _budget_end(budget: BudgetAnswer, texts: DossierTexts) -> str:
    number = budget["releases_left"]
    if number is None:
        return texts.say("five.budget_end_once")
    if number == 0:
        return texts.say("five.budget_over")
    if budget["last_paid"] is None:
        return texts.say("five.budget_end_open", number=number)
    return texts.say("five.budget_end", number=number, day=day(budget["last_paid"]))


def ranges(numbers: Sequence[int], texts: DossierTexts) -> str:
    """Return `1 to 3, 5` for 1, 2, 3, 5.

    Parameters
    ----------
    numbers
        Numbers, ascending.
    texts
        Texts of the language.
    """
    shown = []
    for first, last in consecutive_ranges(numbers):
        if first == last:
            shown.append(str(first))
        else:
            shown.append(texts.say("format.range", first=first, last=last))
    return ", ".join(shown)


def _numbered(numbers: Sequence[int], texts: DossierTexts) -> str:
    """Return how many releases these are, and their numbers: a number alone could be either."""
    return texts.count("five.numbered", len(numbers), numbers=ranges(numbers, texts))


# part 6


def _frameworks(evidence: DossierEvidence, facts: Mapping[str, str], texts: DossierTexts) -> Section:
    head = tuple(texts.say(f"six.columns.{name}") for name in ("framework", "asks", "answer"))
    rows = []
    for framework, question, answer in _answers(evidence, facts, texts):
        rows.append((texts.say(f"six.{framework}"), texts.say(f"six.{framework}_{question}"), answer))
    return Section(texts.say("six.title"), rows=(head, *rows))


def _answers(
    evidence: DossierEvidence, facts: Mapping[str, str], texts: DossierTexts
) -> Iterator[tuple[str, str, str]]:
    """Yield framework, what it asks, and where the answer is."""
    noisy = family(evidence.document) == "noise"
    persons = evidence.parameters.get("cases_per_person", 1)
    cases = criteria.persons(evidence, texts)

    def part(number: int) -> str:
        return texts.say("page.part", number=number)

    def parts(first: int, second: int) -> str:
        return texts.say("six.parts", first=first, second=second)

    yield "nist", "claim", parts(1, 2)
    yield "nist", "unit", texts.say("six.nist_unit_noise" if noisy else "six.nist_unit_groups", cases=cases)
    yield "nist", "bounds", texts.say("six.nist_bounds_noise" if noisy else "six.nist_bounds_groups", number=persons)
    yield "nist", "parameters", part(4)
    yield "nist", "side_channels", _side_channels(evidence, texts)
    yield "nist", "collection", texts.say("page.outside")
    yield "iso", "context", criteria.fact(facts, texts, "environment")
    yield "iso", "threats", parts(2, 3)
    yield "iso", "identifiability", part(2)
    yield "iso", "governance", part(5)
    yield "ehds", "minimisation", parts(1, 4)
    yield "ehds", "environment", texts.say("six.ehds_environment_answer")
    yield "edpb", "intruder", part(2)
    yield "edpb", "means", texts.say("six.edpb_means_answer")


def _side_channels(evidence: DossierEvidence, texts: DossierTexts) -> str:
    """Return what the moments of release reveal. They are independent of the data only if all of them are."""
    if family(evidence.document) != "noise":
        return texts.say("six.nist_side_channels_groups")
    numbers = [row["sequence"] for row in evidence.released]
    open_moments = evidence.open_moments
    all_open = len(open_moments) == len(numbers) if numbers else has_open_moment(evidence.document)
    if all_open or evidence.follows_watermark:
        return texts.say("six.nist_side_channels_open")
    if open_moments:
        return texts.say("six.nist_side_channels_some", releases=ranges(open_moments, texts))
    if not evidence.ends_with_log:
        return texts.say("six.nist_side_channels_noise")
    at_log_end = [row["sequence"] for row in evidence.released if row["trigger"] == LOG_END]
    if at_log_end:
        return texts.say("six.nist_side_channels_final", releases=ranges(at_log_end, texts))
    return texts.say("six.nist_side_channels_log_end")


# part 7


def _signatures(facts: Mapping[str, str], texts: DossierTexts) -> Iterator[Section]:
    approved = criteria.fact(facts, texts, "approved_by")
    if "approved_by" in facts:
        approved = texts.say("seven.approved_by", text=approved)
    head = tuple(texts.say(f"seven.columns.{name}") for name in ("role", "name", "date", "signature"))
    rows = [(texts.say(f"seven.{role}"), " ", " ", " ") for role in ("controller", "officer", "operator")]
    yield Section(texts.say("seven.title"), paragraphs=(texts.say("seven.note"), approved), rows=(head, *rows))


# pages


def spanned(rows: Sequence[Sequence[str]]) -> list[tuple[int, Sequence[str]]]:
    """Return each row with the number of rows that its first cell spans; 0 if an earlier cell spans it.

    Parameters
    ----------
    rows
        Rows of a table; equal first cells are neighbours.
    """
    spans = [0] * len(rows)
    begin = 0
    for place, row in enumerate(rows):
        if row[0] != rows[begin][0]:
            begin = place
        spans[begin] += 1
    return list(zip(spans, rows, strict=True))


def html(page: Statement, texts: DossierTexts) -> str:
    """Return the dossier as one HTML file for screen and paper.

    Parameters
    ----------
    page
        The dossier.
    texts
        Texts of the language.
    """
    from markupsafe import Markup

    from stream.operator.report.templates import environment_of

    folder = Path(__file__).parent
    environment = environment_of(folder)
    environment.filters["spanned"] = spanned
    environment.tests |= {
        "open_question": lambda text: isinstance(text, MarkedQuestion),
        "english": lambda text: isinstance(text, English),
    }
    style = Markup((folder / "dossier.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file
    kind = texts.say("page.kind")
    return environment.get_template("dossier.html").render(page=page, style=style, language=texts.language, kind=kind)
