"""The state that grows with the log: events and cases in columns, about 26 bytes an event.

Events are in order of acceptance; within one partition that is the order of offsets, so (time, partition, position)
is the trace order (event time, source, partition, offset) without storing an offset.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from models.eventlog import MISSING

GROWTH = 1.25
"""Room added when a column is full: at most a fifth of the memory is unused (24 bytes an event become 30, and the bound
is 32), and each value is copied about 4 times. At an eighth the copies cost 3 % of the whole fold."""

REFUSED = -1
"""Code of a case that was erased or has left by retention: its events do not come back."""

PENDING, EXPOSED, DROPPED, RETIRED = 0, 1, 2, 3
"""What a publication has done with an event: not yet, exposed by a cut, left out because late; of a case whose
retention is over for a publication with a dp promise, or that is one too many of its person
(`stream.fold.exposure.Once`): it leaves the state when every publication has let it go."""

DERIVED = ("known:", "pending:", "had:")
"""Prefixes of columns that follow from the others, and so are not in a snapshot."""

Array = npt.NDArray[Any]


class ColumnTable:
    """Columns of equal length that grow together. `table["name"]` is a view of the rows in use."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.size = 0
        self._room = 0
        self._data: dict[str, Array] = {name: np.zeros(0, dtype=dtype) for name, dtype in columns.items()}

    def __getitem__(self, name: str) -> Array:
        """Return a view of a column's rows in use."""
        return self._data[name][: self.size]

    def __contains__(self, name: str) -> bool:
        """Whether there is a column of this name."""
        return name in self._data

    @property
    def nbytes(self) -> int:
        """Memory held, room to grow included."""
        return sum(column.nbytes for column in self._data.values())

    def add_column(self, name: str, dtype: str) -> None:
        """Add a column of zeros."""
        self._data[name] = np.zeros(self._room, dtype=dtype)

    def drop_column(self, name: str) -> None:
        """Remove a column."""
        del self._data[name]

    def reserve(self, size: int) -> None:
        """Make room for `size` rows; new rows are zero in every column."""
        if size <= self._room:
            return
        self._room = max(size, int(self._room * GROWTH), 256)
        for name, column in self._data.items():
            grown = np.zeros(self._room, dtype=column.dtype)
            grown[: len(column)] = column
            self._data[name] = grown

    def stage(self, columns: Mapping[str, Any], count: int) -> None:
        """Write rows behind the end; they come into use when `size` passes them."""
        self.reserve(self.size + count)
        for name, column in self._data.items():
            column[self.size : self.size + count] = columns.get(name, 0)

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Keep only the rows of the mask, in order, and free the memory of the others."""
        self._data = {name: self[name][mask] for name in self._data}
        self.size = self._room = int(mask.sum())

    @property
    def kept(self) -> list[str]:
        """Names of the columns that a snapshot has; `DERIVED` ones are counted anew on restore."""
        return [name for name in sorted(self._data) if not name.startswith(DERIVED)]

    def to_state(self) -> dict[str, Any]:
        """Return the kept columns by name, each as its type and its bytes."""
        return {name: [self._data[name].dtype.str, self[name].tobytes()] for name in self.kept}

    def load(self, state: Mapping[str, Any]) -> None:
        """Replace all columns by those of `to_state`."""
        self._data = {name: np.frombuffer(raw, dtype=dtype).copy() for name, (dtype, raw) in state.items()}
        self.size = self._room = min((len(column) for column in self._data.values()), default=0)


class Codes(dict[Any, int]):
    """Codes of values in order of first appearance."""

    def __missing__(self, value: Any) -> int:
        """Give a new value the next code."""
        code = self[value] = len(self)
        return code


class ActorCodes(Codes):
    """Codes in which None is a missing value.

    It holds the place of code -1, so that no row needs a test.
    """

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__({None: MISSING})
        self.update((value, code) for code, value in enumerate(values))

    def __missing__(self, value: Any) -> int:
        """Give a new value the next code; None does not count."""
        code = self[value] = len(self) - 1
        return code


def coded(index: Mapping[Any, int], values: Sequence[Any]) -> npt.NDArray[np.int32]:
    """Return the code of each value, int32."""
    return np.fromiter(map(index.__getitem__, values), dtype=np.int32, count=len(values))


class CaseIndex(dict[str, int]):
    """Codes of pseudonyms in order of first appearance; removed cases have the code REFUSED.

    Only a digest is kept of a removed case: enough to refuse later events of the case, and it does not name it.
    """

    def __init__(self, cases: Iterable[tuple[str, int]] = (), gone: set[bytes] | None = None) -> None:
        super().__init__(cases)
        self.gone: set[bytes] = set() if gone is None else gone  # handed on, not copied: it only ever grows

    def __missing__(self, case: str) -> int:
        """Give a new case the next code, and a removed one REFUSED."""
        if self.gone and digest(case) in self.gone:
            return REFUSED
        code = self[case] = len(self)
        return code

    def names(self, size: int) -> list[str]:
        """Return the pseudonyms of the first `size` codes."""
        result = [""] * size
        for name, code in self.items():
            if code < size:
                result[code] = name
        return result

    def recoded(self, keep: npt.NDArray[np.bool_]) -> CaseIndex:
        """Return an index of the cases of the mask under new codes, to replace this one.

        The other cases are removed for good.
        """
        code = np.cumsum(keep) - 1
        kept = [(name, int(code[old])) for name, old in self.items() if old < len(keep) and keep[old]]
        self.gone.update(digest(name) for name, old in self.items() if old < len(keep) and not keep[old])
        return CaseIndex(kept, self.gone)


def digest(case: str) -> bytes:
    """Return the digest that is kept of a removed case: 16 bytes, one-way."""
    return hashlib.blake2b(case.encode(), digest_size=16).digest()


class AttributeValues:
    """Values of one attribute where an event carries one: (event, code) pairs, 8 bytes each."""

    def __init__(self) -> None:
        self.rows = ColumnTable({"event": "<u4", "code": "<i4"})
        self.values = Codes()

    def add(self, events: Sequence[int], values: Iterable[Any]) -> None:
        """Add the values of some events."""
        self.rows.stage({"event": events, "code": [self.values[value] for value in values]}, len(events))
        self.rows.size += len(events)

    def dense(self, size: int) -> npt.NDArray[np.int32]:
        """Return one code per event, int32[size]; MISSING if the event has none."""
        result = np.full(size, MISSING, dtype=np.int32)
        inside = self.rows["event"] < size
        result[self.rows["event"][inside]] = self.rows["code"][inside]
        return result

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Follow the events of the mask to their new positions.

        The values of other events are dropped, and values that no event has any more.
        """
        self.rows.keep(mask[self.rows["event"]])
        self.rows["event"][:] = (np.cumsum(mask) - 1)[self.rows["event"]]
        used, codes = np.unique(self.rows["code"], return_inverse=True)
        self.rows["code"][:] = codes
        values = list(self.values)
        self.values = Codes({values[old]: new for new, old in enumerate(used.tolist())})

    def to_state(self) -> dict[str, Any]:
        """Return plain values, for `from_state`."""
        return {"rows": self.rows.to_state(), "values": list(self.values)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> AttributeValues:
        """Return the attribute that `to_state` described."""
        attribute = cls()
        attribute.rows.load(state["rows"])
        attribute.values = Codes({value: code for code, value in enumerate(state["values"])})
        return attribute


INT64 = range(-(1 << 63), 1 << 63)


def plain(value: Any) -> Any:
    """Return an attribute value in a form that can be counted and saved.

    NaN is missing. Lists and tables become their JSON. Integers beyond 64 bits become their digits: ingest refuses
    them, but old deltas and files may contain some.
    """
    if isinstance(value, list | dict):
        return msgspec.json.encode(value, order="deterministic").decode()
    if type(value) is int and value not in INT64:
        return str(value)
    return None if value != value else value
