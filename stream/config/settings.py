"""The configuration: one TOML file, environment over file, flags over both; unknown keys are errors.

`stream.config.sources` reads it from the file, from `VEILSTREAM_PROCESS__NAME` and from `*_FILE`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from pydantic import (
    BaseModel,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from connectors.kafka.source import Source
from connectors.reading import Reading
from models.dp.budget import Charge
from models.errors import InputError
from stream.config.process import AttributeRoles, Columns, Completion, ConfigTable, Process, ProcessBudget
from stream.config.publication import Publication, refuse_impossible_audience
from stream.ledger.envelope import Keys
from stream.release.gate import GatePolicy
from stream.release.planned import refuse_unplanned
from stream.release.schedule import LONGEST_BUILD
from stream.release.spec import PublicationSpec
from stream.values.duration import AS_WRITTEN, SECOND, Duration

__all__ = [
    "AttributeRoles",
    "Columns",
    "Completion",
    "Endpoint",
    "EngineSettings",
    "LogFile",
    "LogFormat",
    "LogLevel",
    "LogLines",
    "Process",
    "ProcessBudget",
    "Publication",
    "Settings",
    "TracingSettings",
]


class Endpoint(ConfigTable):
    """Address at which a daemon serves its metrics: none without a port."""

    port: int | None = Field(default=None, ge=0, le=65535)
    """Port of the metrics; 0 takes any free one, and with `run --role all` the coordinator takes the next one. Set it
    when Prometheus shall scrape the daemon."""
    host: str = Field(default="127.0.0.1", min_length=1)
    """Address of the metrics. Their figures derive from source data, so the default is loopback. Set it when
    Prometheus runs on another host or in another container."""


LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "text", "json"]


class LogLines(ConfigTable):
    """Log lines of a daemon on stderr. They never hold content of a record, at any level."""

    level: LogLevel = "info"
    """The least level that is written; `debug` adds the duration of each stage and checkpoint. Set it when a slow
    release must be explained (`debug`), or when a log store bills each line (`warning`)."""
    format: LogFormat = "auto"
    """`json` writes one object a line, `text` a readable line, `auto` text on a terminal and JSON elsewhere. Set it
    when a person reads a log that a service manager or a file collects (`text`)."""


class TracingSettings(ConfigTable):
    """Spans of the coordinator's decisions for OpenTelemetry: cut, charge, build, audit, seal, publish."""

    endpoint: str | None = Field(default=None, pattern=r"^https?://[^/@\s]+")
    """Address of the collector (OTLP over HTTP, `http://localhost:4318`); needs the extra `otel`. Set it when a tracing
    system shows how long each stage of a release takes, next to the other services of the plant."""


class EngineSettings(ConfigTable):
    """Releases are built by the mechanisms on the cases in memory, or by an engine that plans on tables of variants."""

    kind: Literal["embedded", "duckdb", "spark"] = "embedded"
    """The builder of releases: `embedded` builds in this process, `duckdb` on one host, `spark` on a cluster
    (docs/scale.md). Set it when the cases of a release do not fit in memory."""
    memory: str | None = Field(default=None, min_length=1)
    """The most that duckdb, or an executor of spark, may use (`2GB`). Set it when other programs on the host need
    memory while a release is built."""


class LogFile(ConfigTable):
    """Format of the log file of `replay` and `publish`. Settings that are absent are detected."""

    time_format: str | None = Field(default=None, min_length=1)
    """A strptime format, or day-first, month-first, year-first, excel, excel-1904, s, ms, us, ns (CSV and Parquet).
    Set it when `inspect` shows that dates were read wrongly, such as the third of April as the fourth of March."""
    encoding: str | None = Field(default=None, min_length=1)
    """Encoding of a CSV file: utf-8, cp1252 ... Set it when umlauts or accents of a CSV file arrive as other
    letters."""
    separator: str | None = Field(default=None, min_length=1)
    """One character, or comma, semicolon, tab, bar. Set it when the columns of a CSV file run together or are split in
    the wrong places."""
    object_type: str | None = Field(default=None, min_length=1)
    """The type of the objects that are the cases of an object-centric log (OCEL 2.0). Set it when the log has several
    types, such as orders and items, and one of them is to be the case."""
    skip_bad_rows: bool | None = None
    """Leave out rows that cannot be read, and write them to operator/bad-rows.csv. By default they refuse the log
    (dp kinds always leave them out). Set it when an export has a few damaged rows and nobody can repair it."""

    @classmethod
    def of(cls, reading: Reading) -> LogFile:
        """Return what the flags of a command set."""
        return cls(**{name: getattr(reading, name) for name in cls.model_fields})


