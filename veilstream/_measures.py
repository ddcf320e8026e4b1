"""Measures of releases, of their privacy and of their utility: attack, leakage, risk, utility and assess."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from models.errors import InputError
from veilstream._arguments import checked, members
from veilstream._logs import Log, Names, attributes, given_log, listed
from veilstream._results import Measurement, Release, log_of
from veilstream._wording import python_words

if TYPE_CHECKING:
    from models.attacks.correspondence import AttackedPair, Method
    from models.attacks.search import Minimum
    from models.eventlog import EventLog
    from models.knowledge import Structure, Unit
    from models.risk.uniqueness import Points, Uniqueness


@python_words()
@checked
def attack(
    earlier: Log | Release,
    later: Log | Release,
    *further: Log | Release,
    sensitive: Names = (),
    bk_length: int = 2,
    n: int | Sequence[int] = (0, 1),
    method: Method = "exact",
    minimum: Minimum = "realisable",
    bk: Sequence[Names] = (),
    joint: bool = False,
    foreign: bool = False,
    attribute: Literal["ac", "re"] = "ac",
    link: Names = (),
    T: Unit = "minutes",
    taxonomy: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
) -> Measurement:
    """Count the cases that somebody who holds several releases can exclude by comparing them (F-, C- and B-attack).

    Parameters
    ----------
    earlier, later, *further
        Releases in order of publication: logs of any accepted kind, or results of `anonymize`.
    sensitive
        Sensitive attributes of a case. Records of different values are never linked.
    bk_length
        Items that the adversary knows, at most.
    n
        Events that may have been removed from a case, at most.
    method
        exact, sound, paper or reference.
    minimum
        realisable (least value >= 1), all or common.
    bk
        Named background knowledge, such as [["Triage", "Discharge"]], whose values are reported as well.
    joint
        Count for it only links that contain it.
    foreign
        Whether background knowledge may hold an activity that no release shows.
    attribute
        Items that background knowledge is about: ac (activities) or re (resources).
    link
        Further attributes of the releases to link on: ac, re, time.
    T
        Accuracy of relative times that are linked on: seconds, minutes, hours or days.
    taxonomy
        Generalization of each activity.
    columns, timezone, time_format
        As for `read_log`, about DataFrames.

    Returns
    -------
    Measurement
        One row for each pair of releases and n: the least number of cases that match what is known (ka1, ka2), and what
        each attack leaves of it (fa, ca, ba). More than two releases have a row for the whole series.

    Raises
    ------
    InputError
        An unknown option, or releases that cannot be compared.

    Examples
    --------
    >>> from veilstream import anonymize, attack, read_log
    >>> log = read_log("examples/hospital.xes.gz")
    >>> first = log[log["time:timestamp"] < "2025-04-01"]
    >>> result = attack(anonymize(first, K=20, C=1), anonymize(log, K=20, C=1))
    >>> list(result.to_dataframe().columns)[:5]
    ['releases', 'n', 'linker', 'ka1', 'ka2']
    """
    from models.attacks.correspondence import LEGEND, AttackQuestion, attack_pairs, missing_linkers
    from models.attacks.series import document

    question = AttackQuestion(
        bk_length=bk_length,
        n=members(n),
        method=method,
        minimum=minimum,
        bk=[listed(items) for items in bk],
        joint=joint,
        foreign=foreign,
        attribute=attribute,
        link=listed(link),
        T=T,
        taxonomy=taxonomy,
    )
    releases = []
    for number, release in enumerate((earlier, later, *further), start=1):
        source = given_log(log_of(release), columns, timezone, time_format, f"release {number}")
        releases.append(source.log)
    logs = question.simple_logs(releases, attributes(sensitive))
    pairs = attack_pairs(question, logs)
    if len(logs) == 2:
        body = pairs[0].answer.json()
    else:
        body = document(question, logs, pairs)
    return Measurement(
        f"attack on {len(releases)} releases",
        body,
        rows=_attack_rows(pairs, body),
        notes=[*missing_linkers(pairs), LEGEND],
    )


_SHOWN_OF_PAIR = ("n", "linker", "ka1", "ka2", "fa", "ca", "ba", "fc", "cc", "bc")


def _attack_rows(pairs: Sequence[AttackedPair], body: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for pair in pairs:
        answer = pair.answer.json()
        between = f"{pair.earlier + 1}, {pair.later + 1}"
        for row in answer["results"]:
            figures = {name: row[name] for name in _SHOWN_OF_PAIR}
            rows.append({"releases": between, **figures})
        candidates = answer.get("candidates", ())
        rows += [{"releases": between, **candidate, "bk": ", ".join(candidate["bk"])} for candidate in candidates]
    if "series" in body:
        over_all = f"1..{body['series']['releases']}"
        for row in body["series"]["results"]:
            figures = {name: row[name] for name in ("n", "fa", "ca", "ba")}
            rows.append({"releases": over_all, **figures})
    return rows


@python_words()
@checked
def leakage(
    log: Log | Release,
    *,
    scenario: Literal["certain", "uncertain"] = "certain",
    window: int | Sequence[int] = 1,
    epsilon: float | str | Sequence[float | str] = 0.01,
    releases: int = 0,
    split: float = 0.5,
    states: str = "prefix",
    method: Literal["definition", "reference"] = "definition",
    attribute: Names = (),
    least_cases: int = 1,
    complete_only: bool = False,
    end_activities: Names = (),
    newest: bool = False,
    delta_dp: float = 0.0,
    bound: float | str | None = None,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
) -> Measurement:
    """Compute the leakage of all noised releases of a growing log together, in nats (BPL, FPL and TPL).

    Parameters
    ----------
    log
        The source log; its releases are simulated.
    scenario
        certain: exactly `window` events of a case and release; uncertain: up to.
    window
        Events of a case and release, or several numbers.
    epsilon
        Of every release, or one of each (nats).
    releases
        Most releases; 0: 5, or as many as there are values of epsilon.
    split
        Part of the events that fixes the first release.
    states
        prefix, last, suffix-K, set or multiset.
    method
        definition, or reference (the authors' program).
    attribute
        Event attributes as further chains.
    least_cases
        Transitions of fewer cases are not a correlation.
    complete_only
        Whether only complete traces correlate.
    end_activities
        Activities that complete a case; by default the end of the log does.
    newest
        Whether every step uses the newest automaton.
    delta_dp
        Delta of each release; above 0 only composition holds.
    bound
        Bound on TPL. `broken` states whether it is exceeded, and the document has budgets that keep it.
    seed
        Seed of the simulation.
    columns, timezone, time_format
        As for `read_log`, about DataFrames.

    Returns
    -------
    Measurement
        One row for each window and release.

    Raises
    ------
    InputError
        A value that no simulation has, or an attribute that the log does not have.

    Examples
    --------
    >>> from veilstream import leakage
    >>> result = leakage("examples/hospital.xes.gz", epsilon=0.1, releases=3, bound=1)
    >>> result.to_dataframe()[["window", "release"]].values.tolist(), result.broken
    ([[1, 1], [1, 2], [1, 3]], ())
    """
    from models.leakage.experiment import run
    from models.leakage.report import WHAT_E_IS, broken_bound, budget_sentence, document, simulations, terms

    delta, alpha = terms(delta_dp, bound, method)
    settings = simulations(
        members(window),
        members(epsilon),
        scenario=scenario,
        releases=releases,
        split=split,
        states=states,
        method=method,
        attributes=listed(attribute),
        least_cases=least_cases,
        complete_only=complete_only,
        end_activities=listed(end_activities),
        newest=newest,
        seed=seed,
    )
    events = given_log(log_of(log), columns, timezone, time_format).log
    outcomes = [run(events, each) for each in settings]
    bodies = [document(each, outcome, delta, alpha) for each, outcome in zip(settings, outcomes, strict=True)]
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for body in bodies:
        rows += [
            {"window": body["window"], "epsilon": spent, **row}
            for spent, row in zip(body["epsilon"], body["releases"], strict=True)
        ]
        notes.append(f"window {body['window']}: max TPL {body['max_tpl']:.6f}, sum of e {body['sum_epsilon']:.6f}")
        if "bound" in body:
            notes.append(budget_sentence(body["bound"]))
    broken = broken_bound(settings, outcomes, delta, alpha)
    return Measurement(
        f"temporal privacy leakage, {scenario}, states {states}, method {method}",
        bodies[0] if len(bodies) == 1 else {"windows": bodies},
        rows=rows,
        notes=[*notes, WHAT_E_IS],
        broken=[] if broken is None else [broken],
    )


@python_words()
@checked
def risk(
    log: Log | Release,
    *,
    projection: Names = "all",
    resolution: Unit = "seconds",
    points: Points | Sequence[Points] = ("10%", "50%", "90%"),
    draws: int = 20,
    semantics: Literal["joint", "per-column"] = "joint",
    unit: Literal["case", "resource"] = "case",
    adversary: Literal["random", "greedy"] = "random",
    case_attributes: Names = (),
    event_attributes: Names = (),
    population: int = 0,
    sensitive: Names = (),
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
) -> Measurement:
    """Measure how many cases a little knowledge singles out, in the log or in a population.

    Parameters
    ----------
    log
        The log.
    projection
        The adversary's knowledge of an event: A to F, several of them, or all (docs/glossary.md).
    resolution
        Times are floored to seconds, minutes, hours or days.
    points
        How many points of a case are known: numbers, shares such as "10%", or "all".
    draws
        Random draws that are averaged.
    semantics
        joint, or per-column (the paper's program).
    unit
        Unit that is singled out, a person: case or resource.
    adversary
        random points, or greedy (those that single out fastest).
    case_attributes, event_attributes
        Further knowledge; by default the attributes of the log that may identify.
    population
        Estimate uniqueness among so many persons; 0: no estimate.
    sensitive
        Attributes that are never known.
    seed
        Seed of the draws.
    columns, timezone, time_format
        As for `read_log`, about DataFrames.

    Returns
    -------
    Measurement
        One row for each projection and amount of knowledge: the share of cases that are unique.

    Raises
    ------
    InputError
        An unknown option, or an attribute that the log does not have.

    Examples
    --------
    >>> from veilstream import risk
    >>> result = risk("examples/hospital.xes.gz", projection="E", points=[1, "all"])
    >>> result.to_dataframe()["m"].tolist()
    [1, '100%']
    """
    from models.risk.table import (
        document,
        estimate_population,
        known_event_attributes,
        measure_each,
        questions,
        sentences,
        with_time_note,
    )
    from models.risk.uniqueness import trace_uniqueness

    projections, amounts = questions(listed(projection), members(points))
    source = given_log(log_of(log), columns, timezone, time_format)
    resource_column = source.names.resource if source.names else None
    known_of_events = known_event_attributes(listed(event_attributes), resource_column)

    def measure(name: Any) -> Uniqueness:
        return trace_uniqueness(
            source.log,
            name,
            amounts,
            resolution=resolution,
            draws=draws,
            seed=seed,
            semantics=semantics,
            unit=unit,
            adversary=adversary,
            sensitive=attributes(sensitive),
            case_attributes=attributes(case_attributes) or None,
            event_attributes=known_of_events or None,
        )

    measured, seconds = measure_each(projections, measure, time.process_time)
    measured = with_time_note(measured, source.time_basis)
    estimate = estimate_population(source.log, measured[0], population, seed) if population else None
    return Measurement(
        f"share of {measured[0].cases} {unit}s that are unique ({semantics}, {resolution})",
        document(measured, seconds, resolution, estimate),
        rows=_risk_rows(measured),
        notes=sentences(measured, estimate),
    )


def _risk_rows(measured: Sequence[Uniqueness]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for each in measured:
        about: dict[str, Any] = {"projection": each.projection, "status": each.status}
        for point in each.points:
            about_point = {"m": point.m, "unique_mean": point.unique_mean, "unique_sd": point.unique_sd}
            rows.append({**about, **about_point, "attributes_alone": each.case_uniqueness})
        if not each.points:
            rows.append({**about, "attributes_alone": each.case_uniqueness})
    return rows


@python_words()
@checked
def utility(
    original: Log | Release,
    released: Log | Release,
    *,
    perspective: Names = "activity",
    T: Unit = "minutes",
    fitness: Literal["alignment", "replay", "none"] = "alignment",
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
) -> Measurement:
    """Compare a release with its original: variants, graphs, times, bottlenecks, and the discovered model.

    Parameters
    ----------
    original, released
        The logs, or for `released` the result of `anonymize`.
    perspective
        Of data utility: activity, resource, relative_time.
    T
        Accuracy of relative times: seconds, minutes, hours or days.
    fitness
        Of the discovered model: alignment, replay (fast) or none (no model is discovered).
    columns, timezone, time_format
        As for `read_log`, about DataFrames.

    Returns
    -------
    Measurement
        One row for each figure.

    Raises
    ------
    InputError
        An unknown option, a perspective that the release does not show, or a release in place of the
        original.

    Examples
    --------
    >>> from veilstream import anonymize, read_log, utility
    >>> log = read_log("examples/hospital.xes.gz")
    >>> result = utility(log, anonymize(log, K=20, C=1), fitness="none")
    >>> 0 < result.document["data_utility"] <= 1
    True
    """
    from models.utility.comparison import AGREEMENTS, compare, refuse_swapped, sentences

    before = given_log(log_of(original), columns, timezone, time_format, "the original")
    after = given_log(log_of(released), columns, timezone, time_format, "the release")
    refuse_swapped(before.time_basis, after.time_basis)
    body = compare(before.log, after.log, tuple(listed(perspective)), T, fitness)
    rows: list[dict[str, Any]] = [{"measure": "data utility", "value": body["data_utility"]}]
    for name in AGREEMENTS:
        figures = body[name] or {}
        rows += [{"measure": f"{name} {key}", "value": figures.get(key)} for key in ("fitness", "precision", "f1")]
    for name in ("emd_frequency", "mae_frequency", "emd_time_months", "mae_time_months"):
        rows.append({"measure": name, "value": body[name]})
    return Measurement("a release compared with its original", body, rows=rows, notes=sentences(body))


@python_words()
@checked
def assess(
    *releases: Log | Release,
    original: Log,
    control: Log | None = None,
    mechanism: str | Mapping[str, Any] | None = None,
    m: int | None = None,
    knowledge: Structure | None = None,
    attribute: Literal["ac", "re", "ar"] | None = None,
    T: Unit | None = None,
    case_attributes: Names = (),
    start: Unit | None = None,
    sensitive: Names = (),
    targets: int | None = None,
    half_width: float = 0.03,
    divisions: int = 2,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
) -> Measurement:
    """Attack a release: singling out, linkability, inference, membership, reconstruction.

    Parameters
    ----------
    *releases
        Releases in order of publication: logs of any accepted kind, also of another program, or results of `anonymize`.
        Several are attacked twice, the newest alone and all together.
    original
        The log that the releases were made from.
    control
        Cases of the same process that did not enter the releases. Without it nothing is called a leak.
    mechanism
        Releases two random halves of `original` here; each is the control of the other's release. The name of a
        mechanism, or a mapping with its parameters: {"kind": "tlkc", "K": 20, "L": 2}. Then no releases and no control
        are given.
    m, knowledge, attribute, T, case_attributes
        The attacker's knowledge: number of items, their structure (set, mult, seq, rel), the kind of an item, the
        accuracy of relative times, and attributes of a case. By default the attacker of the release's promise, else one
        who knows three activities in order. A stronger attacker is always added.
    start
        Unit of time in which the attacker knows when a case began. The release must show dates.
    sensitive
        Case attributes that are guessed.
    targets
        Cases attacked, at most all; by default as many as `half_width` needs.
    half_width
        Half-width of the 95 % interval of a rate near one half; .03 needs 1,068 targets.
    divisions
        With `mechanism`: random halvings. More of them give narrower intervals.
    seed
        Seed of targets and ties.
    columns, timezone, time_format
        As for `read_log`, about DataFrames.

    Returns
    -------
    Measurement
        One row for each attack of each attacker: rate, rate of the control, risk with its 95 % interval, the least risk
        that would have been seen, and the result. Its figures read the original: they are not for recipients.

    Raises
    ------
    InputError
        Logs without a common activity, an unknown option, or a control that shares cases with the original.

    Examples
    --------
    >>> from veilstream import anonymize, assess, read_log
    >>> log = read_log("examples/hospital.xes.gz")
    >>> is_early = log["time:timestamp"] < "2025-04-01"
    >>> outside = log[~log["case:concept:name"].isin(log[is_early]["case:concept:name"])]
    >>> inside = log[~log["case:concept:name"].isin(outside["case:concept:name"])]
    >>> result = assess(anonymize(inside, K=20, C=1), original=inside, control=outside, targets=100)
    >>> sorted(set(result.to_dataframe()["attacker"]))
    ['promised', 'stronger']
    """
    from models.disclosure.assessment import Attackers
    from stream.operator.assessment import (
        READING,
        AssessedRelease,
        LinkedPair,
        assess_mechanism_of,
        assess_releases,
        declared_profile,
        document,
        linked_pairs,
        profiles_of,
        warnings,
    )
    from stream.release.single import mechanism_of

    declared = declared_profile(m, knowledge, attribute, T, listed(case_attributes), start)
    attackers = Attackers((), tuple(attributes(sensitive)), targets, half_width, seed)
    source = given_log(original, columns, timezone, time_format, "the original").log
    attacked_releases = []
    pairs: list[LinkedPair] = []
    if mechanism is not None:
        if releases or control is not None:
            raise InputError("mechanism makes the release and the control itself: leave out releases and control")
        parameters = {"kind": mechanism} if isinstance(mechanism, str) else dict(mechanism)
        made_by = mechanism_of(str(parameters.pop("kind", "")), parameters)
        made, assessments = assess_mechanism_of(
            made_by, source, attackers, declared=declared, divisions=divisions, on_step=lambda _: None
        )
        attacked_releases.append(made)
    elif not releases:
        raise InputError("give the releases to assess, or make one here with mechanism=...")
    else:
        for number, release in enumerate(releases, start=1):
            log = given_log(log_of(release), columns, timezone, time_format, f"release {number}").log
            manifest = release.document if isinstance(release, Release) else None
            attacked_releases.append(AssessedRelease(f"release {number}", log, manifest))
        outside: EventLog | None = None
        if control is not None:
            outside = given_log(control, columns, timezone, time_format, "the control").log
        attackers = replace(attackers, profiles=profiles_of(declared, attacked_releases, source))
        assessments = assess_releases(attacked_releases, source, outside, attackers, on_step=lambda _: None)
        pairs = linked_pairs(attacked_releases, attackers)
    rows = []
    for attacked, assessment in assessments.items():
        for result in assessment.results:
            attacker = {"attacked": attacked, "attacker": result.profile.name}
            rows += [attacker | _figures_of(measure.json()) for measure in result.measures]
    notes = [*(f"warning: {warning}" for warning in warnings(assessments)), *READING]
    title = "attacks on a release"
    if len(attacked_releases) > 1:
        title = f"attacks on {len(attacked_releases)} releases"
    return Measurement(title, document(attacked_releases, assessments, pairs), rows=rows, notes=notes)


_SHOWN_OF_ATTACK = ("attack", "how", "targets", "rate", "control", "risk", "low", "high", "power", "result")


def _figures_of(measure: Mapping[str, Any]) -> dict[str, Any]:
    return {name: measure.get(name) for name in _SHOWN_OF_ATTACK}
