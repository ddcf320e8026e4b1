"""One root for every error that veilstream raises on purpose.

An error names the place (file, line, offset, setting), the reason and what to do. It never carries the content of a
record, since messages end in logs. Each class has the exit code of the command line.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Final


class VeilstreamError(Exception):
    """Root of all errors. `exit_code` is what the command line ends with."""

    exit_code = 1


class InputError(VeilstreamError):
    """Bad usage, configuration or input: one clear line, nothing written."""

    exit_code = 2


class NoEventsError(InputError):
    """A log without a single event: useless as a source, possible as a release."""


class TooLargeError(InputError):
    """The data needs more room than an exact computation may take. The message states what to ask for instead."""


class UnavailableError(VeilstreamError):
    """Error for a service that does not answer: nothing is wrong here, try again later (a service manager does)."""


class TakenOverError(VeilstreamError):
    """Another coordinator is active in place of this process, which ends and is started again as a standby."""


class BoundError(VeilstreamError):
    """A privacy bound that was asked for does not hold, or cannot."""

    exit_code = 3


class TooFewCasesError(BoundError):
    """Fewer cases have come so far than a bound needs: nothing is wrong, and more cases will meet it."""


class RefusedError(VeilstreamError):
    """The program refuses to release: ledger, gap, fence, foreign state."""

    exit_code = 4


class UnreadableError(RefusedError):
    """A file of the operator that later releases need is gone or damaged: what needs it rests until it is back."""


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise InputError unless a value is one of its choices.

    Parameters
    ----------
    name
        Name of the setting as the message begins with it, such as `method` or `T =`.
    value
        The value that was given.
    choices
        The allowed values, in the order in which the message lists them.

    Examples
    --------
    >>> check_choice("T =", "hours", ("seconds", "hours"))
    >>> check_choice("T =", "weeks", ("seconds", "hours"))
    Traceback (most recent call last):
        ...
    models.errors.InputError: T = 'weeks' is not one of seconds, hours
    """
    allowed = tuple(choices)
    if value not in allowed:
        raise InputError(f"{name} {value!r} is not one of {', '.join(allowed)}")


_SHORT: Final = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EFBIG,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
}


def kind_of(error: OSError) -> type[VeilstreamError]:
    """Return the error class for an error of the operating system.

    A wrong path is an error of the input (exit code 2). If a disk, the memory or a limit is used up, the path is
    right and a later try may succeed (exit code 1: a service manager starts again).

    Parameters
    ----------
    error
        The error of the operating system.
    """
    return VeilstreamError if error.errno in _SHORT else InputError


def shortage(error: OSError, place: str | None = None) -> UnavailableError | None:
    """Return what to raise if a disk, the memory or a limit is used up, or the disk has become read-only.

    Nothing that was written is lost then, and a later try continues from there, so a service manager shall make one.

    Parameters
    ----------
    error
        The error of the system.
    place
        Where the program writes. It is shown if the error names no file: libraries that write often leave it out.

    Returns
    -------
    UnavailableError or None
        None for every other error of the system.
    """
    location = error.filename or place or "the disk"
    if error.errno == errno.EROFS:
        return UnavailableError(
            f"{location}: {error.strerror}; the system forbids to write to this disk, as it does after an error of the "
            "disk: look at the log of the system, and start again when the disk can be written; nothing is lost"
        )
    if error.errno not in _SHORT:
        return None
    return UnavailableError(
        f"{location}: {error.strerror}; free some space (or raise the limit) and start again, nothing is lost"
    )
