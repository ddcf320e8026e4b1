"""What the writers share: a text file that appears whole, deterministic gzip, exact times, clean text."""

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
"""Of gzip: a release takes a fifth more space than at level 6, and two fifths of the time to pack."""


def clean(text: str) -> str:
    """The text with U+FFFD for what XML 1.0 cannot hold (control characters, lone surrogates)."""
    return text if text.isprintable() else _UNWRITABLE.sub("\ufffd", text)


def isoformat(time: Ints) -> list[str]:
    """UTC times with zone, exact: milliseconds, or as fine as the finest time of the column needs."""
    units: dict[int, Literal["ms", "us", "ns"]] = {3: "ms", 6: "us", 9: "ns"}
    unit = units[fraction_digits(time)]
    moments = time.astype("datetime64[ns]")
    return [f"{text}+00:00" for text in np.datetime_as_string(moments, unit=unit).tolist()]


def fraction_digits(time: Ints) -> int:
    """Digits of a second that the finest time of a column needs: 3, 6 or 9."""
    return 3 if not np.any(time % 1_000_000) else 6 if not np.any(time % 1_000) else 9


def isoformat_rows(time: Ints, fraction: int, before: bytes, after: bytes) -> npt.NDArray[np.uint8]:
    """`before`, the text of `isoformat` and `after`, for each time, in a row of bytes: digits are written by the
    column, which is quicker, since times that are protected event by event rarely repeat."""
    days, rest = np.divmod(time, _DAY)
    distinct, day = np.unique(days, return_inverse=True)
    dates = np.datetime_as_string(distinct.astype("datetime64[D]")).astype("S10").view(np.uint8).reshape(-1, 10)
    form = before + b"0000-00-00T00:00:00." + b"0" * fraction + b"+00:00" + after
    table = np.tile(np.frombuffer(form, dtype=np.uint8), (len(time), 1))
    at = len(before)
    table[:, at : at + 10] = dates[day]
    seconds, nano = np.divmod(rest, 1_000_000_000)
    for place, number in ((11, seconds // 3600), (14, seconds // 60 % 60), (17, seconds % 60)):
        table[:, at + place] += (number // 10).astype(np.uint8)
        table[:, at + place + 1] += (number % 10).astype(np.uint8)
    shown = nano // 10 ** (9 - fraction)
    for place in range(fraction):
        table[:, at + 20 + place] += (shown // 10 ** (fraction - 1 - place) % 10).astype(np.uint8)
    return table


def isodurations(time: Ints) -> list[str]:
    """Times relative to the start of their case as durations of ISO 8601, exact; InputError for negative ones."""
    import pandas as pd

    if np.any(time < 0):
        raise InputError("times before the start of their case cannot be written as durations")
    distinct, place = np.unique(time, return_inverse=True)
    texts = [pd.Timedelta(value, unit="ns").isoformat() for value in distinct.tolist()]
    return [texts[one] for one in place.tolist()]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes the name of `path` when all went well, else it is removed."""
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
    """A UTF-8 text stream, packed when the name ends in `.gz`; no name and no time in the gzip header."""
    with writing_bytes(path) as raw:
        stream = io.TextIOWrapper(raw, encoding="utf-8", newline="", write_through=False)
        yield stream
        stream.flush()
        stream.detach()


@contextmanager
def writing_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The same for bytes."""
    with replacing(path) as draft, draft.open("wb") as raw:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=_LEVEL) as packed:
                yield cast(IO[bytes], packed)
        else:
            yield raw
