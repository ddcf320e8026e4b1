"""Configuration: one TOML file, environment over file, flags over both; unknown keys are errors.

Here is what a configuration may say; where it comes from (the file, `VEILSTREAM_PROCESS__NAME`, `*_FILE`) stands in
`stream.config.sources`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from connectors.kafka.source import Source
from connectors.times import zone
from models.dp.budget import Charge
from models.errors import InputError
from stream.fold.window import Window
from stream.release.audits import audits
from stream.release.contract import Audit, Mechanism
from stream.release.gate import GatePolicy, refuse_impossible
from stream.release.mechanisms import mechanism
from stream.storage.envelope import Keys
from stream.values.duration import Duration
from stream.values.exact import Exact

NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
AUDIENCE = "everyone"
"""The audience of a publication that names none: all of them together."""

RESERVED = {"checkpoints", "key", "ledger", "lock", "quarantine", "staging", "withheld"}
"""Names that the operator's folder needs itself: a publication of that name would lie upon them."""

READS_DATA = {"new_cases", "new_events", "completed_cases", "events_per_case", "skip_if_unchanged", "min_new_cases"}
"""Triggers and guards whose moment depends on the data, and so would tell of it."""

FIRST_READS_DATA = {"new_cases", "events_fraction", "cases_fraction", "paper_split"}
"""The same for `first`: all but a fixed moment."""

Format = Literal["xes", "csv", "parquet"]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Columns(_Table):
    """Names of the columns; the XES names are the defaults."""

    case: str = "case:concept:name"
    activity: str = "concept:name"
    time: str = "time:timestamp"
    resource: str = "org:resource"

    @property
    def changed(self) -> dict[str, str]:
        """Only what differs from the XES names."""
        return {name: value for name, value in self.model_dump().items() if name in self.model_fields_set}


class Completion(_Table):
    """When a case counts as complete."""

    end_activities: tuple[str, ...] = ()
    end_all: tuple[str, ...] = Field(default=(), max_length=64)
    inactivity: Duration | None = None
    log_end: bool = False
    """Replay only: a case is complete when the log holds no later event of it."""


class ProcessBudget(_Table):
    """Cap over all publications of the process (their charges add up)."""

    max_epsilon: Exact | None = Field(default=None, gt=0)
    max_delta: Exact | None = Field(default=None, ge=0, lt=1)


