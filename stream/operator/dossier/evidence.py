"""The evidence of a dossier: ledger, manifests, audits, configuration and assessments of one publication.

Everything is read as it was written; nothing is measured here, and no source data are read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec

from connectors.store.base import MANIFEST, local_release
from models.errors import BoundError, InputError
from stream.config import sources
from stream.config.settings import Publication, Settings
from stream.ledger.layout import OperatorLayout
from stream.ledger.view import Account, LedgerView
from stream.operator.assessment import POOLED
from stream.operator.history import History, HistoryRow, audit, current_ledger_view, read_from, read_json
from stream.operator.report.data import RELEASED, budget_answer
from stream.operator.report.document import AttemptRow, BudgetAnswer
from stream.operator.spending import affordable_releases, budget_by_now
from stream.release.contract import AUDIENCE
from stream.release.documents import AuditDocument, Budget, is_empty
from stream.release.gate import MEASURES, Measure, least_of_series
from stream.release.manifest import PUBLIC_CUT, budget_section, public_parameters
from stream.release.verdict import Verdict

ASSESSMENT_VERSION = 1

ASSESSMENT = "assessment.json"
"""File next to the audit of a release whose publication requests an assessment."""


@dataclass(frozen=True, slots=True)
class OtherPublication:
    """Another publication of the process with releases that left.

    Parameters
    ----------
    name, audience
        The publication, and its recipients.
    exact
        Whether it shows cases without noise.
    """

    name: str
    audience: str
    exact: bool


@dataclass(frozen=True, slots=True)
class ConfigurationChange:
    """The first release that was made with a configuration, and the digest of the configuration."""

    number: int
    digest: str


@dataclass(frozen=True, slots=True)
class AssessedAttack:
    """One result of an assessment, with the knowledge of its attacker."""

    measure: Mapping[str, Any]
    profile: str
    knows: str


@dataclass(frozen=True, slots=True)
class AssessmentFile:
    """One assessment (`veilstream assess --json`).

    Parameters
    ----------
    digest
        sha256 of the file.
    document
        Its content.
    numbers
        Numbers of the assessed releases of this publication; empty for a release that `assess` made itself.
    pooled
        Whether it puts releases of several publications together.
    """

    digest: str
    document: Mapping[str, Any]
    numbers: tuple[int, ...]
    pooled: bool

    @property
    def is_trial(self) -> bool:
        """Whether a release was made for the attacks, from a part of the log."""
        return not self.numbers

    @property
    def has_control(self) -> bool:
        """Whether the attacks also ran on cases that did not enter the release."""
        return all(entry.get("control_cases") for entry in self.document["assessments"])

    @property
    def results(self) -> Mapping[str, set[str]]:
        """Each attack with the words of all its results."""
        words: dict[str, set[str]] = {}
        for entry in self.document["assessments"]:
            for profile in entry["profiles"]:
                for measure in profile["measures"]:
                    words.setdefault(measure["attack"], set()).add(measure["result"])
        return words

    def attacks(self, attack: str, *, together: bool) -> Iterator[AssessedAttack]:
        """Yield the results of one kind of attack, those that could not be run among them.

        Parameters
        ----------
        attack
            One of `models.disclosure.assessment.ATTACKS`.
        together
            Whether all releases were put together; else a single release was attacked.
        """
        for entry in self.document["assessments"]:
            if (entry["attacked"] == POOLED) != together:
                continue
            for profile in entry["profiles"]:
                for measure in profile["measures"]:
                    if measure["attack"] == attack:
                        yield AssessedAttack(measure, profile["profile"], profile["knows"])


@dataclass(frozen=True, slots=True)
class DossierEvidence:
    """Everything that the pages of one dossier state.

    Parameters
    ----------
    process, name, audience
        The process, the publication, and its recipients.
    verdict
        The verdict on its releases together.
    document
        Manifest and audit of the last release; of the last held one if nothing is public yet. If every attempt was
        withheld, the terms of the configuration (`withheld_document`).
    manifest_digest
        sha256 of the manifest of that release, as the ledger has it; empty without a release.
    rows
        Every attempt, in the order of the ledger.
    account
        The facts of the ledger about it.
    least
        Least KA, FA, CA and BA over all releases.
    gaps
        How many gaps in the source the operator accepted.
    open_moments
        Releases of which no promise covers the moment: it may depend on the data, or a person decides it.
    ends_with_log
        Whether they are of a replay without a declared end: their number depends on the last event of the log.
    follows_watermark
        Whether a daemon closes its windows by the times of events, as far as the configuration is known.
    empty_releases
        Releases with noise whose log or map has no case.
    others
        Other publications of the process.
    changes
        Configurations of the releases, in order.
    budget
        Spending by the ledger as it is now, with the limits of the document; empty without noise.
    left
        The rest of the budget; None without noise.
    settings, publication
        The configuration; None if it is not at hand.
    assessments
        The assessments.
    """

    process: str
    name: str
    audience: str
    verdict: Verdict
    document: AuditDocument
    manifest_digest: str
    rows: Sequence[HistoryRow]
    account: Account
    least: Mapping[Measure, int | None]
    gaps: int
    open_moments: tuple[int, ...]
    ends_with_log: bool
    follows_watermark: bool
    empty_releases: tuple[int, ...]
    others: tuple[OtherPublication, ...]
    changes: tuple[ConfigurationChange, ...]
    budget: Budget
    left: BudgetAnswer | None
    settings: Settings | None
    publication: Publication | None
    assessments: tuple[AssessmentFile, ...]

    @property
    def sensitive(self) -> tuple[str, ...]:
        """Sensitive attributes by the configuration; empty if it is not at hand."""
        return () if self.settings is None else tuple(self.settings.process.sensitive)

    @property
    def kind(self) -> str:
        """The kind of the mechanism."""
        return str(self.document["mechanism"]["kind"])

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The public parameters of the mechanism."""
        return self.document["mechanism"]["parameters"]

    @property
    def has_release(self) -> bool:
        """Whether a release was made, even one that is only held."""
        return bool(self.manifest_digest)

    @property
    def is_once(self) -> bool:
        """Whether each case is in one release only. Documents of earlier versions say so in their budget alone."""
        return self.document.get("cases") == "completed" or self.budget.get("scope") == "cases"

    @property
    def released(self) -> list[HistoryRow]:
        """The releases that exist for recipients."""
        return [row for row in self.rows if row["status"] in RELEASED]

    def with_status(self, *statuses: str) -> list[HistoryRow]:
        """Return the attempts with one of these statuses.

        Parameters
        ----------
        *statuses
            Words of the history, such as `released` or `withheld`.
        """
        return [row for row in self.rows if row["status"] in statuses]


