"""The settings of reading a log file: the user's statements, and where to report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from connectors.bad_rows import BadRows
from connectors.lifecycle import Lifecycle
from models.errors import InputError

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
"""The separators that are looked for, with their names."""


def _silent(_: str) -> None:
    pass


class UndeclaredError(InputError):
    """The user has not declared how the file is written, and epsilon is promised."""

    def __init__(self, file: str, missing: Sequence[str]) -> None:
        super().__init__(
            f"{file}: a mechanism that promises epsilon reads each row as declared and guesses nothing; declare "
            f"{', '.join(missing)}, as flags or in [file] of the configuration (docs/dp.md)"
        )


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
    * `skip_bad_rows`: leave out rows that cannot be read, each by itself; by default they refuse the log;
    * `declared`: no row decides how another one is read. What is not said of a table is refused and not found out, and
      `skip_bad_rows` holds. Mechanisms that promise epsilon read so (docs/decisions/029);
    * `say` is called with each guess, one line without content;
    * `on_bad_rows` is called once with the rows that were left out (by default `say` is told how many there are, and
      the rows are not kept); `bad_rows` collects them during one reading.
    """

    columns: Mapping[str, str] | None = None
    timezone: str | None = None
    unit: str | None = None
    time_format: str | None = None
    encoding: str | None = None
    separator: str | None = None
    object_type: str | None = None
    lifecycle: Lifecycle | None = None
    skip_bad_rows: bool | None = None
    declared: bool = False
    say: Callable[[str], None] = _silent
    on_bad_rows: Callable[[BadRows], None] | None = None
    bad_rows: BadRows | None = None

    @property
    def leaves_out(self) -> bool:
        """Whether rows that cannot be read are left out."""
        return self.declared or bool(self.skip_bad_rows)

    def collecting(self, source: str) -> tuple[Reading, BadRows]:
        """Return the same settings with a collector of bad rows, and that collector.

        Each reading has one collector.
        """
        bad = self.bad_rows
        if bad is None:
            bad = BadRows(source, keep_rows=self.leaves_out and self.on_bad_rows is not None)
        return replace(self, bad_rows=bad), bad

    def separates(self) -> str | None:
        """Return the separator as one character. InputError if it is none."""
        if self.separator is None:
            return None
        names = {name: sign for sign, name in SEPARATORS.items()}
        sign = names.get(self.separator.lower(), self.separator.replace("\\t", "\t"))
        if len(sign) != 1 or sign in '"\r\n':
            raise InputError(f"--separator: give one character, or {', '.join(names)}")
        return sign
