"""Runbooks: every alert leads to its page, and the program parses the commands on the pages."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from stream.commands import build_app
from tests.conftest import ROOT
from tests.deploy.expressions import rules

FOLDER = ROOT / "docs" / "runbooks"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
HEADINGS = ("Meaning", "Affected people", "Look at", "Do", "Do not")
FENCED = re.compile(r"^(?:veilstream|python -m stream\.commands) .+$", re.M)
INLINE = re.compile(r"`(veilstream [a-z-]+(?: [a-z]+)? [^`]*-[^`]*)`")


def anchors(page: Path) -> dict[str, str]:
    """The severity below each heading of alerts, by the anchor that a renderer of Markdown gives the heading."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (Veilstream\w+)\n\nSeverity: (\w+)\.$", text, flags=re.M)
    return {name.lower(): severity for name, severity in headings}


def fragments(page: Path) -> set[str]:
    """Return the anchors that a renderer of Markdown gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_page_belongs_to_an_alert() -> None:
    """None is left of an alert that is gone, neither a page nor a part of one."""
    alerts = {rule["alert"].lower() for rule in rules()}
    assert sorted(anchor for page in PAGES for anchor in anchors(page)) == sorted(alerts)
    assert all(anchors(page) for page in PAGES)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_leads_to_its_page(rule: dict[str, Any]) -> None:
    """Summary, description and severity; the link leads to the alert's own page, or to its part of a page for several.

    Page and index state the severity of the rule.
    """
    assert {"summary", "description", "runbook_url"} == set(rule["annotations"])
    severity, name = rule["labels"]["severity"], rule["alert"]
    assert severity in ("critical", "warning")
    url = rule["annotations"]["runbook_url"]
    path, _, fragment = url.partition("#")
    page = ROOT / path
    assert page.parent == FOLDER
    assert anchors(page)[name.lower()] == severity
    if fragment:
        assert fragment == name.lower()
    else:
        assert list(anchors(page)) == [name.lower()]
    assert f"| [{name}]({url.removeprefix('docs/runbooks/')}) | {severity} | " in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_has_every_part_and_links_that_lead_somewhere(path: Path) -> None:
    """The parts say what it means, whom it concerns, what to look at, what to do and what not to do."""
    parts = re.split(r"^## (.+)$", path.read_text(encoding="utf-8"), flags=re.M)[1:]
    assert tuple(parts[::2]) == HEADINGS
    assert all(len(body.strip()) > 15 for body in parts[1::2])
    for link in re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
        target, _, fragment = link.partition("#")
        assert (FOLDER / target).is_file(), link
        assert not fragment or fragment in fragments(FOLDER / target), link
    for name in re.findall(r"`(docs/[\w./-]+)`", path.read_text(encoding="utf-8")):
        assert (ROOT / name).is_file(), name


def fault(line: str) -> str:
    """Why the program does not parse a command line; "" if it does. Nothing is run, no file need exist."""
    node: Any = get_command(build_app())
    words = shlex.split(line)[1:]
    while hasattr(node, "commands"):
        if not words or words[0] not in node.commands:
            return "no such command"
        node = node.commands[words.pop(0)]
    context = node.context_class(node, info_name="veilstream")
    try:
        given, rest, _ = node.make_parser(context).parse_args(list(words))
    except Exception as error:  # usage errors of the Click that Typer carries
        return type(error).__name__
    lacking = [one.name for one in node.params if one.required and given.get(one.name) is None]
    return f"left over: {rest}" if rest else f"lacks: {lacking}" if lacking else ""


def commands() -> list[str]:
    """Every command line of veilstream on the pages, once."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))]
    return sorted({line for text in texts for line in FENCED.findall(text) + INLINE.findall(text)})


@pytest.mark.parametrize("line", commands())
def test_a_command_on_a_page_is_one_of_the_program(line: str) -> None:
    """Same commands, options and arguments: who follows a page at night gets no usage error."""
    assert fault(line) == ""


def test_wrong_commands_are_seen() -> None:
    """The test above can fail: a command, an option and an argument that are none."""
    assert len(commands()) >= 8
    wrong = ("veilstream statsu -o x", "veilstream status --folder x", "veilstream releases", "veilstream status x")
    assert all(fault(line) for line in wrong)