def collect(
    output: Path, name: str | None, *, config: Path | None = None, assessments: Sequence[Path] = ()
) -> DossierEvidence:
    """Read the evidence of one publication.

    Parameters
    ----------
    output
        An output folder of a replay or daemon.
    name
        The publication; may be None if the folder has one.
    config
        The configuration file; if not given, the configuration that the folder keeps.
    assessments
        Files of `veilstream assess --json`.

    Raises
    ------
    InputError
        If there is no such publication, or a file is damaged or about something else.
    BoundError
        If nothing was released, held or withheld yet.
    """
    view = current_ledger_view(output)
    history = read_from(output, view)
    verdicts = {verdict.publication: verdict for verdict in history.verdicts()}
    name = _chosen(output, [publication for publication in verdicts if publication], name)
    account = view.account(name)
    rows = [row for row in history.rows if row["publication"] == name]
    released_rows = [row for row in rows if row["status"] in RELEASED]
    released = [row["sequence"] for row in released_rows]

    # The dossier is about the last release. If every attempt was withheld, the configuration takes its place.
    number = _last_number(account)
    settings: Settings | None
    if number is not None:
        document = _document(output, name, number)
        settings = _settings(output, config, document)
        manifest_digest = account.seals[number].body.manifest
        least = _least(history, name, released or [number])
    elif any(row["status"] == "withheld" for row in rows):
        settings = _settings_of_attempts(output, config, name, view)
        document = withheld_document(settings, name, view)
        manifest_digest = ""
        least = _least(history, name, [])
    else:
        raise BoundError(f"{output}: a dossier is about releases. {verdicts[name].line()}")
    publication = None if settings is None else _of_name(settings, name)

    spent = budget_by_now(document, view, account)
    releases_left = affordable_releases(document, view, account)
    attempts = [{**row, "label": str(row["sequence"])} for row in released_rows]
    left = budget_answer(cast(Sequence[AttemptRow], attempts), spent, releases_left)

    open_moments = tuple(_open_moments(output, history, name, released))
    assessed = [read_assessment(path, name, view, document["mechanism"]) for path in assessments]
    if number is not None:
        assessed += _before_release(output, name, number)
    return DossierEvidence(
        process=str(document["process"]),
        name=name,
        audience=str(document.get("audience", AUDIENCE)),
        verdict=verdicts[name],
        document=document,
        manifest_digest=manifest_digest,
        rows=rows,
        account=account,
        least=least,
        gaps=len(account.gaps),
        open_moments=open_moments,
        ends_with_log=_ends_with_log(view),
        follows_watermark=_follows_watermark(view, publication),
        empty_releases=tuple(_empty_releases(history, name, released)),
        others=tuple(_others(view, history, name)),
        changes=tuple(_changes(history, name, account)),
        budget=spent,
        left=left,
        settings=settings,
        publication=publication,
        assessments=tuple(assessed),
    )


