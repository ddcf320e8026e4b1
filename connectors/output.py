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

from models.errors import InputError, kind_of
from models.eventlog import Ints

_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean(text: str) -> str:
    """The text with U+FFFD for what XML 1.0 cannot hold (control characters, lone surrogates)."""
    return text if text.isprintable() else _UNWRITABLE.sub("\ufffd", text)


def isoformat(time: Ints) -> list[str]:
    """UTC times with zone, exact: milliseconds, or as fine as the finest time of the column needs."""
    unit: Literal["ms", "us", "ns"] = (
        "ms" if not np.any(time % 1_000_000) else "us" if not np.any(time % 1_000) else "ns"
    )
    moments = time.astype("datetime64[ns]")
    return [f"{text}+00:00" for text in np.datetime_as_string(moments, unit=unit).tolist()]


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
    with replacing(path) as draft, draft.open("wb") as raw:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as packed:
                yield from _text(cast(IO[bytes], packed))
        else:
            yield from _text(raw)


def _text(raw: IO[bytes]) -> Iterator[IO[str]]:
    stream = io.TextIOWrapper(raw, encoding="utf-8", newline="", write_through=False)
    yield stream
    stream.flush()
    stream.detach()
