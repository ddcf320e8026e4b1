"""Releases: one of a log (anonymize, synthesize), and a series as the daemon would have published it (replay)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from models.errors import InputError
from veilstream._arguments import checked
from veilstream._logs import GivenLog, Log, Names, attributes, given_log
from veilstream._results import CUT, Release, ReleaseSeries, ResultFolder
from veilstream._wording import python_words

if TYPE_CHECKING:
    from connectors.store.base import Store
    from models.eventlog import EventLog
    from models.knowledge import Unit
    from stream.config.settings import Settings
    from stream.release.contract import Mechanism
    from stream.run.replay import ReplayOutcome


@python_words()
@checked
def anonymize(
    log: Log,
    *,
    mechanism: str = "tlkc",
    sensitive: Names = (),
    release_attributes: Names = (),
    keep_resources: bool = False,
    knowledge: Literal["set", "mult", "seq", "rel"] | None = None,
    attribute: Literal["ac", "re", "ar"] | None = None,
    T: Unit | None = None,
    L: int | None = None,
    K: int | None = None,
    C: float | str | None = None,
    suppression: Literal["greedy", "pruned", "exact", "local"] | None = None,
    algorithm: Literal[1, 2] | None = None,
    theta: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    bins: Mapping[str, Sequence[float]] | None = None,
    variant: Literal["sampling", "filtering", "oversampling"] | None = None,
    delta: float | str | None = None,
    prior: str | None = None,
    epsilon: float | str | None = None,
    delta_dp: float | str | None = None,
    list_violations: bool = False,
    seed: int | None = None,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
    **parameters: Any,
) -> Release:
    """Anonymize one log, once, without a ledger.

    Cases of the release have fresh ids and come in random order, and its rows are numbered again: nothing links them
    with those of the source. Attributes leave only if `release_attributes` names them, and resources as pseudonyms.
    A second release of the same cases can give away what each hides alone: `attack` measures it, `replay` bounds it.

    Parameters
    ----------
    log
        A DataFrame with one row per event, an EventLog of pm4py or of `models`, or the path of a file. It stays as it
        is.
    mechanism
        tlkc, tlkc-cohorts, lcs-start, baseline-1, baseline-2, pretsa, amun, dp-log, dp-variants, dp-synthetic or
        identity.
    sensitive
        Sensitive attributes of a case.
    release_attributes
        Attributes that leave (sensitive ones as classes).
    keep_resources
        Release the names of resources.
    knowledge
        Structure of the adversary's knowledge of items: which (set), how often (mult), their order (seq), order and
        times (rel).
    attribute
        An item is an activity (ac), a resource (re) or both (ar).
    T
        Accuracy of times: seconds, minutes, hours or days.
    L, K, C
        The adversary knows at most L items; at least K cases match them, of which at most the share C has one
        sensitive value.
    suppression
        greedy, pruned, exact or local.
    algorithm, theta, alpha, beta
        Of greedy and pruned.
    bins
        Upper edges of the classes of numeric sensitive attributes: {"age": [40, 60]}.
    variant, delta, prior
        Of amun.
    epsilon
        Of the dp kinds: privacy loss of the release (smaller is stricter).
    delta_dp
        Probability with which the promise of epsilon may fail.
    list_violations
        Whether the document lists what breaks the promise before anything is removed (tlkc).
    seed
        Of the search of `local`. Released noise never takes a seed.
    columns, timezone, time_format
        As for `read_log`, about DataFrames.
    **parameters
        Any other parameter of the mechanism, such as effort=300 (docs/configuration.md).

    Returns
    -------
    Release
        The released log in the form of the given one, and its promise.

    Raises
    ------
    InputError
        An unknown mechanism or parameter, one that is missing, a log that cannot be read, or one of fewer than K cases.
    BoundError
        Nothing can be released under these bounds.

    Examples
    --------
    >>> release = anonymize("examples/hospital.xes.gz", sensitive="diagnosis", L=2, K=20, C=0.5)
    >>> release.promise["to_whom"], release.log["case:concept:name"].nunique() <= 2041
    ('released cases', True)
    """
    settings = {
        "knowledge": knowledge,
        "attribute": attribute,
        "T": T,
        "L": L,
        "K": K,
        "C": C,
        "suppression": suppression,
        "algorithm": algorithm,
        "theta": theta,
        "alpha": alpha,
        "beta": beta,
        "bins": None if bins is None else {name: list(edges) for name, edges in bins.items()},
        "variant": variant,
        "delta": delta,
        "prior": prior,
        "epsilon": epsilon,
        "delta_dp": delta_dp,
        "seed": seed,
        **parameters,
    }
    from stream.release.single import mechanism_of

    chosen = mechanism_of(mechanism, settings)
    source = given_log(log, columns, timezone, time_format)
    return _released(
        source,
        chosen,
        sensitive=attributes(sensitive),
        released=attributes(release_attributes),
        keep_resources=keep_resources,
        list_violations=list_violations,
    )


@python_words()
@checked
def synthesize(
    log: Log,
    *,
    mechanism: Literal["dp-synthetic", "dp-log", "dp-variants"] = "dp-synthetic",
    epsilon: float | str | None = None,
    delta_dp: float | str | None = None,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
    **parameters: Any,
) -> Release:
    """Draw a log with differential privacy: its cases are not cases of the source.

    Noise comes from a cryptographic source and takes no seed. Each call spends epsilon and delta_dp again, and keeps no
    account of it; a series with a budget is a matter of `replay`.

    Parameters
    ----------
    log
        A DataFrame with one row per event, an EventLog of pm4py or of `models`, or the path of a file.
    mechanism
        dp-synthetic (a model of the log with times), dp-log (variants and times), dp-variants (variants).
    epsilon
        Privacy loss of the release (smaller is stricter).
    delta_dp
        Probability with which the promise of epsilon may fail.
    columns, timezone, time_format
        As for `read_log`, about DataFrames.
    **parameters
        Any other parameter of the mechanism, such as activities=["A", "B"] (docs/configuration.md).

    Returns
    -------
    Release
        The drawn log in the form of the given one, and its promise.

    Raises
    ------
    InputError
        Another mechanism, or a parameter that is unknown or missing.

    Examples
    --------
    >>> release = synthesize("examples/hospital.xes.gz", mechanism="dp-variants", epsilon=1, delta_dp=1e-6)
    >>> {"guaranteed", "to_whom", "against_whom", "not_guaranteed", "intake"} <= set(release.promise)
    True
    """
    from stream.release.single import mechanism_of

    drawn = ("dp-synthetic", "dp-log", "dp-variants")
    if mechanism not in drawn:
        raise InputError(f"mechanism {mechanism!r} is not one of {', '.join(drawn)}; others are given to anonymize")
    chosen = mechanism_of(mechanism, {"epsilon": epsilon, "delta_dp": delta_dp, **parameters})
    source = given_log(log, columns, timezone, time_format)
    return _released(source, chosen)


def _released(
    source: GivenLog,
    mechanism: Mechanism,
    *,
    sensitive: Sequence[str] = (),
    released: Sequence[str] = (),
    keep_resources: bool = False,
    list_violations: bool = False,
) -> Release:
    """Build one release, and keep its log in the form of the given one."""
    from stream.release import single
    from stream.release.manifest import reading_notes
    from stream.release.public_files import privacy_header, public_log

    exposure = single.exposure_of(source.log, sensitive, released, mechanism)
    problem = single.tlkc_problem(mechanism, exposure)
    if list_violations and problem is None:
        raise InputError(f"list_violations is for mechanism tlkc, not {mechanism.kind}")
    build, seconds = single.release_once(mechanism, exposure, keep_resources=keep_resources, released=released)
    document = dict(single.summary(mechanism, exposure, build, seconds))
    if list_violations and problem is not None:
        document["violations"] = single.violation_documents(problem)
    log = public_log(build)
    warnings = [f"warning: {warning}" for warning in single.warnings_of(document)]
    notes = [*reading_notes(build), *warnings]
    without_events = int((log.lengths == 0).sum())
    if without_events and source.form != "models":
        notes.append(f"{without_events} cases of the release have no event; a DataFrame has no row for them")
    return Release(
        f"release by {mechanism.kind}",
        document,
        figures=_counts(document),
        notes=notes,
        source=source,
        header=privacy_header(mechanism, build),
        load=lambda: log,
    )


def _counts(document: Mapping[str, Any]) -> Any:
    import pandas as pd

    counts = {name: document[name] for name in ("cases", "events", "variants")}
    return pd.DataFrame([{"": name, **count} for name, count in counts.items()])


@python_words()
@checked
def replay(
    log: Log,
    *,
    config: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    final: bool = False,
    until: str | None = None,
    compare: bool = False,
    sensitive: Names = (),
    process: Mapping[str, Any] | None = None,
    publication: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
) -> ReleaseSeries:
    """Publish a log again and again as the daemon would have, and measure what all releases give away together.

    Without `config` and `publication` there is one publication that is safe over the series: cohorts of completed
    cases, each attack bounded by 20 cases.

    Parameters
    ----------
    log
        A DataFrame with one row per event, an EventLog of pm4py or of `models`, or the path of a file.
    config
        Configuration file (TOML), if there is one already.
    output
        Folder of releases and audits. A temporary one is removed with the result.
    final
        Whether the rest is released after the last event.
    until
        Let the clock run to this time, behind the last event too: "2025-06-30T00:00:00Z".
    compare
        Whether several ways to publish the log are replayed side by side: several publications, or four ways in
        addition to the one. `comparison` of the result has a row for each.
    sensitive
        Sensitive attributes of a case.
    process, publication
        The tables [process] and [[publication]] of a configuration, as mappings: publication={"name": "weekly",
        "window": {"every": "7d"}, "mechanism": {...}, "gate": {...}}. They replace those of `config`, key by key for
        `process`. Without a file and without a rule of completion, a case is complete after its last event.
    columns, timezone, time_format
        As for `read_log`, about DataFrames.

    Returns
    -------
    ReleaseSeries
        Verdict, releases, and one row for each cut.

    Raises
    ------
    InputError
        A configuration that is not allowed or does not fit the log.
    RefusedError
        The folder belongs to another replay.

    Examples
    --------
    >>> series = replay("examples/hospital.xes.gz", sensitive="diagnosis")
    >>> [verdict.verdict for verdict in series.verdicts], series.exit_code
    (['SAFE'], 0)
    """
    from stream.config import sources
    from stream.config.window import moment
    from stream.run.compare import alternatives, compare_publications, write_comparison
    from stream.run.presets import with_completion
    from stream.run.replay import Replay, settings_for

    end = None if until is None else moment(until, "until")
    tables: dict[str, Any] = {"process": dict(process or {})}
    if sensitive:
        tables["process"]["sensitive"] = attributes(sensitive)
    if publication is not None:
        tables["publication"] = [publication] if isinstance(publication, Mapping) else list(publication)
    settings = sources.load(None if config is None else Path(config), tables)
    if columns is None:
        columns = settings.process.columns.changed
    timezone = timezone or settings.process.timezone
    source = given_log(log, columns, timezone, time_format or settings.file.time_format)
    if config is None and publication is not None:
        settings = settings.model_copy(update={"process": with_completion(settings.process)})
    if compare:
        settings = alternatives(settings, source.log)
    settings = settings_for(settings, source.log, end)
    if output is None:
        folder = ResultFolder(Path(tempfile.mkdtemp(prefix="veilstream-")), is_temporary=True)
    else:
        folder = ResultFolder(Path(output), is_temporary=False)
    replayed = Replay(settings, folder.path)
    outcome = replayed.run(source.log, final=final, until=end)
    comparison: list[Mapping[str, Any]] | None = None
    if compare:
        comparison = compare_publications(replayed, outcome, source.log)
        write_comparison(comparison, folder.path)
    return _series(outcome, settings, source, folder, comparison)


def _series(
    outcome: ReplayOutcome,
    settings: Settings,
    source: GivenLog,
    folder: ResultFolder,
    comparison: Sequence[Mapping[str, Any]] | None,
) -> ReleaseSeries:
    from connectors.store.open import open_store
    from stream.ledger.layout import OperatorLayout

    store = open_store(settings.store or folder.path, private=OperatorLayout(folder.path).root)
    releases: list[Release] = []
    for publication in settings.publication:
        manifests = _published(store, settings.process.name, publication.name)
        releases += [_of_manifest(manifest, store, folder, source) for manifest in manifests]
    rows = []
    for values in outcome.rows():
        row = dict(zip(CUT, values, strict=True))
        # The share of events kept is formatted for people.
        row["kept"] = None if row["kept"] is None else float(row["kept"])
        rows.append(row)
    notes = [f"warning: {warning}" for warning in outcome.warnings()]
    if outcome.warning:
        notes.append(f"{outcome.warning}; the checkpoint before it was used")
    return ReleaseSeries(
        outcome.document(),
        verdicts=outcome.verdicts(),
        releases=releases,
        rows=rows,
        notes=notes,
        folder=folder,
        exit_code=outcome.exit_code,
        comparison=comparison,
    )


def _published(store: Store, process: str, publication: str) -> list[Mapping[str, Any]]:
    """Return the manifests of a publication's visible releases; another process may use the same store."""
    manifests = [store.read_manifest(publication, number) for number in store.releases(publication)]
    return [manifest for manifest in manifests if manifest["process"] == process]