# a publication whose attempts were all withheld


def _settings_of_attempts(output: Path, config: Path | None, name: str, view: LedgerView) -> Settings:
    """Return the configuration of attempts that made no release.

    Raises
    ------
    InputError
        If it is not at hand, or the given one is not the configuration of the folder.
    """
    if config is not None:
        settings = sources.load(config, {})
        claim = view.claim
        if claim is not None and claim.config not in (None, settings.digest):
            raise InputError(f"{config}: is not the configuration of this folder; give the one that was in force")
    else:
        try:
            settings = sources.of_folder(output)
        except InputError:
            raise InputError(
                f"{output}: no release of {name} exists, so no manifest states what was promised; give the "
                "configuration with -c FILE"
            ) from None
    if _of_name(settings, name) is None:
        raise InputError(f"{config or output}: the configuration has no publication {name!r}")
    return settings


def withheld_document(settings: Settings, name: str, view: LedgerView) -> AuditDocument:
    """Return what a manifest would have stated, as far as the configuration alone determines it.

    Columns, times and every figure depend on a release, so their keys are absent.

    Parameters
    ----------
    settings
        The configuration.
    name
        Name of the publication.
    view
        Facts of the ledger.
    """
    publication = next(publication for publication in settings.publication if publication.name == name)
    spec = settings.spec(publication)
    mechanism = spec.mechanism
    promised = dict(mechanism.promise() if spec.once is None else mechanism.promise_once(spec.once))
    if spec.gate.public_cut:
        promised["public_cut"] = PUBLIC_CUT
    document: AuditDocument = {
        "process": spec.process,
        "publication": name,
        "audience": spec.audience,
        "sequence": 0,
        "mechanism": {"kind": mechanism.kind, "parameters": public_parameters(mechanism, spec.attributes)},
        "promise": promised,
        "budget": budget_section(spec, view.account(name).spending, view.spending_elsewhere(name)),
        "config_digest": spec.config_digest,
        "bounds": dict(spec.gate.bounds),
    }
    if spec.once is not None:
        document["cases"] = "completed"
    if spec.approval:
        document["approval"] = "required"
    return document


def _chosen(output: Path, names: Sequence[str], name: str | None) -> str:
    if not names:
        raise InputError(f"{output}: its ledger holds no release and no withheld attempt yet")
    if name is None:
        if len(names) > 1:
            raise InputError(f"{output}: holds {', '.join(names)}; name the publication that the dossier is about")
        return names[0]
    if name not in names:
        raise InputError(f"{output}: no publication {name!r}; it holds {', '.join(names)}")
    return name


