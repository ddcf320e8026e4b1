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
    """The user has not declared how the file is written, and epsilon is promised.

    Parameters
    ----------
    file
        Name of the log.
    missing
        Flags that would declare the rest.
    """

    def __init__(self, file: str, missing: Sequence[str]) -> None:
        super().__init__(
            f"{file}: a mechanism that promises epsilon reads each row as declared and guesses nothing; declare "
            f"{', '.join(missing)}, as flags or in [file] of the configuration (docs/dp.md)"
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """The user's statements about a file. A format detects what is None, if it can.

    Parameters
    ----------
    columns
        Part of the log (case, activity, time, resource, lifecycle) to column name.
    timezone
        IANA name of the zone of times that have none.
    unit
        ns, us, ms or s: the unit in which the time column counts since 1970-01-01 UTC.
    time_format
        A format of strptime, or one of `connectors.dates.WORDS`, the units among them.
    encoding, separator
        Of CSV.
    object_type
        The type of objects that are the cases of an object-centric log.
    lifecycle
        The transitions that are events (`connectors.lifecycle`); None for all.
    skip_bad_rows
        Leave out rows that cannot be read, each by itself. By default they refuse the log.
    declared
        No row decides how another one is read. Undeclared settings of a table are refused and not detected, and bad
        rows are left out. Mechanisms that promise epsilon read so (docs/decisions/029).
    say
        Called with each guess, one line without content.
    on_bad_rows
        Called once with the rows that were left out. By default `say` reports their number, and they are not kept.
    bad_rows
        Collects the bad rows of one reading.
    on_clock_changes
        Called with the number of local times that occur twice in `timezone`, and of those that do not exist there, if
        there are any.
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
    on_clock_changes: Callable[[int, int], None] | None = None

    @property
    def leaves_out(self) -> bool:
        """Whether rows that cannot be read are left out."""
        return self.declared or bool(self.skip_bad_rows)

    def collecting(self, source: str) -> tuple[Reading, BadRows]:
        """Return the same settings with a collector of bad rows, and that collector.

        Each reading has one collector.

        Parameters
        ----------
        source
            Name of the log, for a new collector.

        Returns
        -------
        reading
            The settings, with the collector.
        bad_rows
            The collector. It is the one that the settings have already, if they have one.
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
