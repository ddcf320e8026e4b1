"""Warnings about a valid configuration: claims that cannot hold, and bounds that end a publication early."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from models.dp.account import RULE_TEXTS, loss
from models.dp.budget import Charge
from models.dp.spending import Spending
from stream.config.settings import Completion, Publication, Settings
from stream.release.gate import releases_left
from stream.values.duration import UNITS

YEAR = 365 * UNITS["d"]
"""Nanoseconds."""


def warnings(settings: Settings) -> list[str]:
    """Return one line for each warning; an empty list does not prove that all is well."""
    checks = (
        *(_none, _daemon, _voided, _releases, _windows, _cohorts, _employees, _held, _mechanism_warnings),
        *(_unused_archive, _engine_files),
    )
    return [warning for check in checks for warning in check(settings)]


def notes(settings: Settings) -> list[str]:
    """Return what holds of any such configuration and is easily overlooked."""
    return [*_rename(settings), *_values(settings), *_memory(settings), *_archive(settings)]


STATE_BYTES, RELEASE_BYTES, DISTINCT_RELEASE_BYTES = 119, 490, 1_030
"""Memory of a whole coordinator for each event.

The first is taken for ever, the second while a release shows all events (issue 40), the third in its place
where nearly every case has a trace of its own. For the third, compare the peaks of two runs, with 5,000 and
20,000 cases a cut:

    python -m benchmarks.cuts --increments --cuts 4 --cases 20000

Their difference is 670 bytes an event for cohorts, and `tlkc` took 1,030 on the same log. The fold alone
takes 60 to 75 bytes for an event without attributes (`python -m benchmarks.years_in_memory --kept`).
"""

GIBIBYTE = 1 << 30


def _showing_all(settings: Settings) -> list[Publication]:
    """Return the publications whose releases show cases of earlier releases again."""
    return [publication for publication in settings.publication if publication.cases == "all"]


def _memory(settings: Settings) -> Iterator[str]:
    """Note what publications cost that show everything again, and from which size an engine must build them."""
    showing_all = _showing_all(settings)
    names = ", ".join(repr(publication.name) for publication in showing_all)
    if not names:
        return
    may_forget = all(publication.build_mechanism.keeps_cases for publication in showing_all)
    instead = '. With cases = "completed" released cases are forgotten (docs/series.md)' if may_forget else ""
    million = 1_000_000
    for_release = 4 * GIBIBYTE // DISTINCT_RELEASE_BYTES // million
    for_state = 4 * GIBIBYTE // STATE_BYTES // million
    yield (
        f"releases of {names} show earlier cases again, so every event stays in memory until process.retention: a "
        f"million events a year add {STATE_BYTES} MB each year, and take {RELEASE_BYTES} MB while a release is made, "
        f"or {DISTINCT_RELEASE_BYTES:,} MB if nearly every case has a trace of its own. Then with 4 GiB an engine must "
        f"build releases of more than {for_release} million events ([engine], docs/scale.md). The state itself ends at "
        f"{for_state} million{instead}"
    )


ARCHIVE_BYTES = 15
"""Bytes on disk of an archived event without attributes: weekly drops of 200,000 events a year in cases of ten events
(`python -m benchmarks.years_in_memory --archive --events 200000`). More events a day take less."""


def _archive(settings: Settings) -> Iterator[str]:
    """Note what the archive costs, and that it may be in the clear."""
    kept = settings.process.archive
    if kept is None:
        return
    if isinstance(kept, str):
        cost = f"a million events a year add about {ARCHIVE_BYTES} MB each year"
    else:
        megabytes = ARCHIVE_BYTES * kept / YEAR
        cost = f"a million events a year take about {megabytes:.3g} MB"
    yield f"process.archive: {cost} of disk, without attributes; events of forgotten cases stay personal data there"
    if settings.checkpoint_key is None:
        yield (
            "process.archive: without checkpoint_key its segments are not encrypted: anybody who can read the "
            "operator's folder or the mirror reads the events under their pseudonyms"
        )


PLAIN_ENGINE_FILES = (
    "checkpoint_key does not encrypt the working files of the engine that builds the releases: events of the fold and "
    "the cases of each cut are in the operator's folder in the clear while the process runs, and those of a cut until "
    "the next start if it is killed; put the folder on an encrypted disk, or remove [engine]"
)


def _engine_files(settings: Settings) -> Iterator[str]:
    """Warn that an engine writes events to disk in the clear though a key is configured."""
    if settings.engine.kind != "embedded" and settings.checkpoint_key is not None:
        yield PLAIN_ENGINE_FILES


def _unused_archive(settings: Settings) -> Iterator[str]:
    """Warn of an archive that gets no event."""
    names = ", ".join(repr(publication.name) for publication in _showing_all(settings))
    if settings.process.archive is not None and names:
        yield (
            f"process.archive: nothing is archived, since releases of {names} show earlier cases again and every event "
            'stays in the state; remove the key, or give these publications cases = "completed"'
        )


def _values(settings: Settings) -> Iterator[str]:
    """Warn that values of a record may become part of an activity, and so be released."""
    for number, mapping in enumerate(settings.source.mapping if settings.source else (), 1):
        if paths := mapping.values:
            yield (
                f"source.mapping {number}: the activity holds the value of {', '.join(paths)}: it appears in releases, "
                "whatever it is; take only columns with few values that reveal nothing about a person"
            )


def _rename(settings: Settings) -> Iterator[str]:
    """Note that a publication's name is its series."""
    if settings.publication:
        yield (
            "a publication that is renamed begins a new series from release 1: no audit compares it with the releases "
            "under the former name, though the same people may hold both"
        )
    spends = [publication for publication in settings.publication if publication.spends]
    limit = settings.process.budget.max_epsilon
    if spends:
        rule = "set process.budget.max_epsilon to prevent that: it counts what was spent under former names too"
        if limit is not None:
            rule = f"process.budget.max_epsilon = {float(limit):g} counts what was spent under former names too"
        yield f"a renamed publication that spends epsilon gets a fresh max_epsilon; {rule}"