def _of_manifest(
    manifest: Mapping[str, Any],
    store: Store,
    folder: ResultFolder,
    source: GivenLog,
) -> Release:
    import pandas as pd

    counts = manifest.get("counts") or {}
    return Release(
        f"release {manifest['sequence']} of {manifest['publication']} by {manifest['mechanism']['kind']}",
        manifest,
        figures=pd.DataFrame([{"": name, "out": count} for name, count in counts.items()]),
        notes=manifest.get("reading", ()),
        source=source,
        header={
            "mechanism": manifest["mechanism"]["kind"],
            "parameters": manifest["mechanism"]["parameters"],
            "time_basis": manifest["time_basis"],
            "reading": manifest["reading"],
        },
        load=lambda: _read_release(manifest, store, folder),
    )


def _read_release(manifest: Mapping[str, Any], store: Store, _folder: ResultFolder) -> EventLog:
    """Return the log of a release, by way of copies if the store is not a local folder.

    The folder is an argument, so that it exists as long as an unread release.
    """
    from models.disclosure.material import pooled
    from stream.release.increments import numbers_of

    publication, sequence = manifest["publication"], manifest["sequence"]
    if "content" in manifest:
        raise InputError(
            f"release {sequence} of {publication} holds a process map and no log: read its files in "
            f"{store.location(publication, sequence)}"
        )
    # The files of an increment hold its new cases; those of its set together hold the release.
    return pooled([_read_files(manifest, store, number) for number in numbers_of(manifest)])


def _read_files(manifest: Mapping[str, Any], store: Store, number: int) -> EventLog:
    """Return the log in the files of a release of the set that a manifest names: all have the same files."""
    from connectors.logs import read_back
    from stream.release.public_files import FILES

    publication = manifest["publication"]
    names = {entry["path"] for entry in manifest["files"]}
    name = next(name for name in FILES.values() if name in names)
    local = Path(store.location(publication, number)) / name
    if local.is_file():
        return read_back(local)
    with tempfile.TemporaryDirectory(prefix="veilstream-") as folder:
        copy = Path(folder) / name
        copy.write_bytes(store.file_bytes(publication, number, name))
        return read_back(copy)
