"""`veilstream assess RELEASE... --original LOG`: what attackers learn from any release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.reading import Reading
from models.errors import InputError
from stream.commands import _options as options
from stream.commands._output import check_page, emit_json, filled, progress, tables, write_page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from models.disclosure.assessment import Assessment
    from models.disclosure.material import Profile
    from stream.operator.assessment import LinkedPair

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
    start: Annotated[
        str | None,
        typer.Option(metavar="UNIT", help="Start of a case, known in seconds to days.", rich_help_panel=ATTACKER),
    ] = None


@dataclass(frozen=True, slots=True)
class SelfMadeOptions:
    """A mechanism that makes the release from half of the original."""

    mechanism: Annotated[
        str | None,
        typer.Option(
            help="Release two random halves of the original; each is the control of the other's release.",
            rich_help_panel=SELF_MADE,
        ),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Its keys; repeatable.", rich_help_panel=SELF_MADE),
    ] = None
    divisions: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Random divisions into halves: more give narrower intervals.",
            rich_help_panel=SELF_MADE,
        ),
    ] = 2


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
        int | None, typer.Option(metavar="N", min=1, help="Cases attacked; by default from --half-width.")
    ] = None,
    half_width: Annotated[
        float, typer.Option(metavar="W", help="Half-width of the interval of a rate near .5; decides the targets.")
    ] = 0.03,
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
    from connectors import read_log
    from models.disclosure.assessment import ATTACKS, Attackers
    from stream.operator import assessment
    from stream.operator.report.statement import html, markdown
    from stream.release.single import mechanism_of

    check_page(output, "assessment", " (or printed with --json)")
    if original is None:
        raise InputError("--original is missing: the log that the release was made from")
    attributes = options.split_attributes(sensitive)
    attackers = Attackers((), tuple(attributes), targets, half_width, seed)
    declared = _declared(attacker)
    _check_release(releases or [], control, self_made)
    pairs: list[LinkedPair] = []
    with progress() as bar:
        task = bar.add_task("reading", total=None)

        def on_step(attack: str) -> None:
            bar.update(task, advance=1, description=attack)

        if self_made.mechanism is not None:
            # A division makes two releases, and up to two attackers run every attack on each.
            steps_of_division = 2 + 2 * 2 * len(ATTACKS)
            bar.update(task, total=self_made.divisions * steps_of_division)
            mechanism = mechanism_of(self_made.mechanism, options.assignments(self_made.option or []))
            source = read_log(original, reading=reading)
            release, assessments = assessment.assess_mechanism_of(
                mechanism, source, attackers, declared=declared, divisions=self_made.divisions, on_step=on_step
            )
            read = [release]
        else:
            read = [assessment.read_release(path, reading) for path in releases or []]
            source = read_log(original, reading=reading)
            outside = None if control is None else read_log(control, reading=reading)
            attackers = replace(attackers, profiles=assessment.profiles_of(declared, read, source))
            # Several releases are attacked twice: the newest alone, and all together.
            attacked_logs = 1 if len(read) == 1 else 2
            bar.update(task, total=len(ATTACKS) * len(attackers.profiles) * attacked_logs)
            assessments = assessment.assess_releases(read, source, outside, attackers, on_step=on_step)
            pairs = assessment.linked_pairs(read, attackers)
        bar.update(task, completed=bar.tasks[task].total)
    page = assessment.page(read, assessments, pairs)
    if output is not None:
        write_page(output, html(page) if output.suffix == ".html" else markdown(page), private=True)
        typer.echo(f"assessment: {output}", err=True)
    if json:
        emit_json(page.data)
    else:
        _print(assessments, pairs)


def _check_release(releases: Sequence[Path], control: Path | None, self_made: SelfMadeOptions) -> None:
    """Refuse options of both kinds of release, a given one and one that is made here, and of none."""
    if self_made.mechanism is None:
        if self_made.option:
            raise InputError("--set is a key of a mechanism: name it with --mechanism")
        if not releases:
            raise InputError("name the releases to assess, or make one here with --mechanism")
    elif releases or control is not None:
        raise InputError(
            "--mechanism makes the release and the control itself: leave out RELEASE and --control, or --mechanism"
        )


def _declared(attacker: AttackerOptions) -> Profile | None:
    """Return the declared attacker; None if no option describes it."""
    from stream.operator.assessment import declared_profile

    known_attributes = options.split(attacker.case_attributes)
    return declared_profile(
        attacker.m, attacker.knowledge, attacker.attribute, attacker.T, known_attributes, attacker.start
    )


def _print(assessments: Mapping[str, Assessment], pairs: Sequence[LinkedPair]) -> None:
    from stream.operator.assessment import (
        COLUMNS,
        LINK_COLUMNS,
        LINKED,
        READING,
        further_figures,
        not_run,
        row,
        warnings,
    )

    console = tables()
    for name, assessment in assessments.items():
        for result in assessment.results:
            rows = [[cell or None for cell in row(measure)] for measure in result.measures]
            console.print(filled(COLUMNS, rows, title=f"{name}, {result.profile.name} attacker", word_columns=2))
            console.print(f"The attacker knows {result.profile.sentence()}; for membership the whole case.")
            for line in not_run(result):
                console.print(line)
            for line in further_figures(result):
                console.print(line)
            console.print()
    if pairs:
        linked = [[cell or None for cell in pair.cells()] for pair in pairs]
        console.print(filled(LINK_COLUMNS, linked, title="links to the newest release", word_columns=1))
        console.print(LINKED)
    for warning in warnings(assessments):
        console.print(f"warning: {warning}")
    for line in READING:
        console.print(line)
