"""The Helm chart without Helm: its templates flattened to YAML with every branch taken.

No template engine: control lines are dropped, `include` and `toYaml` are put in their place, a plain value represents
`{{ .Values... }}`, the default for `{{ ... | default X }}`, a sample for what a `with` takes from an empty value, and
`x` for anything else. It shows faults of YAML and of structure, not of Go templates.
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
WITH = re.compile(r"^\s*\{\{-?\s*with \$?\.Values\.([\w.]+)(?: \| default \$?\.Values\.[\w.]+)?\s*-?\}\}\s*$")
OPEN = re.compile(r"\{\{-?\s*(?:if|with|range|define)\b")
END = re.compile(r"\{\{-?\s*end\b")
DEFAULT = re.compile(r'\{\{-? [^{}]* \| default "?([\w.]+)"? -?\}\}')
REFERENCE = re.compile(r"\.Values\.([\w.]+)")
DEFINE = re.compile(r'\{\{-\s*define "([\w.]+)" -\}\}\n(.*?)\n\{\{- end -\}\}', re.S)


SAMPLES: dict[str, Any] = {
    "pullSecrets": [{"name": "flattened"}],
    "tolerations": [{"operator": "Exists"}],
    "nodeSelector": {"flattened": "anything"},
    "affinity": {"podAntiAffinity": {}},
    "extraEnv": [{"name": "FLATTENED", "value": "anything"}],
    "extraVolumes": [{"name": "flattened", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "flattened", "mountPath": "/flattened"}],
    "egress": [{"ports": [{"port": 443, "protocol": "TCP"}]}],
}
"""The value in place of an empty one of this name; of other names: labels."""


def values() -> dict[str, Any]:
    """Return the content of values.yaml."""
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def at(path: str) -> Any:
    """Return the value under a dotted path; KeyError if values.yaml has none."""
    found: Any = values()
    for part in path.split("."):
        found = found[part]
    return found


def parts() -> dict[str, str]:
    """Return the named templates of _parts.tpl."""
    return dict(DEFINE.findall((CHART / "templates" / "_parts.tpl").read_text()))


def flat(text: str) -> str:
    """Return a template as YAML text."""
    lines: list[str] = []
    inside: list[Any] = []
    for line in text.splitlines():
        if CONTROL.match(line):
            inside += [_taken(line)] * len(OPEN.findall(line))
            del inside[len(inside) - len(END.findall(line)) :]
            continue
        if found := INCLUDE.match(line):
            lines += _indented(flat(parts()[found[1]]), int(found[2]))
        elif found := BLOCK.match(line):
            lines += _indented(_block(found[1], inside[-1] if inside else None), int(found[2]))
        else:
            line = DEFAULT.sub(r"\1", VALUE.sub(_plain, line))
            lines.append(re.sub(r"\{\{.*?\}\}", "x", line))
    return "\n".join(lines)


def _plain(found: re.Match[str]) -> str:
    return f'"{at(found[1])}"' if "quote" in found[0] else str(at(found[1]))


def _taken(line: str) -> Any:
    """Return the value of `.` within a control line: the value that a `with` takes, or a sample of it."""
    found = WITH.match(line)
    if found is None:
        return None
    return at(found[1]) or SAMPLES.get(found[1].split(".")[-1], {"flattened": "anything"})


def _block(expression: str, current: Any) -> str:
    if expression == "toYaml ." and current is not None:
        return yaml.safe_dump(current)
    if expression.startswith("toYaml .Values."):
        return yaml.safe_dump(at(expression.removeprefix("toYaml .Values.")))
    if expression.startswith(".Values."):
        return str(at(expression.removeprefix(".Values.")))
    return "flattened: anything"


def _indented(text: str, by: int) -> list[str]:
    return [" " * by + line for line in text.splitlines()]


def documents(template: Path) -> list[dict[str, Any]]:
    """Return the flattened documents of one template file."""
    return [one for one in yaml.safe_load_all(flat(template.read_text())) if one]


def templates() -> list[Path]:
    """Return every template that makes objects."""
    return sorted((CHART / "templates").glob("*.yaml"))