class Process(_Table):
    """One log: its name, its columns, what is sensitive in it."""

    name: str = "log"
    sensitive: tuple[str, ...] = ()
    columns: Columns = Columns()
    completion: Completion = Completion()
    timezone: str | None = None
    budget: ProcessBudget = ProcessBudget()
    retention: Duration | None = None
    """A closed case leaves the state this long after its completion."""
    raw_resources: bool = False
    """Publish resource names as they are; by default they are pseudonyms."""

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        return _plain_name(value, "process.name")

    @field_validator("timezone")
    @classmethod
    def _zone(cls, value: str | None) -> str | None:
        try:
            zone(value)
        except InputError as error:
            raise ValueError(str(error)) from None
        return value

    @field_validator("completion", mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        return {"log_end": True} if value == "log_end" else value


class Publication(_Table):
    """One stream of releases: window, mechanism, audit, gate."""

    name: str
    audience: str = AUDIENCE
    """Who receives the releases. What one audience holds is audited and gated as one series; by default all
    publications go to one."""
    window: dict[str, Any]
    mechanism: dict[str, Any]
    audit: dict[str, Any] = {}
    gate: GatePolicy = GatePolicy()
    late: Literal["next_release", "drop", "dlq"] = "next_release"
    formats: tuple[Format, ...] = Field(default=("xes",), min_length=1)
    first: dict[str, Any] | None = None

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if value in RESERVED:
            raise ValueError(f"publication name {value!r} is reserved")
        return _plain_name(value, "publication.name")

    @field_validator("audience")
    @classmethod
    def _audience(cls, value: str) -> str:
        return _plain_name(value, "publication.audience")

    @model_validator(mode="after")
    def _parts(self) -> Publication:
        where = f"publication {self.name!r}"
        refuse_impossible(self.gate, self.build_mechanism, where)
        self._refuse_data_cuts(where)
        _ = self.build_window  # what is wrong in it is said when the file is read
        self._refuse_vacuous_bounds(where)
        self._refuse_impossible_ba(where)
        return self

    @cached_property
    def build_mechanism(self) -> Mechanism:
        """The mechanism of the table, validated."""
        with _naming(self.name, "mechanism"):
            return mechanism(self.mechanism)

    @cached_property
    def build_audits(self) -> tuple[Audit, ...]:
        """The audits of the table, in order."""
        with _naming(self.name, "audit"):
            return audits(self.audit)

    @cached_property
    def build_window(self) -> Window:
        """The window of the table, validated."""
        table = dict(self.window)
        if self.first is not None:
            if "first" in table:
                raise InputError(
                    f"publication {self.name!r}: first stands twice, beside the window and in it; keep one"
                )
            table["first"] = self.first
        with _naming(self.name, "window"):
            return Window.from_mapping(table)

    def _refuse_vacuous_bounds(self, where: str) -> None:
        """n >= bk_length lets every record match, so a bound would pass without meaning anything; and the least of
        `all` is 0 nearly always, where no case can be the victim: a gate passes over it."""
        for audit in self.build_audits:
            ns, length = getattr(audit, "n", ()), getattr(audit, "bk_length", None)
            if self.gate.anonymity_bounds and getattr(audit, "minimum", None) == "all":
                raise InputError(
                    f'{where}: audit.minimum = "all" is for reports: its least values are mostly 0, which no case is '
                    'behind, and the gate would pass whatever is released; use "realisable"'
                )
            if self.gate.anonymity_bounds and length is not None and max(ns, default=0) >= length:
                raise InputError(
                    f"{where}: audit.n = {max(ns)} is not below bk_length = {length}: with it every record matches "
                    "and the gate would pass whatever is released"
                )

    def _refuse_impossible_ba(self, where: str) -> None:
        """BA counts the cases that are new since an earlier release: never more than a window brings."""
        window, wanted = self.build_window, self.gate.min_ba
        if wanted is None or window.new_cases is None:
            return
        brought = max(window.new_cases, window.min_new_cases or 0)
        if brought < wanted:
            raise InputError(
                f"{where}: min_ba = {wanted} cannot hold where a window brings {brought} new cases; "
                f"set window.new_cases to at least {wanted}"
            )

    def _refuse_data_cuts(self, where: str) -> None:
        if self.build_mechanism.reads_data_in_gate or self.gate.public_cut:
            return
        first = self.first or self.window.get("first") or {}
        found = [f"window.{name}" for name in sorted(READS_DATA & set(self.window))]
        found += [f"first.{name}" for name in sorted(FIRST_READS_DATA & set(first))]
        if found:
            raise InputError(
                f"{where}: {found[0]} reads the data, so the moment of a {self.build_mechanism.kind} release "
                "would itself tell; use every = ... or manual, or set gate.public_cut = true (the promise then says so)"
            )


class Endpoint(_Table):
    """Where a daemon serves its metrics: nowhere without a port."""

    port: int | None = Field(default=None, ge=0, le=65535)
    """0 takes any free port; the coordinator of `run --role all` takes the one behind."""
    host: str = Field(default="127.0.0.1", min_length=1)
    """Figures derive from source data: loopback unless told otherwise."""


class Settings(_Table):
    """A whole configuration file."""

    process: Process = Process()
    publication: tuple[Publication, ...] = ()
    source: Source | None = None
    """Daemon only: where events come from."""
    key: SecretStr | None = None
    """The pseudonym key in hexadecimal (VEILSTREAM_KEY_FILE); by default the operator's folder holds one."""
    checkpoint_key: SecretStr | None = None
    """Checkpoints are encrypted with it (64 hexadecimal digits; VEILSTREAM_CHECKPOINT_KEY_FILE)."""
    checkpoint_key_former: SecretStr | None = None
    """The storage key before this one: still read, never written, until `veilstream migrate` finds nothing under it."""
    health_port: int | None = Field(default=None, ge=0, le=65535)
    """Daemon only: /healthz and /readyz on loopback; 0 takes any free port."""
    store: str | None = Field(default=None, min_length=1)
    """fsspec URL of the public folder; `<output>/public` by default."""
    metrics: Endpoint = Endpoint()
    """Daemon only: Prometheus metrics."""
    min_free_bytes: int = Field(default=64 * 1024 * 1024, ge=0)
    """Disk that must be free before a release is built."""
    checkpoint_every: int = Field(default=20_000, ge=1)
    """Events between checkpoints (a cut also makes one)."""

    @field_validator("key", "checkpoint_key", "checkpoint_key_former")
    @classmethod
    def _hexadecimal(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", value.get_secret_value().strip()):
            raise ValueError("not a key (64 hexadecimal digits)")
        return value

    @model_validator(mode="after")
    def _names(self) -> Settings:
        names = [publication.name for publication in self.publication]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"publication {twice[0]!r} stands twice")
        for publication in self.publication:
            bins: Mapping[str, Any] = getattr(publication.build_mechanism, "bins", {})
            if unknown := sorted(set(bins) - set(self.process.sensitive)):
                raise InputError(
                    f"publication {publication.name!r}: mechanism.bins are given for {', '.join(unknown)}, which "
                    "process.sensitive does not name"
                )
        for publication in self.publication:
            timed = publication.build_mechanism
            if getattr(timed, "clock", "utc") == "log" and self.process.timezone is None:
                raise InputError(
                    f'publication {publication.name!r}: mechanism.clock = "log" needs process.timezone: events come '
                    "without the clock that they were written by"
                )
        for audience in {publication.audience: None for publication in self.publication}:
            refuse_impossible_audience(
                audience, [publication for publication in self.publication if publication.audience == audience]
            )
        if self.checkpoint_key_former is not None and self.checkpoint_key is None:
            raise ValueError("checkpoint_key_former is set without checkpoint_key: nothing could be sealed")
        return self

    @property
    def storage_keys(self) -> Keys:
        """The keys of checkpoints and mirror."""
        given = (self.checkpoint_key, self.checkpoint_key_former)
        current, former = (None if one is None else bytes.fromhex(one.get_secret_value().strip()) for one in given)
        return Keys(current, former)

    @property
    def digest(self) -> str:
        """sha256 of the configuration's meaning: names what a release was made with."""
        body = {"process": self.process.model_dump(mode="json"), "publication": [_dump(p) for p in self.publication]}
        return hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()


def explain(error: ValidationError) -> Iterator[str]:
    """Every fault as `place: what is wrong`, without the value given (it may be a secret)."""
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(part) for part in fault["loc"]) or "settings"
        message = "unknown key" if fault["type"] == "extra_forbidden" else fault["msg"].removeprefix("Value error, ")
        yield f"{place}: {message}"


