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
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from connectors.kafka.source import Source
from connectors.times import nanoseconds as instant
from connectors.times import zone
from models.dp.budget import Charge
from models.errors import InputError
from stream.fold.window import Window
from stream.release.audits import audits
from stream.release.contract import AUDIENCE, Audit, Mechanism
from stream.release.gate import GatePolicy, refuse_impossible
from stream.release.mechanisms import mechanism
from stream.release.schedule import LONGEST_BUILD
from stream.release.spec import PublicationSpec
from stream.storage.envelope import Keys
from stream.values.duration import Duration
from stream.values.exact import Exact

NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
RESERVED = {"checkpoints", "key", "ledger", "lock", "quarantine", "staging", "withheld"}
"""Names that the operator's folder needs itself: a publication of that name would lie upon them."""

READS_DATA = {"new_cases", "new_events", "completed_cases", "events_per_case", "skip_if_unchanged", "min_new_cases"}
"""Triggers and guards whose moment depends on the data, and so would tell of it."""

FIRST_IS_PUBLIC = {"until"}
"""What of `first` does not read the data: a fixed moment."""

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


Role = Literal["identifier", "sensitive", "quasi", "public"]


class Attributes(_Table):
    """The role of each attribute; one that has none is dropped at intake."""

    identifier: tuple[str, ...] = ()
    """Names one person (a citizen number): dropped at intake, never stored, in no topic and no file."""
    sensitive: tuple[str, ...] = ()
    """Bounded by C; released only where a publication names it (`release_attributes`)."""
    quasi: tuple[str, ...] = ()
    """What somebody may know of a person (age, postal code): counted in the risk of the source, never released."""
    public: tuple[str, ...] = ()
    """Says nothing about a person: released where a publication names it, and counted there."""

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        """`{Diagnose = "sensitive"}` is taken like `{sensitive = ["Diagnose"]}`."""
        if not isinstance(value, Mapping):
            return value
        roles: dict[str, list[str]] = {}
        for key, one in value.items():
            if isinstance(one, str):
                if one not in cls.model_fields:
                    raise ValueError(f"{key!r} has no role {one!r}: use {', '.join(cls.model_fields)}")
                roles.setdefault(one, []).append(key)
            else:
                roles.setdefault(key, []).extend(one if isinstance(one, list | tuple) else [one])
        return roles

    @model_validator(mode="after")
    def _one_role(self) -> Attributes:
        names = [name for role in type(self).model_fields for name in getattr(self, role)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{twice[0]!r} has two roles; keep one")
        return self


class Process(_Table):
    """One log: its name, its columns, the roles of its attributes."""

    name: str = "log"
    sensitive: tuple[str, ...] = ()
    """Short for `attributes.sensitive`."""
    attributes: Attributes = Attributes()
    columns: Columns = Columns()
    completion: Completion = Completion()
    timezone: str | None = None
    budget: ProcessBudget = ProcessBudget()
    retention: Duration | None = None
    """A closed case leaves the state this long after its completion."""
    raw_resources: bool = False
    """Keep and publish resource names as they are; by default they are pseudonyms from ingest on, in topics and state
    too."""
    earliest: AwareDatetime | None = None
    """An event before it is none of this process: the daemon sends it to the dlq, a replay leaves it out."""

    @field_validator("earliest")
    @classmethod
    def _instant(cls, value: AwareDatetime | None) -> AwareDatetime | None:
        if value is not None:
            instant(value)
        return value

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

    @model_validator(mode="before")
    @classmethod
    def _sensitive_in_both(cls, value: Any) -> Any:
        """`sensitive` and `attributes.sensitive` are one list, whichever was written."""
        if not isinstance(value, Mapping) or not isinstance(value.get("attributes", {}), Mapping | Attributes):
            return value
        given = value.get("attributes", {})
        roles = given if isinstance(given, Attributes) else Attributes.model_validate(given)
        short = value.get("sensitive", ())
        if not isinstance(short, list | tuple):
            return value
        both = tuple(dict.fromkeys((*short, *roles.sensitive)))
        known = {**roles.model_dump(), "sensitive": both}
        return {**value, "sensitive": both, "attributes": known}

    @property
    def kept(self) -> tuple[str, ...]:
        """The attributes that the state holds: all with a role but identifiers."""
        return (*self.sensitive, *self.attributes.quasi, *self.attributes.public)

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
    release_attributes: tuple[str, ...] = ()
    """Sensitive and public attributes that leave with the cases: numeric sensitive ones as classes, and values of fewer
    than K cases as `other`."""
    start: AwareDatetime | None = None
    """There is no tumbling window before it, and windows are counted from it, whatever the first event says."""
    publish_after: Duration | None = None
    """dp: a release is published this long after its cut; a build that takes longer is withheld. By default 15m, the
    longest build that a daemon allows."""

    @field_validator("start")
    @classmethod
    def _instant(cls, value: AwareDatetime | None) -> AwareDatetime | None:
        if value is not None:
            instant(value)
        return value

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
        window = self.build_window  # what is wrong in it is said when the file is read
        if self.start is not None and window.every is None:
            raise InputError(f"{where}: start says from when windows of `every` are counted, but has no window.every")
        if self.publish_after is not None and self.build_mechanism.reads_data_in_gate:
            raise InputError(
                f"{where}: publish_after hides how long a build took, which only dp releases must not tell; "
                f"{self.build_mechanism.kind} makes none; remove it"
            )
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

    @property
    def start_ns(self) -> int | None:
        """`start` in ns since 1970-01-01 UTC."""
        return None if self.start is None else instant(self.start)

    @property
    def private(self) -> bool:
        """Whether the releases carry a dp promise."""
        return not self.build_mechanism.reads_data_in_gate

    @property
    def counted_from_start(self) -> bool:
        """Whether tumbling windows have to be counted from a public moment, since the moments are protected."""
        return self.private and not self.gate.public_cut and self.build_window.every is not None

    @property
    def delay(self) -> int | None:
        """How long after its cut a release is published (ns); None: at once."""
        return (self.publish_after or LONGEST_BUILD) if self.private else None

    def _refuse_vacuous_bounds(self, where: str) -> None:
        """n >= bk_length lets every record match, so a bound would pass without meaning anything; and the least of
        `all` or `common` is 0 nearly always, where no case can be the victim: a gate passes over it."""
        for audit in self.build_audits:
            ns, length = getattr(audit, "n", ()), getattr(audit, "bk_length", None)
            minimum = getattr(audit, "minimum", "realisable")
            if self.gate.anonymity_bounds and minimum != "realisable":
                raise InputError(
                    f'{where}: audit.minimum = "{minimum}" is for reports: its least values are mostly 0, which no '
                    'case is behind, and the gate would pass whatever is released; use "realisable"'
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
        found += [f"first.{name}" for name in sorted(set(first) - FIRST_IS_PUBLIC)]
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
        self._check_identifiers()
        for publication in self.publication:
            self._check_released(publication)
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

    def spec(self, publication: Publication) -> PublicationSpec:
        """What the pipeline of a publication needs of all this."""
        budget = self.process.budget
        return PublicationSpec(
            process=self.process.name,
            name=publication.name,
            mechanism=publication.build_mechanism,
            audits=publication.build_audits,
            gate=publication.gate,
            window=publication.build_window,
            config_digest=self.digest,
            audience=publication.audience,
            delay=publication.delay,
            formats=publication.formats,
            attributes=publication.release_attributes,
            max_epsilon=budget.max_epsilon,
            max_delta=budget.max_delta,
            raw_resources=self.process.raw_resources,
            min_free_bytes=self.min_free_bytes,
        )

    def _check_identifiers(self) -> None:
        named = self.process.attributes.identifier
        for name in self.source.attributes if self.source else ():
            if name in named:
                raise InputError(f"source.attributes: {name!r} has the role identifier, which is never stored")
        columns = self.process.columns
        for role, column in columns.model_dump().items():
            if column in named and role != "case":
                raise InputError(f"process.columns.{role}: {column!r} has the role identifier, which is never stored")

    def _check_released(self, publication: Publication) -> None:
        """What a publication releases has a role that allows it, and a mechanism that can."""
        where, roles = f"publication {publication.name!r}: release_attributes", self.process.attributes
        for name in publication.release_attributes:
            if name in (*roles.identifier, *roles.quasi):
                role = "identifier" if name in roles.identifier else "quasi"
                raise InputError(f"{where}: {name!r} has the role {role}, which is never released")
            if name not in (*roles.sensitive, *roles.public):
                raise InputError(
                    f"{where}: {name!r} has no role; name it in process.attributes.sensitive or .public first"
                )
        if publication.release_attributes and not publication.build_mechanism.releases_attributes:
            raise InputError(f"{where}: {publication.build_mechanism.kind} releases no attributes of cases")

    @property
    def storage_keys(self) -> Keys:
        """The keys of checkpoints and mirror."""
        given = (self.checkpoint_key, self.checkpoint_key_former)
        current, former = (None if one is None else bytes.fromhex(one.get_secret_value().strip()) for one in given)
        return Keys(current, former)

    @property
    def digest(self) -> str:
        """sha256 of the configuration's meaning: names what a release was made with."""
        body = {"process": _meaning(self.process), "publication": [_meaning(p) for p in self.publication]}
        return hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()


SAID = {"extra_forbidden": "unknown key", "missing": "is missing, and has no default: say what it is"}
"""Kinds of faults in words of ours."""


def explain(error: ValidationError) -> Iterator[str]:
    """Every fault as `place: what is wrong`, without the value given (it may be a secret)."""
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(part) for part in fault["loc"]) or "settings"
        message = SAID.get(fault["type"], fault["msg"].removeprefix("Value error, "))
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


DIGESTED: Mapping[type[BaseModel], frozenset[str]] = {
    Process: frozenset(
        {"name", "sensitive", "columns", "completion", "timezone", "budget", "retention", "raw_resources"}
    ),
    Publication: frozenset({"name", "window", "mechanism", "audit", "gate", "late", "formats", "first"}),
    GatePolicy: frozenset(
        {"min_ka", "min_fa", "min_ca", "min_ba", "max_tpl", "max_epsilon", "max_delta", "max_uniqueness", "min_utility"}
        | {"min_series", "on_violation", "charge_withheld", "public_cut"}
    ),
}
"""The keys that the first version knew: they are always in the digest. A later key is in it only where it is not at its
default, so that a new program reads an old configuration as the same one."""


def _meaning(model: BaseModel) -> dict[str, Any]:
    """The model for the digest."""
    if isinstance(model, Process):
        model = model.model_copy(update={"attributes": model.attributes.model_copy(update={"sensitive": ()})})
    body, first = model.model_dump(mode="json"), DIGESTED.get(type(model))
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if first is not None and name not in first and value == field.get_default(call_default_factory=True):
            del body[name]
        elif isinstance(value, BaseModel):
            body[name] = _meaning(value)
    return body


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
