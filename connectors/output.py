"""Shared parts of the writers: whole files, deterministic gzip, exact times."""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, cast

import numpy as np
import numpy.typing as npt

from models.errors import InputError, kind_of
from models.eventlog import Ints

_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


_DAY = 86_400_000_000_000
"""Nanoseconds."""

_LEVEL = 3
"""Level of gzip. A release takes a fifth more space than at level 6, and two fifths of the time to pack."""


def clean(text: str) -> str:
    """Return the text with U+FFFD in place of control characters and lone surrogates, which XML 1.0 cannot hold.

    Parameters
    ----------
    text
        Any text.
    """
    return text if text.isprintable() else _UNWRITABLE.sub("\ufffd", text)


def isoformat(time: Ints) -> list[str]:
    """Return UTC times with zone, exactly.

    They have milliseconds, or as many digits as the finest time of the column needs.

    Parameters
    ----------
    time
        int64, nanoseconds since 1970-01-01 UTC.
    """
    units: dict[int, Literal["ms", "us", "ns"]] = {3: "ms", 6: "us", 9: "ns"}
    unit = units[fraction_digits(time)]
    moments = time.astype("datetime64[ns]")
    return [f"{text}+00:00" for text in np.datetime_as_string(moments, unit=unit).tolist()]


def fraction_digits(time: Ints) -> int:
    """Return the digits of a second that the finest time of a column needs: 3, 6 or 9.

    Parameters
    ----------
    time
        int64, nanoseconds.
    """
    if not np.any(time % 1_000_000):
        return 3
    return 6 if not np.any(time % 1_000) else 9


def isoformat_rows(time: Ints, fraction: int, before: bytes, after: bytes) -> npt.NDArray[np.uint8]:
    """Return each time as the bytes of one line, in a row of a table.

    A line is `before`, the text of `isoformat` and `after`. Digits are written column by column: times that are
    protected event by event rarely repeat, and this is faster.

    Parameters
    ----------
    time
        int64[T], ns since 1970-01-01 UTC.
    fraction
        Digits of a second.
    before, after
        Bytes around each time.

    Returns
    -------
    NDArray
        uint8[T, width].
    """
    days, time_of_day = np.divmod(time, _DAY)
    distinct_days, day = np.unique(days, return_inverse=True)
    date_texts = np.datetime_as_string(distinct_days.astype("datetime64[D]"))
    date_bytes = date_texts.astype("S10").view(np.uint8).reshape(-1, 10)
    form = before + b"0000-00-00T00:00:00." + b"0" * fraction + b"+00:00" + after
    table = np.tile(np.frombuffer(form, dtype=np.uint8), (len(time), 1))
    begin = len(before)
    table[:, begin : begin + 10] = date_bytes[day]
    seconds, nanos = np.divmod(time_of_day, 1_000_000_000)
    # The form has the digit 0 everywhere, so adding a number from 0 to 9 writes its digit.
    for place, number in ((11, seconds // 3600), (14, seconds // 60 % 60), (17, seconds % 60)):
        table[:, begin + place] += (number // 10).astype(np.uint8)
        table[:, begin + place + 1] += (number % 10).astype(np.uint8)
    fraction_of_second = nanos // 10 ** (9 - fraction)
    for place in range(fraction):
        digit = fraction_of_second // 10 ** (fraction - 1 - place) % 10
        table[:, begin + 20 + place] += digit.astype(np.uint8)
    return table


def isodurations(time: Ints) -> list[str]:
    """Return times since the start of their case as durations of ISO 8601, exactly.

    Parameters
    ----------
    time
        int64, nanoseconds.

    Raises
    ------
    InputError
        A time is negative.
    """
    import pandas as pd

    if np.any(time < 0):
        raise InputError("times before the start of their case cannot be written as durations")
    distinct, place = np.unique(time, return_inverse=True)
    texts = [pd.Timedelta(value, unit="ns").isoformat() for value in distinct.tolist()]
    return [texts[number] for number in place.tolist()]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path, which replaces `path` at the end of the block, or is removed after an error.

    Parameters
    ----------
    path
        The file to make or replace.

    Raises
    ------
    VeilstreamError
        If it cannot be written (`models.errors.kind_of`).
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        yield draft
        os.replace(draft, path)
    except OSError as error:
        raise kind_of(error)(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[IO[str]]:
    """Yield a UTF-8 text stream, packed if the name ends in `.gz`.

    The gzip header has no name and no time: the bytes depend on the text alone.

    Parameters
    ----------
    path
        The file to make or replace, at the end of the block.
    """
    with writing_bytes(path) as raw:
        stream = io.TextIOWrapper(raw, encoding="utf-8", newline="", write_through=False)
        yield stream
        stream.flush()
        stream.detach()


@contextmanager
def writing_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Yield a stream of bytes, as `writing` does for text.

    Parameters
    ----------
    path
        The file to make or replace, at the end of the block.
    """
    with replacing(path) as draft, draft.open("wb") as raw:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=_LEVEL) as packed:
                yield cast(IO[bytes], packed)
        else:
            yield raw
