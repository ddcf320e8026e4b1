"""The variants of a data set, and the cases that leave it, in SQL: one text for duckdb and Spark.

SQL groups, sorts and counts. Python decides the meaning of texts (labels, times of local zones, classes) on their
distinct values, by the functions that read a log in memory. A dialect (`stream.engine.duckdb`, `stream.engine.spark`)
reads the files, keeps tables, and writes the few expressions that differ.

`count` makes these tables, each from the one before:

    raw_events -> utc_events -> case_traces -> coded_traces -> variants

* `raw_events`: one row for each event: case c, activity a, resource r, time t (ns), z (whether t is in UTC), file f,
  row n in the file; and for the attribute at place 0 the value x0 of the case and the value y0 of the event;
* `utc_events`: `raw_events` with all times in UTC, without z;
* `activity_codes`, `resource_codes`: text v of an activity or resource, and code k of its label;
* `case_traces`: one row for each case: c, its items in order (`trace`), its first row (`first`), x0, and the last y0;
* `kinds0`: distinct (x0, y0), the kinds of cases by the attribute; `codes0`: the code k0 of the class or value of each
  kind;
* `coded_traces`: `case_traces` with the codes k0, k1, ... in place of attribute values;
* `variants`: rows of `coded_traces` grouped by trace and sensitive codes, with their number of cases.

`leaving` joins `coded_traces` with `parts`: the released trace of each part of a row of `variants`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from connectors.columns import typed
from connectors.formulas import unguarded
from connectors.frame import python_value
from connectors.time_columns import zoneless
from models.errors import InputError, NoEventsError, VeilstreamError
from models.eventlog import MISSING, Column
from models.instants import INSTANTS, OUTSIDE
from models.knowledge import NANOSECONDS, Knowledge, Unit
from models.variants import GONE, VariantPlan, VariantTable, table_of
from stream.engine import source
from stream.engine.contract import ID_DIGITS, Counted, CountQuery, Draws, Leaving, ReportStep, report_nothing
from stream.engine.source import CSV, MINUTE, DataFiles, alphabet_of, local_minutes, units_coarser_than

BATCH = 50_000
"""Cases of one batch of `leaving`."""

SMALL_TABLE = 64 << 20
"""Bytes of a table of variants that Spark may send to every executor; a larger one is joined by sorting."""

ROWS_OF_A_FILE = 1 << 40
"""More rows than any file has: the number f * ROWS_OF_A_FILE + n of a row orders all rows of all files."""

FIRST_ROW = f"min(f * {ROWS_OF_A_FILE} + n)"

DAY = NANOSECONDS["days"]

# Conditions for a row that cannot be read, by the role of the faulty column.
NO_CASE = "c IS NULL OR trim(c) = ''"
NO_ACTIVITY = "a IS NULL OR a = ''"
NO_TIME = "t IS NULL"


class SqlEngine(ABC):
    """A data set that is counted by SQL (implements `stream.engine.contract.Engine`).

    Parameters
    ----------
    files
        The data set.
    """

    NAME: str
    """The engine's name in messages."""
    QUOTE: str
    """The quote sign around the name of a column."""
    DIVIDE: str
    """The operator of integer division, which rounds towards zero."""
    ENCODED_CASE: str
    """The bytes of a case's name (c) in UTF-8."""

    def __init__(self, files: DataFiles) -> None:
        self._source = files
        self._count_query = CountQuery(Knowledge())
        self._cases = 0
        self._public: dict[str, Column] = {}
        self._span = (0, 0)
        # Of each row of the table, the first row of its first case: the key of `variants`.
        self._first_rows = np.empty(0, dtype=np.int64)
        self._table_bytes = 0

    # The dialect

    @abstractmethod
    def _make_raw_events(self, columns: Mapping[str, str]) -> None:
        """Make the view `raw_events` of these expressions by name, with f and n added."""

    @abstractmethod
    def _view(self, name: str, query: str) -> None:
        """Name a query."""

    @abstractmethod
    def _store(self, name: str, query: str) -> None:
        """Name the result of a query that several later ones read."""

    @abstractmethod
    def _add(self, name: str, columns: Mapping[str, Any]) -> None:
        """Make a small table of arrays from Python."""

    @abstractmethod
    def _arrow(self, query: str) -> Any:
        """Return the result of a query as an Arrow table."""

    @abstractmethod
    def _batches(self, query: str, cases: int) -> Iterator[Any]:
        """Yield the rows of a query by ascending `id` as record batches; `cases`: how many rows there are."""

    @abstractmethod
    def _errors(self) -> AbstractContextManager[None]:
        """Return a context in which errors of the engine become one line without content."""

    @abstractmethod
    def _time(self) -> tuple[str, str]:
        """Return two expressions: nanoseconds since 1970 (NULL if there is no time), and whether they are in UTC."""

    @abstractmethod
    def _check_attribute_type(self, column: str, kind: Any) -> None:
        """Refuse an attribute whose type this engine does not read.

        Parameters
        ----------
        column, kind
            Name of the column and its Arrow type, which is not floating.

        Raises
        ------
        InputError
            With another engine that reads it.
        """

    @abstractmethod
    def _no_time(self, place: str) -> str:
        """Return the message for a row without time."""

    @abstractmethod
    def _ordered_items(self, item: str, order: str) -> str:
        """Return the aggregate that lists the items of a case in an order."""

    @abstractmethod
    def _last(self, value: str, order: str) -> str:
        """Return the aggregate for the last value in an order that is not NULL."""

    @abstractmethod
    def _sha256(self, data: str) -> str:
        """Return the SHA-256 of bytes as hexadecimal text."""

    def _sorted_by_case(self, rows: str, order: str) -> str:
        """Return the query `rows`, sorted as the grouping by case needs it."""
        return rows

    def _attribute(self, column: str | None) -> str:
        """Return the value of an attribute, NULL if missing. InputError for a type that is not read."""
        import pyarrow as pa

        if column is None:
            return "CAST(NULL AS INT)"
        name = self._quoted(column)
        kind = self._source.types.get(column, pa.string())
        if pa.types.is_floating(kind):
            return f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END"
        self._check_attribute_type(column, kind)
        return name

    def _text(self, column: str, role: str) -> str:
        """Return a column as text, NULL if missing. InputError for a type that is not read."""
        import pyarrow as pa

        kind = self._source.types.get(column, pa.string())
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind):
            return f"CAST({self._quoted(column)} AS STRING)"
        raise InputError(f"{self._source.name}: column {column!r} ({role}) is {kind}; only --engine embedded reads it")

    def _quoted(self, column: str) -> str:
        """Return a name of a column as SQL writes it."""
        return self.QUOTE + column.replace(self.QUOTE, 2 * self.QUOTE) + self.QUOTE

    # The contract

    @property
    def cases(self) -> int:
        """Cases of the data set, once it is counted."""
        return self._cases

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the engine."""

    def values(self, name: str) -> Column:
        """Return the distinct values of a public attribute, which the codes of `Leaving` refer to."""
        return self._public[name]

    def count(self, count_query: CountQuery, report_step: ReportStep = report_nothing) -> Counted:
        """Return the table of variants of the data set.

        Raises
        ------
        InputError
            As the readers of a log in memory, with file and row.
        """
        with self._errors():
            self._count_query = count_query
            source.check_bins(count_query)
            knowledge = count_query.knowledge
            if knowledge.structure == "rel" and knowledge.clock == "log" and knowledge.T in ("hours", "days"):
                raise InputError('clock = "log": this log does not state by which clock it was written; use "utc"')
            report_step("reading")
            self._read()
            report_step("labels")
            items = self._items(knowledge)
            report_step("cases")
            self._store_case_traces(knowledge, items)
            report_step("variants")
            classes = [self._classes(place, name) for place, name in enumerate(self._names)]
            table = self._table(knowledge, items, classes)
            unit = self._unit(knowledge.T) if knowledge.structure == "rel" else None
            return Counted(table, unit, self._changing_cases())

    def leaving(
        self,
        plan: VariantPlan,
        draws: Draws,
        report_step: ReportStep = report_nothing,
    ) -> Iterator[Leaving]:
        """Yield the cases that leave, ascending by released id. Call `count` first."""
        report_step("cases")
        public = self._count_query.public
        with self._errors():
            query = self._leaving(plan, draws)
            for batch in self._batches(query, plan.cases):
                attributes = {}
                for place, name in enumerate(public):
                    codes = batch[f"p{place}"].to_numpy(zero_copy_only=False)
                    attributes[name] = codes.astype(np.int32)
                ids, traces, rows = batch["id"].to_pylist(), batch["leaves"].to_numpy(), batch["v"].to_numpy()
                yield Leaving(ids, traces, rows, attributes)

    @property
    def _names(self) -> tuple[str, ...]:
        """Attributes by place: x0, y0 belong to the first."""
        return tuple(dict.fromkeys((*self._count_query.sensitive, *self._count_query.public)))

    @property
    def _sensitive_codes(self) -> list[str]:
        """The columns of `coded_traces` by which variants differ."""
        return [f"k{place}" for place, name in enumerate(self._names) if name in self._count_query.sensitive]

    def _row(self, query: str) -> dict[str, Any]:
        """Return the only row of a query."""
        row: dict[str, Any] = self._arrow(query).to_pylist()[0]
        return row

    # Rows

    def _read(self) -> None:
        """Make the views `raw_events` and `utc_events`. InputError for a row that cannot be read."""
        names = self._source.names
        time, zoned = self._time()
        resource = "CAST(NULL AS STRING)"
        if names.resource in self._source.header:
            resource = self._text(names.resource, "resource")
        columns = {
            "c": self._text(names.case, "case"),
            "a": self._text(names.activity, "activity"),
            "r": resource,
            "t": time,
            "z": zoned,
        }
        for place, name in enumerate(self._names):
            of_case, of_event = self._source.column(name)
            columns[f"x{place}"] = self._attribute(of_case)
            columns[f"y{place}"] = self._attribute(of_event)
        self._make_raw_events(columns)
        local_rows = self._check()
        kept = [name for name in (*columns, "f", "n") if name not in ("t", "z")]
        if local_rows:
            self._read_local_times(kept)
        else:
            self._view("utc_events", f"SELECT {', '.join(kept)}, t FROM raw_events")  # noqa: S608 - names of ours

    def _check(self) -> int:
        """Refuse a data set with a row that lacks case, activity or time; return how many rows have local times.

        One pass over the rows counts all of it, and finds the first and the last time.
        """
        files, names = self._source, self._source.names
        counts = self._row(
            "SELECT count(*) AS events, "  # noqa: S608 - names of ours
            f"count(*) FILTER (WHERE {NO_CASE}) AS no_case, count(*) FILTER (WHERE {NO_ACTIVITY}) AS no_activity, "
            f"count(*) FILTER (WHERE {NO_TIME}) AS no_time, count(*) FILTER (WHERE f IS NULL) AS no_file, "
            "count(*) FILTER (WHERE NOT z) AS local, min(t) AS begin_time, max(t) AS end_time FROM raw_events"
        )
        if not counts["events"]:
            raise NoEventsError(f"{files.name}: the log holds no events")
        if counts["no_file"]:
            raise VeilstreamError(f"{files.name}: {self.NAME} names its files otherwise than they were listed")
        required = (("case", names.case, NO_CASE), ("activity", names.activity, NO_ACTIVITY))
        for role, column, condition in required:
            if counts[f"no_{role}"]:
                place = self._first_row_with("raw_events", condition)
                raise InputError(f"{place}: no {column}; every event needs one (another column: --columns {role}=...)")
        if counts["no_time"]:
            raise InputError(self._no_time(self._first_row_with("raw_events", NO_TIME)))
        # A local time is up to a day from UTC. Zones do not cover years far outside, so this check comes before them.
        margin = DAY if counts["local"] else 0
        self._refuse_outside("raw_events", counts["begin_time"], counts["end_time"], margin)
        self._span = counts["begin_time"], counts["end_time"]
        local_rows: int = counts["local"]
        return local_rows

    def _first_row_with(self, table: str, condition: str) -> str:
        """Return file and number of the first row that meets a condition."""
        row = self._row(f"SELECT f, n FROM {table} WHERE {condition} ORDER BY f, n LIMIT 1")  # noqa: S608 - ours
        return f"{self._source.files[row['f']]}: row {row['n'] + 1}"

    def _refuse_outside(self, table: str, begin: int, end: int, margin: int = 0) -> None:
        """Refuse rows outside the years that are read, naming the first; `begin`, `end`, `margin`: nanoseconds."""
        first, behind = INSTANTS.start - margin, INSTANTS.stop + margin
        if begin < first or end >= behind:
            place = self._first_row_with(table, f"t < {first} OR t >= {behind}")
            raise InputError(f"{place}: {self._source.names.time} {OUTSIDE}")

    def _read_local_times(self, kept: list[str]) -> None:
        """Make the view `utc_events` from times without zone, by a table of the minutes that appear.

        Offsets of zones are whole minutes in the years that are read (`source.local_minutes`). So Python converts each
        distinct minute once, to its `moment` in UTC, and SQL adds the seconds.
        """
        minute = f"t {self.DIVIDE} {MINUTE}"
        minutes = self._arrow(f"SELECT DISTINCT {minute} AS m FROM raw_events WHERE NOT z")["m"].to_numpy()  # noqa: S608
        if self._source.zone is None:
            raise zoneless(self._first_row_with("raw_events", "NOT z"), self._source.names.time)
        minute_of_zone, moment = local_minutes(minutes, self._source.zone, self._source.name)
        self._add("minutes", {"m": minute_of_zone, "moment": moment})
        columns = ", ".join(f"raw_events.{name}" for name in kept)
        self._view(
            "utc_events",
            f"SELECT /*+ BROADCAST(minutes) */ {columns}, "  # noqa: S608 - names of ours
            f"CASE WHEN z THEN t ELSE moment + (t - m * {MINUTE}) END AS t "
            f"FROM raw_events LEFT JOIN minutes ON NOT z AND {minute} = m",
        )
        span = self._row("SELECT min(t) AS begin_time, max(t) AS end_time FROM utc_events")
        self._refuse_outside("utc_events", span["begin_time"], span["end_time"])
        self._span = span["begin_time"], span["end_time"]

    # Items

    def _items(self, knowledge: Knowledge) -> dict[str, Column]:
        """Return the labels of the roles that items contain, and make `activity_codes` and `resource_codes`."""
        labels = {}
        for role, column, table in (("activity", "a", "activity_codes"), ("resource", "r", "resource_codes")):
            if role in knowledge.carries:
                labels[role] = self._labels(column, table, resource=role == "resource")
        if "resource" in labels and not (labels["resource"].codes >= 0).any():
            raise InputError("the log has no resource; attribute re and ar need one (XES key org:resource)")
        return labels

    def _labels(self, column: str, table: str, *, resource: bool) -> Column:
        import pyarrow as pa

        texts = self._by_first_row(column)
        shown = [unguarded(text) for text in texts] if self._source.kind == CSV else texts
        labels = source.labels(shown, self._count_query, resource=resource)
        self._add(table, {"v": pa.array(texts, pa.string()), "k": pa.array(labels.codes, pa.int64())})
        return labels

    def _by_first_row(self, column: str) -> list[Any]:
        """Return the values of a column of `utc_events` in the order of their first rows, as readers number them."""
        values = self._arrow(
            f"SELECT {column} AS v, {FIRST_ROW} AS first FROM utc_events WHERE {column} IS NOT NULL GROUP BY {column}"  # noqa: S608
        )
        ordered: list[Any] = values.sort_by("first")["v"].to_pylist()
        return ordered

    def _store_case_traces(self, knowledge: Knowledge, items: dict[str, Column]) -> None:
        """Store the table `case_traces`."""
        places = range(len(self._names))
        attributes = [f"utc_events.{column}{place}" for place in places for column in "xy"]
        columns = ", ".join(["utc_events.c", "utc_events.t", "utc_events.f", "utc_events.n", *attributes])
        tables, joins = [], ""
        if "activity" in items:
            tables.append("activity_codes")
            joins += " JOIN activity_codes ON utc_events.a = activity_codes.v"
        if "resource" in items:
            tables.append("resource_codes")
            joins += " LEFT JOIN resource_codes ON utc_events.r = resource_codes.v"
        # Units of time since the begin of the case, in clocks that tick at full units.
        tick = "0"
        if knowledge.structure == "rel":
            begins = "SELECT c, min(t) AS begin_time FROM utc_events GROUP BY c"
            joins += f" JOIN ({begins}) AS begins ON utc_events.c = begins.c"
            unit = NANOSECONDS[knowledge.T]
            tick = f"({self._whole_units('utc_events.t', unit)} - {self._whole_units('begin_time', unit)})"
        item = source.item_sql(knowledge, items, tick)
        kind = "BIGINT" if knowledge.structure == "rel" or len(items) > 1 else "INT"
        # A single file needs no number in the order of its rows: less to sort.
        order = "t, n" if len(self._source.files) == 1 else "t, f, n"
        events = (
            f"SELECT /*+ BROADCAST({', '.join(tables)}) */ {columns}, "  # noqa: S608 - names of ours
            f"CAST({item} AS {kind}) AS item FROM utc_events{joins}"
        )
        aggregates = [f"{self._ordered_items('item', order)} AS trace", f"{FIRST_ROW} AS first"]
        for place in places:
            aggregates += [
                f"max(x{place}) AS x{place}",
                f"coalesce(min(x{place}) <> max(x{place}), false) AS varies{place}",
                f"{self._last(f'y{place}', order)} AS y{place}",
                f"coalesce(min(y{place}) <> max(y{place}), false) AS changes{place}",
            ]
        self._store(
            "case_traces",
            f"SELECT c, {', '.join(aggregates)} FROM ({self._sorted_by_case(events, order)}) AS events GROUP BY c",  # noqa: S608
        )
        self._cases = self._row("SELECT count(*) AS cases FROM case_traces")["cases"]

    def _whole_units(self, time: str, unit: int) -> str:
        """Return the whole units of a time, rounded down also before 1970, where DIVIDE and % round towards zero."""
        remainder = f"((({time}) % {unit}) + {unit}) % {unit}"
        return f"(({time} - {remainder}) {self.DIVIDE} {unit})"

    # Attributes

    def _classes(self, place: int, name: str) -> Column:
        """Return the class or value of each kind of case by an attribute, and make `codes<place>`.

        Two cases are of one kind if they have the same value of the case and the same last value of an event.
        """
        import pyarrow as pa

        varying = self._row(f"SELECT min(first) AS first FROM case_traces WHERE varies{place}")["first"]  # noqa: S608
        if varying is not None:
            file, row = divmod(varying, ROWS_OF_A_FILE)
            raise InputError(
                f"{self._source.files[file]}: row {row + 1}: the case that begins here has two values of "
                f"'case:{name}'; a column that varies in a case may not be called case:..."
            )
        self._store(
            f"kinds{place}",
            f"SELECT x{place} AS x, y{place} AS y, count(*) AS cases, min(first) AS first "  # noqa: S608
            f"FROM case_traces GROUP BY x{place}, y{place}",
        )
        kinds = self._arrow(f"SELECT * FROM kinds{place}").sort_by("first")  # noqa: S608
        case_column, event_column = self._source.column(name)
        of_case = self._coded(kinds["x"], f"x{place}") if case_column else None
        of_event = self._coded(kinds["y"], f"y{place}") if event_column else None
        column = source.attribute(name, of_case, of_event, kinds["cases"].to_numpy(), self._count_query)
        codes = pa.array(column.codes, pa.int32())
        self._add(f"codes{place}", {"first": kinds["first"].combine_chunks(), f"k{place}": codes})
        self._public[name] = column
        return column

    def _changing_cases(self) -> dict[str, int]:
        """Return how many cases have events with different values of each sensitive attribute."""
        sensitive = self._count_query.sensitive
        places = {name: place for place, name in enumerate(self._names) if name in sensitive}
        if not places:
            return {}
        counts = [f"count(*) FILTER (WHERE changes{place}) AS cases{place}" for place in places.values()]
        row = self._row(f"SELECT {', '.join(counts)} FROM case_traces")  # noqa: S608 - names of ours
        return {name: row[f"cases{place}"] for name, place in places.items()}

    def _coded(self, kinds: Any, column: str) -> Column:
        """Return the values of kinds, over all values of the column in order of first appearance."""
        values = self._by_first_row(column)
        code = {value: place for place, value in enumerate(values)}
        codes = [MISSING if value is None else code[value] for value in kinds.to_pylist()]
        coded = Column(np.asarray(codes, dtype=np.int32), tuple(python_value(value) for value in values))
        if self._source.kind != CSV:
            return coded
        texts = Column(coded.codes, tuple(unguarded(text) for text in coded.values))
        return typed(texts, self._source.dialect.separator != ",")

    # The table

    def _table(self, knowledge: Knowledge, items: dict[str, Column], classes: list[Column]) -> VariantTable:
        """Make `coded_traces` and `variants`; return the table in the order of first rows."""
        self._view("coded_traces", self._coded_traces())
        keys = ", ".join(["trace", *self._sensitive_codes])
        self._store(
            "variants",
            f"SELECT {keys}, count(*) AS cases, min(first) AS first FROM coded_traces GROUP BY {keys}",  # noqa: S608
        )
        rows = self._arrow("SELECT * FROM variants ORDER BY first").combine_chunks()
        self._first_rows = rows["first"].to_numpy()
        self._table_bytes = rows.nbytes
        trace = rows["trace"].chunk(0)
        offsets = trace.offsets.to_numpy().astype(np.int64)
        numbers = trace.values.to_numpy()[offsets[0] : offsets[-1]]
        numbers_of_items, codes = np.unique(numbers, return_inverse=True)
        alphabet = alphabet_of(numbers_of_items.astype(np.int64), knowledge, items)
        of_row = {}
        for place, name in enumerate(self._names):
            if name in self._count_query.sensitive:
                class_codes = rows[f"k{place}"].to_numpy().astype(np.int32)
                of_row[name] = Column(class_codes, classes[place].values).take(slice(None))
        count = rows["cases"].to_numpy().astype(np.int64)
        return table_of(knowledge, alphabet, offsets - offsets[0], codes.astype(np.int32), of_row, count)

    def _coded_traces(self) -> str:
        """Return the query `coded_traces`: `case_traces`, each kind of case replaced by its code."""
        places = range(len(self._names))
        codes = "".join(f", k{place}" for place in places)
        tables = ", ".join(f"coded{place}" for place in places)
        hint = f"/*+ BROADCAST({tables}) */ " if places else ""
        joins = ""
        for place in places:
            joins += (
                f" JOIN (SELECT x, y, k{place} FROM kinds{place} JOIN codes{place} "  # noqa: S608 - names of ours
                f"ON kinds{place}.first = codes{place}.first) AS coded{place} "
                f"ON x{place} IS NOT DISTINCT FROM coded{place}.x AND y{place} IS NOT DISTINCT FROM coded{place}.y"
            )
        return f"SELECT {hint}c, trace, first{codes} FROM case_traces{joins}"  # noqa: S608

    def _unit(self, T: Unit) -> str | None:
        """Return the coarsest unit above T such that all times are whole multiples of it apart."""
        begin, end = self._span
        units = units_coarser_than(T)
        if begin == end or not units:
            return None
        tests = ", ".join(f"bool_and((t - {begin}) % {size} = 0) AS {unit}" for unit, size in units)
        fits = self._row(f"SELECT {tests} FROM utc_events")  # noqa: S608 - names of ours
        fitting = [unit for unit, _ in units if fits[unit]]
        return fitting[-1] if fitting else None

    # The cases that leave

    def _leaving(self, plan: VariantPlan, draws: Draws) -> str:
        """Return the query of released id, trace (`leaves`), row (v) and public attributes of each case that leaves."""
        has_several_parts = len(np.unique(plan.row)) < len(plan.row)
        self._add_parts(plan)
        public = [f"k{self._names.index(name)} AS p{place}" for place, name in enumerate(self._count_query.public)]
        public_columns = [f"p{place}" for place in range(len(public))]
        keys = ["trace", *self._sensitive_codes]
        same = " AND ".join(f"coded_traces.{key} IS NOT DISTINCT FROM table_rows.{key}" for key in keys)
        is_small = self._table_bytes <= SMALL_TABLE
        hint = "/*+ BROADCAST(table_rows) */ " if is_small else ""
        of_case = ", ".join(["coded_traces.c", *(f"coded_traces.{column}" for column in public)])
        released_id = f"substr({self._drawn(draws, 'id')}, 1, {ID_DIGITS}) AS id"
        shown = ", ".join([released_id, "leaves", "v", *public_columns])
        if not has_several_parts:
            # Each row leaves as one trace or not at all, so an id is drawn only for cases that leave.
            rows = (
                f"SELECT /*+ BROADCAST(parts) */ {_listed('variants', keys)}, leaves, v "  # noqa: S608
                f"FROM variants JOIN parts ON variants.first = parts.first WHERE leaves <> {GONE}"
            )
            chosen = f"SELECT {hint}{of_case}, leaves, v FROM coded_traces JOIN ({rows}) AS table_rows ON {same}"  # noqa: S608
            return f"SELECT {shown} FROM ({chosen}) AS chosen"  # noqa: S608
        # The cases of a row are shuffled by their draws; a part of the row is a range of places.
        rows = f"SELECT {_listed('variants', keys)}, first AS key FROM variants"  # noqa: S608
        cases = f"SELECT {hint}{of_case}, key FROM coded_traces JOIN ({rows}) AS table_rows ON {same}"  # noqa: S608
        place = f"row_number() OVER (PARTITION BY key ORDER BY {self._drawn(draws, 'place')}) - 1 AS place"
        numbered = f"SELECT *, {place} FROM ({cases}) AS cases"  # noqa: S608
        return (
            f"SELECT /*+ BROADCAST(parts) */ {shown} FROM ({numbered}) AS numbered_cases "  # noqa: S608
            f"JOIN parts ON key = parts.first WHERE leaves <> {GONE} AND place >= low AND place < high"
        )

    def _add_parts(self, plan: VariantPlan) -> None:
        """Make the table `parts`: the trace of each part of a row, and its range of places in the row."""
        ends = np.cumsum(plan.count)
        before_row = np.concatenate(([0], ends))[np.searchsorted(plan.row, plan.row)]
        # A part is a range of places among the cases of its row:
        #     row    3  3  3  5          low   0  4  6  0
        #     count  4  2  1  9          high  4  6  7  9
        columns = {
            "first": self._first_rows[plan.row],
            "v": plan.row,
            "leaves": plan.trace,
            "low": ends - plan.count - before_row,
            "high": ends - before_row,
        }
        self._add("parts", {name: values.astype(np.int64) for name, values in columns.items()})

    def _drawn(self, draws: Draws, purpose: str) -> str:
        """Return the HMAC-SHA256 of the case. The pads are the key: they appear in no message and in no file."""
        inner, outer = draws.pads(purpose)
        inside = self._sha256(f"unhex('{inner.hex()}') || {self.ENCODED_CASE}")
        return self._sha256(f"unhex('{outer.hex()}') || unhex({inside})")


def _listed(table: str, columns: list[str]) -> str:
    return ", ".join(f"{table}.{column}" for column in columns)