def _none(settings: Settings) -> Iterator[str]:
    """Warn that nothing will be released."""
    if not settings.publication:
        yield "no [[publication]]: nothing will be released"


def _daemon(settings: Settings) -> Iterator[str]:
    """Warn of keys that need the whole log where a [source] makes the file a daemon's."""
    if settings.source is None:
        return
    keys = ["process.completion.log_end"] if settings.process.completion.log_end else []
    for publication in settings.publication:
        keys += [f"publication {publication.name!r}: window.{key}" for key in publication.build_window.replay_only]
    for key in keys:
        yield f"{key} needs the whole log: replay takes this file, the daemon of its [source] refuses to start"


def _voided(settings: Settings) -> Iterator[str]:
    """Warn of releases of the same cases that void a dp promise, or add to its loss."""
    for first, second in combinations(settings.publication, 2):
        private, other = (first, second) if first.spends else (second, first)
        if private.spends and not other.spends:
            yield (
                f"publication {other.name!r} ({other.build_mechanism.kind}) releases the same cases without such a "
                f"promise: the dp claim of {private.name!r} holds only for recipients who never see it"
            )
        elif private.spends and settings.process.budget.max_epsilon is None:
            yield (
                f"publications {first.name!r} and {second.name!r} both spend epsilon: their losses add up; "
                "cap them together with process.budget"
            )


def _releases(settings: Settings) -> Iterator[str]:
    """Warn how many releases the budget of each publication allows, by the rules of the gate."""
    for publication in settings.publication:
        if publication.cases == "completed":
            yield from _once(settings, publication)
        spec = settings.spec(publication)
        release, place = spec.release_charge, f"publication {publication.name!r}"
        if release.charge == Charge():
            continue
        nothing = Spending()
        number = releases_left(spec.gate, release, nothing, nothing, spec.process_limits, spec.accounting)
        if publication.cases == "completed":
            if number == 0:
                yield f"{place}: its bounds are below one charge: no release will come"
            continue
        limits_itself = any(bound is not None for bound in (spec.gate.max_epsilon, spec.gate.max_tpl))
        if number is None or not (limits_itself or spec.max_epsilon is not None):
            yield f"{place}: no max_epsilon: its privacy loss grows without a limit"
            continue
        together, rule = loss(spec.accounting, nothing.with_release(release, number), spec.gate.max_delta)
        costs = f"together they cost epsilon {float(together.epsilon):.3g}, delta {float(together.delta):.3g}"
        if limits_itself:
            yield f"{place}: its budget allows {number} releases, then none; {costs} ({RULE_TEXTS[rule]})"
        else:
            yield (
                f"{place}: no max_epsilon: process.budget allows {number} releases if no other publication spends, "
                f"then none; {costs} ({RULE_TEXTS[rule]})"
            )