def _last_number(account: Account) -> int | None:
    """Return the last release for recipients; if there is none, the last held one."""
    numbers = account.released_numbers or account.held
    return numbers[-1] if numbers else None


def _document(output: Path, name: str, number: int) -> AuditDocument:
    """Return the audit of a release, which repeats its manifest; the manifest alone if the audit is gone."""
    document = audit(output, name, number)
    if document:
        return document
    path = local_release(output, name, number) / MANIFEST
    if not path.is_file():
        raise InputError(
            f"{output}: audit and manifest of release {number} of {name} are not here; restore operator/{name}"
        )
    manifest: AuditDocument = read_json(path)
    return manifest


def _settings(output: Path, config: Path | None, document: AuditDocument) -> Settings | None:
    """Return the configuration of the last release; None if it is not at hand.

    Raises
    ------
    InputError
        If a configuration is given that is not the one of the release.
    """
    if config is not None:
        settings = sources.load(config, {})
        if settings.digest != document["config_digest"]:
            raise InputError(
                f"{config}: is not the configuration of the last release (digest {settings.digest[:12]}, the manifest "
                f"names {document['config_digest'][:12]}); give the one that was in force"
            )
        return settings
    try:
        settings = sources.of_folder(output)
    except InputError:  # a folder of an earlier program, or a secret of the source is not in this environment
        return None
    return settings if settings.digest == document["config_digest"] else None


def _of_name(settings: Settings, name: str) -> Publication | None:
    return next((publication for publication in settings.publication if publication.name == name), None)


def _least(history: History, name: str, numbers: Sequence[int]) -> Mapping[Measure, int | None]:
    audits = [history.audits[name, number] for number in numbers if (name, number) in history.audits]
    return {measure: least_of_series(audits, measure) for measure in MEASURES}


def _others(view: LedgerView, history: History, name: str) -> Iterator[OtherPublication]:
    for other, account in view.accounts.items():
        numbers = account.released_numbers
        if other == name or not numbers:
            continue
        last = history.audits.get((other, numbers[-1])) or AuditDocument()
        yield OtherPublication(other, str(last.get("audience", AUDIENCE)), last.get("budget") is None)


def _changes(history: History, name: str, account: Account) -> Iterator[ConfigurationChange]:
    """Yield the configuration of the first release, and each later one at which it changed."""
    former = None
    for number in account.released_numbers:
        made_by = history.audits.get((name, number)) or AuditDocument()
        digest = made_by.get("config_digest")
        if digest is not None and digest != former:
            yield ConfigurationChange(number, digest)
            former = digest


def has_open_moment(document: Mapping[str, Any]) -> bool:
    """Return whether no promise covers the moment of a release, by its manifest or audit.

    With `gate.public_cut` it may depend on the data, and with an approval a person decides it who sees figures of the
    source. A document that is gone states neither, so its release counts as not covered.

    Parameters
    ----------
    document
        Manifest or audit of the release.
    """
    promised = document.get("promise")
    if promised is None:
        return True
    return "public_cut" in promised or bool(document.get("approval"))


def _ends_with_log(view: LedgerView) -> bool:
    """Return whether the releases are of a replay without a declared end."""
    return view.claim is not None and not view.made_by_daemon and view.claim.until is None


def _follows_watermark(view: LedgerView, publication: Publication | None) -> bool:
    """Return whether events move the moments of a daemon's releases; the clock of a replay passes the end by itself."""
    is_replay = view.claim is not None and not view.made_by_daemon
    return not is_replay and (publication is None or publication.build_window.tumbling)


def _empty_releases(history: History, name: str, numbers: Sequence[int]) -> Iterator[int]:
    """Yield the releases with noise whose log or map has no case."""
    for number in numbers:
        if is_empty(history.audits.get((name, number)) or {}):
            yield number


