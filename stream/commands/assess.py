"""`veilstream assess RELEASE... --original LOG`: what attackers learn from any release."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.reading import Reading
from models.errors import InputError
from stream.commands import _options as options
from stream.commands._output import emit_json, filled, progress, tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from models.disclosure.assessment import Assessment
    from models.disclosure.material import Profile
    from models.eventlog import EventLog
    from stream.operator.assessment import AssessedRelease

PANEL = "Measure"
ATTACKER = "Attacker (by default the one of the promise)"
SELF_MADE = "Release made here (instead of RELEASE)"


@dataclass(frozen=True, slots=True)
class AttackerOptions:
    """Knowledge of the declared attacker about a case."""

    m: Annotated[
        int | None, typer.Option("--m", help="Items known, 1 to 8.", rich_help_panel=ATTACKER, show_default=False)
    ] = None
    knowledge: Annotated[
        str | None, typer.Option(help="set, mult, seq or rel (as of anonymize).", rich_help_panel=ATTACKER)
    ] = None
    attribute: Annotated[
        str | None,
        typer.Option(help="An item is an activity (ac), a resource (re) or both (ar).", rich_help_panel=ATTACKER),
    ] = None
    T: Annotated[str | None, typer.Option("--T", help="Accuracy of known times (rel).", rich_help_panel=ATTACKER)] = (
        None
    )
    case_attributes: Annotated[
        str, typer.Option(metavar="A[,B]", help="Case attributes that are known.", rich_help_panel=ATTACKER)
    ] = ""


@dataclass(frozen=True, slots=True)
class SelfMadeOptions:
    """A mechanism that makes the release from half of the original."""

    mechanism: Annotated[
        str | None,
        typer.Option(
            help="Make the release from a random half of the original; the other half is the control.",
            rich_help_panel=SELF_MADE,
        ),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Its keys; repeatable.", rich_help_panel=SELF_MADE),
    ] = None


@options.grouped
def command(
    releases: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RELEASE]...",
            help="Log files, or folders of releases (public/PUBLICATION/release-000001), in order of publication.",
            show_default=False,
        ),
    ] = None,
    original: Annotated[
        Path | None, typer.Option("--original", metavar="LOG", help="The log that the release was made from.")
    ] = None,
    control: Annotated[
        Path | None, typer.Option("--control", metavar="LOG", help="Cases of the process that did not enter it.")
    ] = None,
    attacker: AttackerOptions = AttackerOptions(),
    self_made: SelfMadeOptions = SelfMadeOptions(),
    sensitive: options.Sensitive = "",
    targets: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Cases attacked; 1,068 by default, at most all.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="FILE.html or FILE.md.", show_default=False)
    ] = None,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Attack a release as the law asks: singling out, linkability, inference, membership, reconstruction.

    Any log can be assessed, also one of another program. The figures read the original: keep them with the operator.
    """
    from stream.operator import assessment
    from stream.operator.report.statement import html, markdown

    if output is not None and output.suffix not in (".html", ".md"):
        raise InputError(f"{output}: the assessment is written as .html or .md (or printed with --json)")
    if original is None:
        raise InputError("--original is missing: the log that the release was made from")
    attributes = options.split_attributes(sensitive)
    logs = _read(releases or [], original, control, self_made, attributes, reading, seed)
    profiles = assessment.profiles_of(_declared(attacker), logs.releases, logs.original)
    with progress() as bar:
        sets = 1 if len(logs.releases) == 1 else 2
        task = bar.add_task("attacks", total=5 * len(profiles) * sets)

        def say(attack: str) -> None:
            bar.update(task, advance=1, description=attack)

        assessments = assessment.assess_releases(
            logs.releases,
            logs.original,
            logs.control,
            profiles,
            sensitive=attributes,
            targets=targets,
            seed=seed,
            say=say,
        )
    page = assessment.page(logs.releases, assessments)
    if output is not None:
        try:
            output.write_text(html(page) if output.suffix == ".html" else markdown(page), encoding="utf-8")
        except OSError as error:
            raise InputError(f"{output}: cannot be written ({error.strerror})") from None
        typer.echo(f"assessment: {output}", err=True)
    if json:
        emit_json(page.data)
    else:
        _print(assessments)


@dataclass(frozen=True, slots=True)
class _Logs:
    """The logs of an assessment; without a control it is None."""

    releases: list[AssessedRelease]
    original: EventLog
    control: EventLog | None


def _read(
    paths: list[Path],
    original: Path,
    control: Path | None,
    self_made: SelfMadeOptions,
    sensitive: list[str],
    reading: Reading,
    seed: int,
) -> _Logs:
    from connectors import read_log
    from stream.operator.assessment import read_release, release_of_half

    if self_made.mechanism is not None:
        if paths or control is not None:
            raise InputError(
                "--mechanism makes the release and the control itself: leave out RELEASE and --control, or --mechanism"
            )
        from stream.release.single import mechanism_of

        mechanism = mechanism_of(self_made.mechanism, options.assignments(self_made.option or []))
        release, half, outside = release_of_half(read_log(original, reading=reading), mechanism, sensitive, seed)
        return _Logs([release], half, outside)
    if self_made.option:
        raise InputError("--set is a key of a mechanism: name it with --mechanism")
    if not paths:
        raise InputError("name the releases to assess, or make one here with --mechanism")
    read = [read_release(path, reading) for path in paths]
    control_log = None if control is None else read_log(control, reading=reading)
    return _Logs(read, read_log(original, reading=reading), control_log)


def _declared(attacker: AttackerOptions) -> Profile | None:
    """Return the declared attacker; None if no option describes it."""
    from stream.operator.assessment import declared_profile

    known_attributes = options.split(attacker.case_attributes)
    return declared_profile(attacker.m, attacker.knowledge, attacker.attribute, attacker.T, known_attributes)


def _print(assessments: Mapping[str, Assessment]) -> None:
    from stream.operator.assessment import COLUMNS, READING, not_run, row, warnings

    console = tables()
    for name, assessment in assessments.items():
        for result in assessment.results:
            rows = [[cell or None for cell in row(measure)] for measure in result.measures]
            console.print(filled(COLUMNS, rows, title=f"{name}, {result.profile.name} attacker", left=2))
            console.print(f"The attacker knows {result.profile.sentence()}; for membership the whole case.")
            for line in not_run(result):
                console.print(line)
            console.print()
    for warning in warnings(assessments):
        console.print(f"warning: {warning}")
    for line in READING:
        console.print(line)
