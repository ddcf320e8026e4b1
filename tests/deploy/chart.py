"""The Helm chart without Helm: its templates flattened to YAML with every branch taken.

No template engine: control lines are dropped, `include` and `toYaml` are put in their place, a plain value stands for
`{{ .Values... }}` and `x` for anything else. It shows faults of YAML and of structure, not of Go templates.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT

CHART = ROOT / "deploy" / "helm" / "veilstream"
CONTROL = re.compile(r"^\s*\{\{-?\s*(if|with|range|end|else|define)\b.*\}\}\s*$")
INCLUDE = re.compile(r'^\s*\{\{-?\s*include "([\w.]+)" [.$] \| nindent (\d+) \}\}\s*$')
BLOCK = re.compile(r"^\s*\{\{-?\s*(.+?) \| nindent (\d+) \}\}\s*$")
VALUE = re.compile(r"\{\{-?\s*\$?\.Values\.([\w.]+)(?:\s*\|\s*quote)?\s*-?\}\}")
REFERENCE = re.compile(r"\.Values\.([\w.]+)")
DEFINE = re.compile(r'\{\{-\s*define "([\w.]+)" -\}\}\n(.*?)\n\{\{- end -\}\}', re.S)


def values() -> dict[str, Any]:
    """values.yaml."""
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def at(path: str) -> Any:
    """The value under a dotted path; KeyError where values.yaml has none."""
    found: Any = values()
    for part in path.split("."):
        found = found[part]
    return found


def parts() -> dict[str, str]:
    """Named templates of _parts.tpl."""
    return dict(DEFINE.findall((CHART / "templates" / "_parts.tpl").read_text()))


def flat(text: str) -> str:
    """A template as YAML text."""
    lines: list[str] = []
    for line in text.splitlines():
        if CONTROL.match(line):
            continue
        if found := INCLUDE.match(line):
            lines += _indented(flat(parts()[found[1]]), int(found[2]))
        elif found := BLOCK.match(line):
            lines += _indented(_block(found[1]), int(found[2]))
        else:
            line = VALUE.sub(lambda match: str(at(match[1])), line)
            lines.append(re.sub(r"\{\{.*?\}\}", "x", line))
    return "\n".join(lines)


def _block(expression: str) -> str:
    if expression.startswith("toYaml .Values."):
        return yaml.safe_dump(at(expression.removeprefix("toYaml .Values.")))
    if expression.startswith(".Values."):
        return str(at(expression.removeprefix(".Values.")))
    return "flattened: anything"


def _indented(text: str, by: int) -> list[str]:
    return [" " * by + line for line in text.splitlines()]


def documents(template: Path) -> list[dict[str, Any]]:
    """The flattened documents of one template file."""
    return [one for one in yaml.safe_load_all(flat(template.read_text())) if one]


def templates() -> list[Path]:
    """Every template that gives objects."""
    return sorted((CHART / "templates").glob("*.yaml"))