def _open_moments(output: Path, history: History, name: str, numbers: Sequence[int]) -> Iterator[int]:
    """Yield the releases whose moment no promise covers; all releases of one configuration are alike."""
    is_open: dict[str, bool] = {}
    for number in numbers:
        made_by = history.audits.get((name, number)) or AuditDocument()
        digest = made_by.get("config_digest", "")
        if digest not in is_open:
            is_open[digest] = has_open_moment(audit(output, name, number))
        if is_open[digest]:
            yield number


# assessments


def read_assessment(path: Path, name: str, view: LedgerView, mechanism: Mapping[str, Any]) -> AssessmentFile:
    """Read an assessment, and check that it is about this publication.

    Parameters
    ----------
    path
        The file, as `veilstream assess --json` prints it.
    name
        Name of the publication.
    view
        Facts of the ledger.
    mechanism
        Mechanism of the publication now: its kind and parameters.

    Raises
    ------
    InputError
        If the file is not an assessment, is of a later version, is about releases that the ledger does not have, or
        about a trial release by another mechanism than `mechanism`.
    """
    try:
        content = path.read_bytes()
        document = msgspec.json.decode(content)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InputError(f"{path}: no JSON document; write it with veilstream assess ... --json > {path}") from None
    if not isinstance(document, dict) or not {"version", "assessments", "releases"} <= document.keys():
        raise InputError(f"{path}: no assessment; write it with veilstream assess ... --json > {path}")
    if document["version"] > ASSESSMENT_VERSION:
        raise InputError(
            f"{path}: version {document['version']} of an assessment; this program reads version {ASSESSMENT_VERSION}"
        )
    named = [release for release in document["releases"] if release.get("publication")]
    for release in named:
        _check_known(path, release, view)
    publications = {str(release["publication"]) for release in named}
    if publications and name not in publications:
        raise InputError(f"{path}: assesses {', '.join(sorted(publications))}, and the dossier is about {name}")
    if not named:
        _check_trial(path, document["releases"], mechanism)
    numbers = tuple(int(release["sequence"]) for release in named if release["publication"] == name)
    return AssessmentFile(hashlib.sha256(content).hexdigest(), document, numbers, len(publications) > 1)


PROMISED = ("K", "L", "C", "knowledge", "attribute", "epsilon", "delta_dp", "suppression")
"""Parameters in which a trial release must agree with the publication: its promise depends on them."""


def _check_trial(path: Path, releases: Sequence[Mapping[str, Any]], mechanism: Mapping[str, Any]) -> None:
    """Refuse figures of a release that is neither of this ledger nor made by the same mechanism."""
    tried = releases[-1].get("mechanism") if releases else None
    if not tried:
        raise InputError(
            f"{path}: assesses no release of this folder; assess the folder of a release "
            "(public/PUBLICATION/release-NNNNNN), or a trial release (veilstream assess --mechanism)"
        )
    if tried["kind"] != mechanism["kind"]:
        raise InputError(f"{path}: assesses {tried['kind']}, and the publication has {mechanism['kind']}")
    for key in PROMISED:
        published, assessed = mechanism["parameters"].get(key), tried.get("parameters", tried).get(key)
        if published != assessed:
            raise InputError(f"{path}: assesses {key} = {assessed}, and the publication has {key} = {published}")


def _before_release(output: Path, name: str, number: int) -> Iterator[AssessmentFile]:
    """Yield the assessment that was made on parts of the log before the release left, if it was asked for."""
    path = OperatorLayout(output).release(name, number) / ASSESSMENT
    if not path.is_file():
        return
    content = path.read_bytes()
    document = read_json(path)
    if document.get("assessments"):
        yield AssessmentFile(hashlib.sha256(content).hexdigest(), document, (), pooled=False)


def _check_known(path: Path, release: Mapping[str, Any], view: LedgerView) -> None:
    """Refuse an assessment of bytes that this ledger never sealed."""
    publication, number = str(release["publication"]), int(release["sequence"])
    seal = view.seals.get((publication, number))
    if seal is None or seal.body.manifest != release.get("manifest_sha256"):
        raise InputError(
            f"{path}: assesses a release {number} of {publication} that is not the one of this folder's ledger"
        )