class Settings(ConfigTable):
    """A whole configuration file."""

    process: Process = Process()
    """The log: see [process]. Set it when the log has a name, columns, roles or completions of its own, as nearly
    every log has."""
    publication: tuple[Publication, ...] = ()
    """The streams of releases: see [[publication]]. Set it when something is to be released: one table for each group
    of recipients or each schedule."""
    file: LogFile = LogFile()
    """Format of a log file: see [file]. Set it when `replay` or `publish` reads an export that is not detected
    correctly."""
    source: Source | None = None
    """The origin of events: see [source]. Set it when the daemon reads the events from Kafka; a replay needs
    none."""
    key: SecretStr | None = None
    """The pseudonym key: 64 hexadecimal digits, best from VEILSTREAM_KEY_FILE. By default the operator's folder holds
    one. Set it when the key comes from a vault, or when several hosts must give a case the same pseudonym."""
    checkpoint_key: SecretStr | None = None
    """The key that encrypts checkpoints and mirror: 64 hexadecimal digits, best from VEILSTREAM_CHECKPOINT_KEY_FILE.
    It does not cover the working files of an engine ([engine]), which need an encrypted disk. Set it when others can
    read the disk, its snapshots or its backups."""
    checkpoint_key_former: SecretStr | None = None
    """The key before `checkpoint_key`, which is only read. Set it when you replace `checkpoint_key`, until `veilstream
    migrate` finds nothing under the old one."""
    health_port: int | None = Field(default=None, ge=0, le=65535)
    """Daemon: port of /healthz and /readyz on loopback; 0 takes any free one. Set it when an orchestrator such as
    Kubernetes restarts processes that do not answer."""
    store: str | None = Field(default=None, min_length=1)
    """fsspec URL of the public folder, `<output>/public` by default. Set it when recipients read from elsewhere, for
    example from a bucket."""
    metrics: Endpoint = Endpoint()
    """Daemon: metrics for Prometheus, see [metrics]. Set it when releases and budget are watched by Prometheus."""
    log: LogLines = LogLines()
    """Daemon: level and format of log lines, see [log]. Set it when log lines are read by another program than a
    collector of JSON, or are too many or too few."""
    tracing: TracingSettings = TracingSettings()
    """Daemon: spans of decisions, see [tracing]. Set it when the services around the daemon are traced too."""
    engine: EngineSettings = EngineSettings()
    """The builder of releases, see [engine]; `replay --engine` overrides it. Set it when a release is larger than the
    memory of the host."""
    longest_build: Duration = LONGEST_BUILD
    """Daemon: a build that takes longer (and longer than each `publish_after`) ends the process, and the next start
    withholds its cut. Set it when releases of your log need more than 15 minutes to build."""
    min_free_bytes: int = Field(default=64 * 1024 * 1024, ge=0)
    """Space that must be free before a release is built. Set it when a release is larger than 32 MB: to twice its
    size."""
    checkpoint_every: int = Field(default=20_000, ge=1)
    """Events between two checkpoints; a cut makes one too. Set it when a restart takes too long (lower), or when
    checkpoints keep a slow disk busy (higher)."""

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
            raise ValueError(f"publication {twice[0]!r} appears twice")
        for publication in self.publication:
            bins: Mapping[str, Any] = getattr(publication.build_mechanism, "bins", {})
            if unknown := sorted(set(bins) - set(self.process.sensitive)):
                raise InputError(
                    f"publication {publication.name!r}: mechanism.bins are given for {', '.join(unknown)}, which "
                    "process.sensitive does not name"
                )
        self._check_accounting()
        self._check_identifiers()
        self._check_mappings()
        for publication in self.publication:
            self._check_released(publication)
            self._check_resources(publication)
        for publication in self.publication:
            timed = publication.build_mechanism
            if getattr(timed, "clock", "utc") == "log" and self.process.timezone is None:
                raise InputError(
                    f'publication {publication.name!r}: mechanism.clock = "log" needs process.timezone: events come '
                    "without the clock that they were written by"
                )
        self._check_engine()
        members_of: dict[str, list[Publication]] = {}
        for publication in self.publication:
            members_of.setdefault(publication.audience, []).append(publication)
        for audience, members in members_of.items():
            refuse_impossible_audience(audience, members)
        if self.checkpoint_key_former is not None and self.checkpoint_key is None:
            raise ValueError("checkpoint_key_former is set without checkpoint_key: nothing could be sealed")
        return self

    @property
    def promises_epsilon(self) -> bool:
        """Whether a publication promises epsilon: then no row may decide how another is read."""
        return any(not publication.build_mechanism.reads_data_in_gate for publication in self.publication)

    def reading(self, say: Callable[[str], None]) -> Reading:
        """Return how a log file of this process is read; `say` reports what was guessed."""
        process = self.process
        return Reading(
            columns=process.columns.changed,
            timezone=process.timezone,
            lifecycle=process.lifecycle,
            say=say,
            declared=self.promises_epsilon,
            **self.file.model_dump(),
        )

    def spec(self, publication: Publication) -> PublicationSpec:
        """Return what the pipeline of a publication needs."""
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
            increments=publication.release == "increment",
            attributes=publication.release_attributes,
            max_epsilon=budget.max_epsilon,
            max_delta=budget.max_delta,
            sensitive=self.process.sensitive,
            raw_resources=self.process.raw_resources,
            roles=self.process.role_of if publication.resources == "roles" else None,
            min_free_bytes=self.min_free_bytes,
            once=publication.once(person=self.process.person is not None),
            accumulation=publication.accumulation,
            assess=publication.assess,
            approval=publication.approval == "required",
            hold=publication.hold,
            accounting=budget.adds,
        )

    def _check_engine(self) -> None:
        """Refuse releases that an engine cannot plan on a table of variants."""
        if self.engine.kind == "embedded":
            if self.engine.memory is not None:
                raise InputError("engine.memory is for engine.kind = duckdb and spark")
            return
        for publication in self.publication:
            refuse_unplanned(
                publication.name,
                publication.build_mechanism,
                repairs=publication.gate.on_violation == "repair",
                accumulates=publication.accumulate != "none",
            )

    def _check_accounting(self) -> None:
        """Refuse charges of two kinds, which do not add up."""
        accounting = self.process.budget.accounting
        for publication in self.publication:
            kind, charge = publication.build_mechanism.kind, publication.build_mechanism.charge()
            place = f"publication {publication.name!r}"
            if accounting == "pure" and charge.rho:
                raise InputError(
                    f'{place}: mechanism.rho is added up by process.budget.accounting = "zcdp", and the ledger of this '
                    "process adds up epsilon; set it, or give the mechanism an epsilon"
                )
            if accounting == "zcdp" and charge != Charge() and not charge.rho:
                has = "mechanism.epsilon" if kind == "dp-variants" else f"the epsilon of {kind}"
                raise InputError(
                    f'{place}: process.budget.accounting = "zcdp" adds up rho, and {has} is not one; use dp-variants '
                    "with rho, or give this publication a process (a ledger) of its own"
                )

    def _check_identifiers(self) -> None:
        named = self.process.attributes.identifier
        for name in self.source.kept if self.source else ():
            if name in named:
                raise InputError(f"source.mapping: {name!r} has the role identifier, which is never stored")
        columns = self.process.columns
        for role, column in columns.model_dump().items():
            if column in named and role != "case":
                raise InputError(f"process.columns.{role}: {column!r} has the role identifier, which is never stored")
            if column in self.process.attributes.person:
                raise InputError(f"process.columns.{role}: {column!r} has the role person; a column plays one part")

    def _check_mappings(self) -> None:
        """Refuse attributes that mechanisms bound and no mapping gives.

        They would count as absent in every case.
        """
        mappings = self.source.mapping if self.source else ()
        if not mappings:
            return
        mapped = {name for mapping in mappings for name in mapping.names}
        for name in (*self.process.kept, *self.process.attributes.person):
            if name not in mapped:
                raise InputError(f"source.mapping: none gives the attribute {name!r}; name its path in attributes")
        if self.process.lifecycle is not None:
            raise InputError(
                "process.lifecycle is for events with a transition; with a source.mapping, its rules decide which "
                "records are events"
            )

    def _check_released(self, publication: Publication) -> None:
        """Refuse to release attributes whose role forbids it, or which the mechanism cannot release."""
        place, roles = f"publication {publication.name!r}: release_attributes", self.process.attributes
        for name in publication.release_attributes:
            if name in (*roles.identifier, *roles.quasi, *roles.person):
                role = next(role for role in ("identifier", "quasi", "person") if name in getattr(roles, role))
                raise InputError(f"{place}: {name!r} has the role {role}, which is never released")
            if name not in (*roles.sensitive, *roles.public):
                raise InputError(
                    f"{place}: {name!r} has no role; name it in process.attributes.sensitive or .public first"
                )
        if publication.release_attributes and not publication.build_mechanism.releases_attributes:
            raise InputError(f"{place}: {publication.build_mechanism.kind} releases no attributes of cases")

    def _check_resources(self, publication: Publication) -> None:
        """Refuse roles that are not defined, and raw names if pseudonyms are configured."""
        place, process = f"publication {publication.name!r}: resources", self.process
        if publication.resources == "roles" and process.resource_roles is None:
            raise InputError(
                f'{place} = "roles" needs process.resource_roles: an attribute of events ("org:role"), or the '
                "resources of each role"
            )
        if publication.resources == "pseudonyms" and process.raw_resources:
            raise InputError(f'{place} = "pseudonyms", but process.raw_resources releases the names; keep one')

    @property
    def storage_keys(self) -> Keys:
        """The keys of checkpoints and mirror."""
        return Keys(_key_bytes(self.checkpoint_key), _key_bytes(self.checkpoint_key_former))

    def written(self) -> dict[str, Any]:
        """Return all keys that were set, without secrets, as `stream.config.sources` reads them."""
        return _without_secrets(self, self.model_dump(mode="json", exclude_unset=True, context=AS_WRITTEN))

    @property
    def longest_build_seconds(self) -> float:
        """Seconds after which a build ends the process: no sooner than a publication's `publish_after` allows."""
        allowed = [publication.publish_after or 0 for publication in self.publication]
        return max([self.longest_build, *allowed]) / SECOND

    @property
    def digest(self) -> str:
        """sha256 of the configuration's meaning: names what a release was made with."""
        body = {"process": _meaning(self.process), "publication": [_meaning(p) for p in self.publication]}
        return hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()