def _once(settings: Settings, publication: Publication) -> Iterator[str]:
    """Warn of the assumptions of a series in which each case counts once."""
    place = f"publication {publication.name!r}"
    if settings.process.completion == Completion():
        yield (
            f'{place}: cases = "completed", and no rule of process.completion ever makes a case complete: unless '
            "events mark the end of their case, every release will be empty"
        )
    if settings.process.person is None and not publication.waits:
        yield (
            f"{place}: no attribute has the role person, so nobody checks that a person has at most cases_per_person "
            "cases in the whole series: who has more is covered in parts only"
        )
    other_names = [repr(other.name) for other in _showing_all(settings)]
    if other_names and settings.process.retention is None:
        yield (
            f"{place}: released cases stay in the state, since {', '.join(other_names)} of the same process can show "
            "them again; process.retention takes them away"
        )


def _windows(settings: Settings) -> Iterator[str]:
    """Warn of windows whose completed cases never come, or that a replay cannot count."""
    for publication in settings.publication:
        is_cohorts = publication.build_mechanism.kind == "tlkc-cohorts"  # `_cohorts` says so of these
        counts_completed = publication.build_window.completed_cases and not is_cohorts
        if counts_completed and settings.process.completion == Completion():
            yield (
                f"publication {publication.name!r}: its window counts completed cases, and no rule of "
                "process.completion ever makes a case complete: unless events mark the end of their case, "
                "completed_cases is never reached"
            )
        if publication.counted_from_start and publication.start is None:
            yield (
                f"publication {publication.name!r}: no start: a daemon counts its windows from when it first sees the "
                "publication, a replay refuses"
            )


def _cohorts(settings: Settings) -> Iterator[str]:
    """Warn of settings under which cohorts stay empty or shrink."""
    process = settings.process
    for publication in settings.publication:
        if publication.build_mechanism.kind != "tlkc-cohorts":
            continue
        if process.completion == Completion() and not publication.waits:  # `_once` says so
            yield (
                f"publication {publication.name!r} releases completed cases, and no rule of process.completion ever "
                "makes a case complete: unless events mark the end of their case, nothing will be released"
            )
        if process.retention is not None and not publication.waits:
            yield (
                f"publication {publication.name!r}: process.retention takes published cases out of later releases: "
                "their cohorts can fall below K"
            )
        if process.retention is not None and publication.release == "increment":
            yield (
                f"publication {publication.name!r}: each time process.retention removes published cases, a new set of "
                "increments begins, whose first release holds everything; without retention only erasures begin one"
            )


def _employees(settings: Settings) -> Iterator[str]:
    """Warn that releases name employees."""
    for publication in settings.publication:
        if publication.carries_resources and publication.resources != "roles":
            leaves = "the name of each employee" if settings.process.raw_resources else "a pseudonym for each employee"
            yield (
                f"publication {publication.name!r} releases {leaves}, the same in all releases: who recognises one "
                'event of a person knows them all; resources = "roles" shows roles of at least K resources instead'
            )


def _held(settings: Settings) -> Iterator[str]:
    """Warn what an approval costs that comes late."""
    for publication in settings.publication:
        if publication.approval == "required" and publication.cases == "completed":
            lost = (
                'while a release is held, each later cut is refused (hold = "block")'
                if publication.hold == "block"
                else 'a held release that a newer one replaces (hold = "supersede")'
            )
            yield (
                f"publication {publication.name!r}: {lost}, and the cases that completed in it are lost: with "
                'cases = "completed" no later release shows them'
            )
        shared = [
            other.name
            for other in settings.publication
            if other is not publication
            and other.audience == publication.audience
            and other.build_mechanism.shares_memory
        ]
        if publication.approval == "required" and publication.build_mechanism.shares_memory and shared:
            yield (
                f"publication {publication.name!r} shares its cohorts with {', '.join(shared)}: what these release "
                "while one is held for approval makes that one impossible to approve"
            )


def _mechanism_warnings(settings: Settings) -> Iterator[str]:
    """Pass on the warnings of each mechanism about its own settings."""
    for publication in settings.publication:
        table = publication.model_dump(mode="json")
        for warning in publication.build_mechanism.check(table):
            yield f"publication {publication.name!r}: {warning}"