@contextmanager
def _naming(publication: str, table: str) -> Iterator[None]:
    """Faults inside say which publication and which table they are in."""
    try:
        yield
    except ValidationError as error:
        where = ".".join([table, *getattr(error, "__notes__", ())])
        faults = "; ".join(f"{where}.{fault}" for fault in explain(error))
        raise InputError(f"publication {publication!r}: {faults}") from None
    except InputError as error:
        raise InputError(f"publication {publication!r}: {error}") from None


def _dump(publication: Publication) -> dict[str, Any]:
    """The default audience says nothing new: a folder from before there were audiences goes on."""
    body = publication.model_dump(mode="json")
    return {key: value for key, value in body.items() if (key, value) != ("audience", AUDIENCE)}


def refuse_impossible_audience(name: str, members: Sequence[Publication]) -> None:
    """InputError where the publications of one audience cannot be one series: what they carry cannot be compared, or a
    promise over all releases would not hold of the others."""
    linked = [one for one in members if one.build_mechanism.perspective is not None]
    for one in linked[1:]:
        first = linked[0]
        if one.build_mechanism.perspective != first.build_mechanism.perspective:
            carried = [", ".join(each.build_mechanism.perspective or ()) for each in (first, one)]
            raise InputError(
                f"publications {first.name!r} and {one.name!r} go to one audience ({name}) and carry {carried[0]} and "
                f"{carried[1]}: what they give away together cannot be counted; give one of them another audience"
            )
    remembering = [one for one in linked if one.build_mechanism.remembers]
    for one in linked if remembering else ():
        first = remembering[0]
        if one is first:
            continue
        shared = one.build_mechanism.kind == first.build_mechanism.kind and one.build_mechanism.shares_memory
        if not shared:
            raise InputError(
                f"publications {first.name!r} and {one.name!r} go to one audience ({name}): the promise of "
                f"{first.build_mechanism.kind} is about all releases of its audience, and does not hold beside "
                f"{one.build_mechanism.kind}; give one of them another audience"
            )
        theirs, own = first.build_mechanism.claim(), one.build_mechanism.claim()
        if theirs != own:
            differing = ", ".join(key for key in own if own[key] != theirs.get(key))
            raise InputError(
                f"publications {first.name!r} and {one.name!r} share their cohorts, since they go to one audience "
                f"({name}), and differ in {differing}; make these equal, or give one of them another audience"
            )
    amun = [one for one in members if one.build_mechanism.perspective is None and not _spends(one)]
    if remembering and amun:
        raise InputError(
            f"publications {remembering[0].name!r} and {amun[0].name!r} go to one audience ({name}): what "
            f"{amun[0].build_mechanism.kind} shows beside {remembering[0].build_mechanism.kind} cannot be counted; "
            "give one of them another audience"
        )
    for one in linked if len(linked) > 1 else ():
        if one.gate.min_series is not None:
            raise InputError(
                f"publication {one.name!r}: gate.min_series is counted over releases with the same windows, and "
                f"audience {name} receives other publications too; give it an audience of its own"
            )


def _spends(publication: Publication) -> bool:
    return publication.build_mechanism.charge() != Charge()


def _plain_name(value: str, where: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError(f"{where} = {value!r}: use a lower-case letter, then letters, digits and hyphens (63 at most)")
    return value