DIGESTED: Mapping[type[BaseModel], frozenset[str]] = {
    Process: frozenset(
        {"name", "sensitive", "columns", "completion", "timezone", "budget", "retention", "raw_resources"}
    ),
    Columns: frozenset({"case", "activity", "time", "resource"}),
    ProcessBudget: frozenset({"max_epsilon", "max_delta"}),
    AttributeRoles: frozenset({"identifier", "sensitive", "quasi", "public"}),
    Publication: frozenset({"name", "window", "mechanism", "audit", "gate", "late", "formats"}),
    GatePolicy: frozenset(
        {"min_ka", "min_fa", "min_ca", "min_ba", "max_tpl", "max_epsilon", "max_delta", "max_uniqueness", "min_utility"}
        | {"min_series", "on_violation", "charge_withheld", "public_cut"}
    ),
}
"""The keys of the first version, which are always in the digest. A later key is in it only if it is not at its default,
so that a new program computes the same digest of an old configuration."""


def _key_bytes(secret: SecretStr | None) -> bytes | None:
    """Return the bytes of a key that the configuration has as hexadecimal text."""
    if secret is None:
        return None
    return bytes.fromhex(secret.get_secret_value().strip())


def _without_secrets(model: BaseModel, body: dict[str, Any]) -> dict[str, Any]:
    kept = {}
    for name, value in body.items():
        present = getattr(model, name)
        if not isinstance(present, SecretStr):
            kept[name] = _without_secrets(present, value) if isinstance(present, BaseModel) else value
    return kept


def _meaning(model: BaseModel) -> dict[str, Any]:
    """Return what the digest covers of a model."""
    if isinstance(model, Process):
        model = model.model_copy(update={"attributes": model.attributes.model_copy(update={"sensitive": ()})})
    body, first = model.model_dump(mode="json"), DIGESTED.get(type(model))
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if first is not None and name not in first and value == field.get_default(call_default_factory=True):
            del body[name]
        elif isinstance(value, BaseModel):
            body[name] = _meaning(value)
    if isinstance(model, Publication):
        body["first"] = None  # a key of the first version, now in the window: without it every digest would change
    return body
