"""The columnar, integer-coded event log that every mechanism and every measure reads.

A log is a bag of cases; a case is its events in trace order (time, then file order). Strings are coded
once into small integers (`Column`), so that counting is counting of integers.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.errors import InputError
from models.instants import instants

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
"""One flag for each case or event: whether it is kept, chosen, changed."""

MISSING = -1
"""Code of a missing value in a `Column`."""


def starts_of(lengths: npt.NDArray[Any]) -> Ints:
    """Return where each of several consecutive runs begins, and where the last one ends.

    Parameters
    ----------
    lengths
        int64[N], elements of each run; a mask counts its elements.

    Returns
    -------
    Ints
        int64[N + 1]: run i has the places starts[i] .. starts[i + 1] - 1.

    Examples
    --------
    >>> starts_of(np.asarray([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def places_of(starts: Ints, runs: npt.NDArray[np.integer]) -> tuple[Ints, Ints]:
    """Return the places of the chosen runs, one run after the other.

    Parameters
    ----------
    starts
        int64[N + 1], as `starts_of` gives them.
    runs
        int64[M], the chosen runs in the wanted order; a run may occur more than once.

    Returns
    -------
    chosen_starts : Ints
        int64[M + 1], where each chosen run begins in `places`.
    places : Ints
        int64[P], the places of their elements.

    Examples
    --------
    >>> chosen_starts, places = places_of(np.asarray([0, 2, 2, 5]), np.asarray([2, 0]))
    >>> chosen_starts.tolist(), places.tolist()
    ([0, 3, 5], [2, 3, 4, 0, 1])
    """
    lengths = np.diff(starts)[runs]
    chosen_starts = starts_of(lengths)
    places = np.arange(chosen_starts[-1])
    places += np.repeat(starts[runs] - chosen_starts[:-1], lengths)
    return chosen_starts, places


def place_in_run(starts: Ints) -> Ints:
    """Return the place of each element in its run, from 0.

    Parameters
    ----------
    starts
        int64[N + 1], as `starts_of` gives them.

    Returns
    -------
    Ints
        int64[P].

    Examples
    --------
    >>> place_in_run(np.asarray([0, 2, 2, 5])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.asarray(np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts)), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Column:
    """Dictionary-coded values: value i is `values[codes[i]]`.

    Parameters
    ----------
    codes
        int32[N]; -1 is a missing value.
    values
        Distinct values. Their order has no meaning.
    """

    codes: Codes
    values: tuple[Any, ...]

    @classmethod
    def encode(cls, raw: Iterable[Hashable | None]) -> Column:
        """Return the column of `raw`, coded in order of first appearance.

        None and NaN are missing.

        Parameters
        ----------
        raw
            Entries of the column.

        Examples
        --------
        >>> column = Column.encode(["a", "b", None, "a"])
        >>> column.codes.tolist(), column.values
        ([0, 1, -1, 0], ('a', 'b'))
        """
        entries = raw if isinstance(raw, (list, tuple)) else list(raw)
        distinct = dict.fromkeys(entries)
        # NaN is the only value that differs from itself.
        values = tuple(value for value in distinct if value is not None and value == value)
        code_of: dict[Hashable | None, int] = dict.fromkeys(distinct, MISSING)
        code_of.update(zip(values, range(len(values)), strict=True))
        codes = np.fromiter(map(code_of.__getitem__, entries), np.int32, count=len(entries))
        return cls(codes, values)

    @classmethod
    def together(cls, columns: Iterable[Column]) -> Column:
        """Return the entries of several columns, one column after the other, in one coding.

        Parameters
        ----------
        columns
            Columns in order. A value that several of them have gets one code.

        Examples
        --------
        >>> both = Column.together([Column.encode(["a", "b"]), Column.encode(["b", None])])
        >>> both.decode(), both.values
        (['a', 'b', 'b', None], ('a', 'b'))
        """
        code_of: dict[Any, int] = {}
        parts = [np.zeros(0, dtype=np.int32)]
        for column in columns:
            codes = [code_of.setdefault(value, len(code_of)) for value in column.values]
            # The last place is that of missing values, whose code is -1.
            table = np.asarray([*codes, MISSING], dtype=np.int32)
            parts.append(table[column.codes])
        return cls(np.concatenate(parts), tuple(code_of))

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.codes)

    def __repr__(self) -> str:
        """Return the sizes alone: a notebook shows no values of persons."""
        return f"Column(entries={len(self.codes)}, distinct={len(self.values)})"

    def decode(self) -> list[Any]:
        """Return the values, None if missing."""
        table = (*self.values, None)
        return [table[code] for code in self.codes.tolist()]

    def in_order_of(self, values: Iterable[Hashable]) -> Column:
        """Return the same entries with the values in the order of others; values that these lack are last.

        Parameters
        ----------
        values
            Values in the wanted order. The column need not have all of them.

        Examples
        --------
        >>> column = Column.encode(["b", "a", "b"]).in_order_of(["a", "b", "c"])
        >>> column.values, column.codes.tolist()
        (('a', 'b'), [1, 0, 1])
        """
        rank = {value: place for place, value in enumerate(values)}
        order = sorted(range(len(self.values)), key=lambda code: rank.get(self.values[code], len(rank)))
        code_of = np.full(len(order) + 1, MISSING, dtype=np.int32)  # its last place is that of code -1
        code_of[order] = np.arange(len(order), dtype=np.int32)
        return Column(code_of[self.codes], tuple(self.values[code] for code in order))

    def with_missing_as_value(self) -> Column:
        """Return the entries with None as a value like any other, if some are missing.

        Examples
        --------
        >>> column = Column.encode(["a", None]).with_missing_as_value()
        >>> column.codes.tolist(), column.values
        ([0, 1], ('a', None))
        """
        is_missing = self.codes < 0
        if not np.any(is_missing):
            return self
        codes = np.where(is_missing, len(self.values), self.codes).astype(np.int32)
        return Column(codes, (*self.values, None))

    def take(self, rows: npt.NDArray[Any] | slice) -> Column:
        """Return the chosen rows (indices, mask or slice), without values that no row has.

        Parameters
        ----------
        rows
            Rows to take, in this order.
        """
        codes = self.codes[rows]
        # The last place is that of missing values, whose code is -1.
        is_used = np.zeros(len(self.values) + 1, dtype=np.bool_)
        is_used[codes] = True
        used = np.flatnonzero(is_used[:-1])
        recode = np.full(len(self.values) + 1, MISSING, dtype=np.int32)
        recode[used] = np.arange(len(used), dtype=np.int32)
        return Column(recode[codes], tuple(self.values[code] for code in used))


@content_free("n_cases", "n_events")
@dataclass(frozen=True, slots=True)
class EventLog:
    """Cases and their events.

    Parameters
    ----------
    case_ids
        Name of each case, C of them.
    starts
        int64[C + 1]: the events of case c are rows starts[c] .. starts[c + 1] - 1, in trace order.
    activity, resource
        One code per event, E of them. All resources may be missing.
    time
        int64[E], ns since 1970-01-01 UTC.
    row
        int64[E], position of each event in its source (file order).
    case_attributes, event_attributes
        Further columns by name, per case and per event.
    offset
        int32[E], minutes by which the clock of each event, as the file writes it, is ahead of UTC. None if unknown.
    """

    case_ids: tuple[str, ...]
    starts: Ints
    activity: Column
    time: Ints
    resource: Column
    row: Ints
    case_attributes: Mapping[str, Column] = field(default_factory=dict)
    event_attributes: Mapping[str, Column] = field(default_factory=dict)
    offset: Codes | None = None
    """Minutes by which each event's clock, as the file writes it, is ahead of UTC; None if unknown."""

    def __post_init__(self) -> None:
        """Check that `starts` partitions the events, and that all columns have their length."""
        events = len(self.time)
        if len(self.starts) != len(self.case_ids) + 1 or self.starts[0] != 0 or self.starts[-1] != events:
            raise ValueError("starts does not partition the events into the cases")
        for name, column in (
            ("activity", self.activity),
            ("resource", self.resource),
            *self.event_attributes.items(),
        ):
            if len(column) != events:
                raise ValueError(f"event column {name!r} has {len(column)} rows for {events} events")
        for name, column in self.case_attributes.items():
            if len(column) != len(self.case_ids):
                raise ValueError(f"case column {name!r} has {len(column)} rows for {len(self.case_ids)} cases")

    @property
    def n_cases(self) -> int:
        """Number of cases, C."""
        return len(self.case_ids)

    @property
    def n_events(self) -> int:
        """Number of events, E."""
        return len(self.time)

    @property
    def lengths(self) -> Ints:
        """Events per case, int64[C]."""
        return np.diff(self.starts)

    @property
    def case_of_event(self) -> Ints:
        """Index of the case of each event, int64[E]."""
        return np.repeat(np.arange(self.n_cases, dtype=np.int64), self.lengths)

    def traces(self) -> list[tuple[str, ...]]:
        """Return the activity sequence of each case.

        Examples
        --------
        >>> EventLog.from_traces([("ab", None), ("b", None)]).traces()
        [('a', 'b'), ('b',)]
        """
        names = self.activity.decode()
        return [tuple(names[a:b]) for a, b in itertools.pairwise(self.starts.tolist())]

    def trace_keys(self, labels: dict[Any, int]) -> list[bytes]:
        """Return the activity sequence of each case as bytes.

        Equal keys are equal traces, also of two logs that share `labels`.

        Parameters
        ----------
        labels
            Number of each activity; new activities are added to it.
        """
        numbers = [labels.setdefault(value, len(labels)) for value in self.activity.values]
        number_of_code = np.asarray([*numbers, MISSING], dtype=np.int32)
        all_bytes = number_of_code[self.activity.codes].tobytes()
        bounds = (self.starts * number_of_code.itemsize).tolist()
        return [all_bytes[begin:end] for begin, end in itertools.pairwise(bounds)]

    def case_values(self, name: str) -> Column:
        """Return the value of an attribute for each case.

        It is the case attribute if the case has one, and otherwise the last event value in trace order that is not
        missing.

        Parameters
        ----------
        name
            Name of a case attribute or of an event attribute.

        Raises
        ------
        InputError
            The log has no such attribute.
        """
        if name not in self.case_attributes and name not in self.event_attributes:
            names = sorted({*self.case_attributes, *self.event_attributes})
            raise InputError(f"attribute {name!r} is not in the log; it has {', '.join(names) or 'none'}")
        result: list[Any] = [None] * self.n_cases
        if name in self.event_attributes:
            column = self.event_attributes[name]
            present = np.flatnonzero(column.codes >= 0)
            # Later events of a case overwrite earlier ones.
            for event, case in zip(present, self.case_of_event[present], strict=True):
                result[case] = column.values[column.codes[event]]
        if name in self.case_attributes:
            case_values = self.case_attributes[name].decode()
            result = [last if value is None else value for value, last in zip(case_values, result, strict=True)]
        return Column.encode(result)

    def cases_with_several_values(self, name: str) -> int:
        """Return how many cases have events with different values of an attribute; `case_values` uses the last one.

        Parameters
        ----------
        name
            Name of an event attribute. The number is 0 if the log has none of that name.
        """
        column = self.event_attributes.get(name)
        if column is None:
            return 0
        has_value = column.codes >= 0
        case, code = self.case_of_event[has_value], column.codes[has_value]
        is_changed = (case[1:] == case[:-1]) & (code[1:] != code[:-1])
        return len(np.unique(case[1:][is_changed]))

    def changing_cases(self, names: Sequence[str]) -> dict[str, int]:
        """Return how many cases have events with different values, by attribute (`cases_with_several_values`).

        Parameters
        ----------
        names
            Names of event attributes.
        """
        return {name: self.cases_with_several_values(name) for name in names}

    def sensitive(self, names: Sequence[str]) -> Column:
        """Return the joint sensitive value of each case.

        Parameters
        ----------
        names
            One name gives the values of that attribute. Several give tuples with None for a missing part; a tuple is
            missing if all its parts are.
        """
        if not names:
            return Column(np.full(self.n_cases, MISSING, dtype=np.int32), ())
        if len(names) == 1:
            return self.case_values(names[0])
        parts = [self.case_values(name).decode() for name in names]
        all_missing = (None,) * len(parts)
        joint_values = zip(*parts, strict=True)
        return Column.encode(None if joint == all_missing else joint for joint in joint_values)

    @classmethod
    def together(cls, logs: Sequence[EventLog]) -> EventLog:
        """Return the cases of several logs as one log, one log after the other, in one coding.

        Case ids and rows stay as they are: the caller makes them distinct first.

        Parameters
        ----------
        logs
            Logs in order, at least one. An attribute that one of them lacks is missing for its cases or events. Clocks
            are known (`offset`) only if those of all logs are.

        Examples
        --------
        >>> first = EventLog.from_traces([(("register", "pay"), "flu")])
        >>> second = EventLog.from_traces([(("register",), None)])
        >>> EventLog.together([first, second]).traces()
        [('register', 'pay'), ('register',)]
        """
        offsets = [log.offset for log in logs if log.offset is not None]
        return cls(
            case_ids=tuple(itertools.chain.from_iterable(log.case_ids for log in logs)),
            starts=starts_of(np.concatenate([log.lengths for log in logs])),
            activity=Column.together([log.activity for log in logs]),
            time=np.concatenate([log.time for log in logs]),
            resource=Column.together([log.resource for log in logs]),
            row=np.concatenate([log.row for log in logs]),
            case_attributes=_attributes_together([log.case_attributes for log in logs], [log.n_cases for log in logs]),
            event_attributes=_attributes_together(
                [log.event_attributes for log in logs], [log.n_events for log in logs]
            ),
            offset=np.concatenate(offsets) if len(offsets) == len(logs) else None,
        )

    def select_cases(self, cases: npt.NDArray[Any]) -> EventLog:
        """Return the chosen cases with all their events.

        Parameters
        ----------
        cases
            bool[C], or indices in the wanted order.
        """
        chosen = np.flatnonzero(cases) if cases.dtype == np.bool_ else np.asarray(cases, dtype=np.int64)
        starts, events = places_of(self.starts, chosen)
        return self._take(chosen, starts, events)

    def select_events(self, events: npt.NDArray[np.bool_], *, drop_empty: bool = False) -> EventLog:
        """Return the chosen events.

        Parameters
        ----------
        events
            bool[E].
        drop_empty
            Whether cases without events are dropped.
        """
        chosen = np.flatnonzero(events)
        starts = np.searchsorted(chosen, self.starts).astype(np.int64, copy=False)
        cases = np.arange(self.n_cases)
        if drop_empty:
            cases = np.flatnonzero(np.diff(starts))
            starts = np.append(starts[cases], starts[-1])
        return self._take(cases, starts, chosen)

    def _take(self, cases: Ints, starts: Ints, events: Ints) -> EventLog:
        return EventLog(
            case_ids=tuple([self.case_ids[case] for case in cases.tolist()]),
            starts=starts,
            activity=self.activity.take(events),
            time=self.time[events],
            resource=self.resource.take(events),
            row=self.row[events],
            case_attributes={name: column.take(cases) for name, column in self.case_attributes.items()},
            event_attributes={name: column.take(events) for name, column in self.event_attributes.items()},
            offset=None if self.offset is None else self.offset[events],
        )

    def with_columns(
        self,
        *,
        case: Mapping[str, Column] | None = None,
        event: Mapping[str, Column] | None = None,
    ) -> EventLog:
        """Return the same events with other case and event attributes.

        Parameters
        ----------
        case, event
            All attributes of the result; None keeps those of this log.
        """
        return replace(
            self,
            case_attributes=self.case_attributes if case is None else dict(case),
            event_attributes=self.event_attributes if event is None else dict(event),
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Return the log in the form of pm4py: one row per event, XES names, times in UTC.

        Attributes of a case are columns `case:X`. Cases without events have no row.
        """
        import pandas as pd

        cases = self.case_of_event
        columns: dict[str, Any] = {
            "case:concept:name": [self.case_ids[case] for case in cases.tolist()],
            "concept:name": self.activity.decode(),
            "time:timestamp": pd.to_datetime(self.time, unit="ns", utc=True),
            "org:resource": self.resource.decode(),
        }
        for name, column in self.case_attributes.items():
            columns[f"case:{name}"] = column.take(cases).decode()
        for name, column in self.event_attributes.items():
            columns[name] = column.decode()
        return pd.DataFrame(columns)

    @classmethod
    def from_events(
        cls,
        case: Sequence[str],
        activity: Sequence[str],
        time: Any,
        resource: Sequence[str | None] | None = None,
        case_attributes: Mapping[str, Mapping[str, Any]] | None = None,
        event_attributes: Mapping[str, Sequence[Any]] | None = None,
        *,
        unit: str | None = None,
        timezone: str | None = None,
    ) -> EventLog:
        """Group flat events (one entry each, in file order) into cases.

        Cases appear in the order of their first event, and the events of a case in time order.

        Parameters
        ----------
        case, activity, resource
            One name per event.
        time
            One datetime per event, of any unit and zone: a pandas series, an Arrow column, a numpy array
            ``datetime64`` or a sequence of ``datetime`` (`models.instants.instants`).
        case_attributes
            Attribute to case id to value.
        event_attributes
            Attribute to one value per event.
        unit
            ns, us, ms or s: the unit of times that are integers, since 1970-01-01 UTC.
        timezone
            IANA name of the zone of datetimes that carry none.

        Raises
        ------
        InputError
            An event without a case, integers without a unit, a missing time, one without a zone, or one outside the
            years 1678 to 2261.
        """
        stamps = instants(time, unit=unit, timezone=timezone)
        owner = Column.encode(case)
        if len(owner) != len(stamps):
            raise InputError(f"{len(owner)} case ids for {len(stamps)} times; give one of each per event")
        if np.any(owner.codes < 0):
            raise InputError(f"event {int(np.argmin(owner.codes)) + 1} has no case id")
        order = np.lexsort((np.arange(len(stamps)), stamps, owner.codes))
        counts = np.bincount(owner.codes, minlength=len(owner.values))
        columns = {name: Column.encode(values) for name, values in (event_attributes or {}).items()}
        actors = Column.encode(resource if resource is not None else [None] * len(stamps))
        ids = tuple(str(value) for value in owner.values)
        return cls(
            case_ids=ids,
            starts=starts_of(counts),
            activity=_reorder(Column.encode(activity), order),
            time=stamps[order],
            resource=_reorder(actors, order),
            row=order.astype(np.int64),
            case_attributes={
                name: Column.encode(by_case.get(case_id) for case_id in owner.values)
                for name, by_case in (case_attributes or {}).items()
            },
            event_attributes={name: _reorder(column, order) for name, column in columns.items()},
        )

    @classmethod
    def from_traces(
        cls, cases: Iterable[tuple[Sequence[str], Hashable | None]], sensitive: str = "sensitive"
    ) -> EventLog:
        """Return a log of (trace, sensitive value) pairs, for tests and notebooks.

        It has one event per second.

        Parameters
        ----------
        cases
            Activities and sensitive value of each case.
        sensitive
            Name of the case attribute that has these values.
        """
        pairs = [(list(trace), value) for trace, value in cases]
        lengths = np.asarray([len(trace) for trace, _ in pairs], dtype=np.int64)
        starts = starts_of(lengths)
        total = int(starts[-1])
        return cls(
            case_ids=tuple(str(number) for number in range(1, len(pairs) + 1)),
            starts=starts,
            activity=Column.encode(name for trace, _ in pairs for name in trace),
            time=place_in_run(starts) * 1_000_000_000,
            resource=Column(np.full(total, MISSING, dtype=np.int32), ()),
            row=np.arange(total, dtype=np.int64),
            case_attributes={sensitive: Column.encode(value for _, value in pairs)},
        )


def _attributes_together(tables: Sequence[Mapping[str, Column]], lengths: Sequence[int]) -> dict[str, Column]:
    """Return the columns of all tables by name, one table after the other.

    A table of `lengths[i]` entries that lacks a column has missing values there.
    """
    all_missing = [Column(np.full(length, MISSING, dtype=np.int32), ()) for length in lengths]
    together = {}
    for name in dict.fromkeys(itertools.chain.from_iterable(tables)):
        columns = [table.get(name, missing) for table, missing in zip(tables, all_missing, strict=True)]
        together[name] = Column.together(columns)
    return together


def _reorder(column: Column, order: npt.NDArray[Any]) -> Column:
    return Column(column.codes[order], column.values)


@content_free("n_cases")
@dataclass(frozen=True, slots=True)
class SimpleLog:
    """The simple event log as a bag: (variant, sensitive value) -> count.

    Parameters
    ----------
    alphabet
        The items: activities, or tuples of activity, resource, relative time.
    variants
        Distinct sequences of item codes.
    values
        Distinct sensitive values. A missing value is a value of its own, None.
    variant, value, count
        int32[R], int32[R], int64[R]: one row per pair that occurs, count >= 1.
    row_of_case
        int32[C], the row in which each case of the source log is counted.

    References
    ----------
    correspondence-attacks-2021, Def. 5.
    """

    alphabet: tuple[Any, ...]
    variants: tuple[tuple[int, ...], ...]
    values: tuple[Any, ...]
    variant: Codes
    value: Codes
    count: Ints
    row_of_case: Codes

    @property
    def n_cases(self) -> int:
        """Number of cases of all rows."""
        return int(self.count.sum())

    @classmethod
    def from_items(
        cls,
        starts: Ints,
        items: Column,
        sensitive: Column,
        cases: Ints | None = None,
    ) -> SimpleLog:
        """Count the traces `items[starts[c]:starts[c + 1]]` by sensitive value.

        Parameters
        ----------
        starts
            int64[C + 1]. Cases may be empty.
        items, sensitive
            Item of each event, and sensitive value of each case.
        cases
            int64[C], how many cases each one represents (rows of a table of variants); one by default.
        """
        # The bytes of a trace's codes identify its variant.
        number_of_variant: dict[bytes, int] = {}
        all_bytes = items.codes.tobytes()
        bounds = (np.asarray(starts) * items.codes.itemsize).tolist()
        traces = (all_bytes[begin:end] for begin, end in itertools.pairwise(bounds))
        numbers = [number_of_variant.setdefault(trace, len(number_of_variant)) for trace in traces]
        variant_of_case = np.asarray(numbers, dtype=np.int64)
        value_of_case = sensitive.with_missing_as_value()
        n_values = max(len(value_of_case.values), 1)
        pairs, row_of_case = np.unique(variant_of_case * n_values + value_of_case.codes, return_inverse=True)
        variant, value = np.divmod(pairs, n_values)
        count = np.bincount(row_of_case, cases, minlength=len(pairs))
        codes_of_variants = [np.frombuffer(trace, dtype=np.int32).tolist() for trace in number_of_variant]
        return cls(
            alphabet=items.values,
            variants=tuple(map(tuple, codes_of_variants)),
            values=value_of_case.values,
            variant=variant.astype(np.int32),
            value=value.astype(np.int32),
            count=count.astype(np.int64),
            row_of_case=row_of_case.astype(np.int32),
        )

    @classmethod
    def from_log(cls, log: EventLog, sensitive: Sequence[str] = (), cases: Ints | None = None) -> SimpleLog:
        """Count the activity sequences by the joint value of the named attributes.

        Parameters
        ----------
        log
            The log.
        sensitive
            Names of the sensitive attributes, whose values are joined.
        cases
            int64[C], number of cases that each one of the log represents. None: one.

        Examples
        --------
        >>> simple = SimpleLog.from_log(EventLog.from_traces([("ab", None), ("ab", None), ("a", None)]))
        >>> simple.decoded()
        {(('a', 'b'), None): 2, (('a',), None): 1}
        """
        return cls.from_items(log.starts, log.activity, log.sensitive(sensitive), cases)

    def decoded(self) -> dict[tuple[tuple[Any, ...], Any], int]:
        """Return {(trace, sensitive value): count}, for tests and small logs."""
        return {
            (tuple(self.alphabet[i] for i in self.variants[v]), self.values[s]): int(c)
            for v, s, c in zip(self.variant, self.value, self.count, strict=True)
        }
