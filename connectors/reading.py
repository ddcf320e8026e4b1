"""How a log file is to be read: what the user said of it, and where what was guessed is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connectors.lifecycle import Lifecycle
from models.errors import InputError

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
"""The separators that are looked for, with their names."""


def _silent(_: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Reading:
    """What is told of a file; None is found out, where the format lets it be.

    * `columns`: case, activity, time, resource, lifecycle to column names;
    * `timezone`: IANA name of the zone of times that carry none;
    * `unit`: ns, us, ms, s since 1970 in the time column; `time_format`: a format of strptime or one of
      `connectors.dates.WORDS`, the units among them;
    * `encoding`, `separator`: of CSV;
    * `lifecycle`: which transitions are events (`connectors.lifecycle`); None: all;
    * `object_type`: the objects that are the cases of an object-centric log;
    * `say` is called with each guess, one line without content.
    """

    columns: Mapping[str, str] | None = None
    timezone: str | None = None
    unit: str | None = None
    time_format: str | None = None
    encoding: str | None = None
    separator: str | None = None
    object_type: str | None = None
    lifecycle: Lifecycle | None = None
    say: Callable[[str], None] = _silent

    def separates(self) -> str | None:
        """The separator as one character; InputError when it is none."""
        if self.separator is None:
            return None
        names = {name: sign for sign, name in SEPARATORS.items()}
        sign = names.get(self.separator.lower(), self.separator.replace("\\t", "\t"))
        if len(sign) != 1 or sign in '"\r\n':
            raise InputError(f"--separator: give one character, or {', '.join(names)}")
        return sign
