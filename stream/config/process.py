"""`[process]`: one log, its columns, the roles of its attributes, when its cases end."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializationInfo,
    WrapSerializer,
    field_validator,
    model_validator,
)

from connectors.lifecycle import Lifecycle
from connectors.times import nanoseconds as instant
from connectors.times import zone
from models.dp.zcdp import CONVERSION_DELTA, Accounting
from models.errors import InputError
from stream.values.duration import Duration, as_duration, as_text, written_duration
from stream.values.exact import Exact

NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")


FOR_EVER = "for ever"


def _archive_age(value: Any) -> Any:
    """Return nanoseconds of a duration, or `FOR_EVER`."""
    if value == FOR_EVER:
        return value
    try:
        return as_duration(value)
    except ValueError as error:
        raise ValueError(f"{error}, and not {FOR_EVER!r}") from None


def _written_age(value: Any, plain: Callable[[Any], Any], info: SerializationInfo) -> Any:
    return plain(value) if value == FOR_EVER else written_duration(value, plain, info)


ArchiveAge = Annotated[int | Literal["for ever"], BeforeValidator(_archive_age), WrapSerializer(_written_age)]


def kept_moment(value: AwareDatetime | None) -> AwareDatetime | None:
    """Return the moment if int64 nanoseconds since 1970 can hold it.

    Raises
    ------
    ValueError
        If they cannot.
    """
    if value is not None:
        instant(value)
    return value


class ConfigTable(BaseModel):
    """A table of the configuration file: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Columns(ConfigTable):
    """Names of the columns; the XES names are the defaults."""

    case: str = "case:concept:name"
    """Name of the case. Set it when your file or topic calls the case differently, such as `patient_id`."""
    activity: str = "concept:name"
    """Name of the activity. Set it when the activity is in a column such as `event` or `step`."""
    time: str = "time:timestamp"
    """Name of the time. Set it when the time of an event is in a column such as `timestamp`."""
    resource: str = "org:resource"
    """Name of the person or machine that did an event. Set it when the employee of a step is in a column such as
    `user`."""
    lifecycle: str = "lifecycle:transition"
    """Name of the transition of an activity. Set it when a column such as `status` says whether an activity starts or
    ends."""

    @property
    def changed(self) -> dict[str, str]:
        """The names that differ from the XES names."""
        return {name: value for name, value in self.model_dump().items() if name in self.model_fields_set}


class Completion(ConfigTable):
    """When a case counts as complete."""

    end_activities: tuple[str, ...] = ()
    """A case is complete when one of these activities is its last event. A change holds for events that come after it.
    Set it when certain activities end a case, such as a discharge."""
    end_all: tuple[str, ...] = Field(default=(), max_length=64)
    """A case is complete once it has had all of these activities, in any order. Set it when a case ends with several
    steps whose order differs, such as payment and delivery."""
    inactivity: Duration | None = None
    """A case is complete after this much silence. Set it when no event marks the end of a case."""
    log_end: bool = False
    """Replay only: a case is complete when the log has no later event of it. Set it when a log of the past is replayed
    in which all cases are over."""


class ProcessBudget(ConfigTable):
    """Cap over all publications of the process (what they cost by the account adds up)."""

    max_epsilon: Exact | None = Field(default=None, gt=0)
    """The largest epsilon of all publications together. Set it when several dp publications share one budget, or a
    renamed one must not start a new budget."""
    max_delta: Exact | None = Field(default=None, ge=0, lt=1)
    """The largest delta of all publications together. Set it when the people in the log were promised a bound on
    the chance that the dp guarantee fails."""
    accounting: Literal["pure", "zcdp"] = "pure"
    """The accounting of the ledger, for its whole life: `pure` charges epsilon and delta_dp, `zcdp` adds rho. Set it
    when many releases with Gaussian noise (`dp-variants` with `rho`) share a budget: `zcdp` allows far more of
    them."""
    conversion_delta: Exact | None = Field(default=None, gt=0, lt=1)
    """zcdp: the delta at which rho is shown and bounded as epsilon; it counts once. Set it when `max_delta` must be
    below 1e-6, which is the default of this key."""

    @model_validator(mode="after")
    def _of_zcdp(self) -> ProcessBudget:
        if self.conversion_delta is not None and self.accounting != "zcdp":
            raise ValueError('conversion_delta is of accounting = "zcdp": add it, or remove conversion_delta')
        if self.max_delta is not None and self.accounting == "zcdp" and self.adds.conversion_delta >= self.max_delta:
            raise ValueError(
                f"max_delta = {float(self.max_delta):g} is not above conversion_delta = "
                f"{float(self.adds.conversion_delta):g}, which counts to it: no release could come; lower the latter"
            )
        return self

    @property
    def adds(self) -> Accounting:
        """The accounting, by which charges add up."""
        return Accounting(self.accounting, self.conversion_delta or CONVERSION_DELTA)


Role = Literal["identifier", "sensitive", "quasi", "public", "person"]


class AttributeRoles(ConfigTable):
    """The role of each attribute; one that has none is dropped at intake."""

    identifier: tuple[str, ...] = ()
    """Attributes that name one person: dropped at intake, in no topic and no file. Set it when events carry a name, an
    insurance number or the like."""
    sensitive: tuple[str, ...] = ()
    """Attributes that must not be learnt of a person: bounded by C, and released only if a publication names them
    (`release_attributes`). Set it when cases carry a diagnosis, a salary or the like."""
    quasi: tuple[str, ...] = ()
    """Attributes that others may know of a person: counted in the risk of the source, never released. Set it when
    cases carry age, sex or postal code."""
    public: tuple[str, ...] = ()
    """Attributes that are not about a person: released and counted if a publication names them. Set it when recipients
    need a ward, a product or a region of each case."""
    person: tuple[str, ...] = Field(default=(), max_length=1)
    """The attribute that names the person of a case, by which `cases = "completed"` counts the cases of a person. Only
    its pseudonym is stored; never released. Set it when one person can have several cases, such as several stays
    in a hospital."""

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        """Read `{Diagnose = "sensitive"}` like `{sensitive = ["Diagnose"]}`."""
        if not isinstance(value, Mapping):
            return value
        roles: dict[str, list[str]] = {}
        for key, role_or_names in value.items():
            if isinstance(role_or_names, str):
                if role_or_names not in cls.model_fields:
                    raise ValueError(f"{key!r} has no role {role_or_names!r}: use {', '.join(cls.model_fields)}")
                roles.setdefault(role_or_names, []).append(key)
            else:
                roles.setdefault(key, []).extend(
                    role_or_names if isinstance(role_or_names, list | tuple) else [role_or_names]
                )
        return roles

    @model_validator(mode="after")
    def _one_role(self) -> AttributeRoles:
        names = [name for role in type(self).model_fields for name in getattr(self, role)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{twice[0]!r} has two roles; keep one")
        return self


class Process(ConfigTable):
    """One log: its name, its columns, the roles of its attributes."""

    name: str = "log"
    """Lower-case letters, digits, hyphens; part of the names of topics and metrics. Set it when a broker or a
    Prometheus serves several processes."""
    sensitive: tuple[str, ...] = ()
    """Short for `attributes.sensitive`. Set it when sensitive attributes are the only ones that have a role; the flag
    `--sensitive` means the same."""
    attributes: AttributeRoles = AttributeRoles()
    """Roles of the attributes: see [process.attributes]. Set it when events carry attributes about a person, or
    attributes that recipients need."""
    columns: Columns = Columns()
    """Names of the columns: see [process.columns]. Set it when file or topic does not use the names of XES."""
    completion: Completion = Completion()
    """When a case is complete: see [process.completion]; `"log_end"` is short for `{ log_end = true }`. Set it when
    cohorts or `cases = "completed"` release cases once they are over."""
    lifecycle: Lifecycle | None = None
    """Transitions that are events: `complete`, `start`, or `both` (as `A+start` and `A+complete`). An event without a
    transition counts as complete. By default all are events, under their activity. Set it when each activity is
    recorded by its start and by its end."""
    timezone: str | None = None
    """Zone of times that carry none (`Europe/Berlin`). Set it when an export has local times without an offset, or
    when `mechanism.clock = "log"` counts days of a place."""
    budget: ProcessBudget = ProcessBudget()
    """Bounds over all publications: see [process.budget]. Set it when several dp publications are about the same
    people."""
    retention: Duration | None = None
    """A complete case leaves the state this long after its last event. Set it when data must be deleted in time, or
    when the state must not grow forever."""
    archive: ArchiveAge | None = None
    """How long after the last event of its case an event of a released case is kept in the archive, once the state has
    dropped it: a duration, or `"for ever"`. By default such events are kept nowhere. Set it when released cases are
    needed later, for another publication of the past, another plan or an audit by law."""
    raw_resources: bool = False
    """Keep and publish the names of resources. By default they are pseudonyms from ingest on, in topics and state too.
    Names after releases with pseudonyms tell who is behind these. Set it when resources are machines or
    departments, not people."""
    resource_roles: str | dict[str, tuple[str, ...]] | None = None
    """An attribute of events that holds the role (`"org:role"`), or the resources of each role (`{ nurse = ["Ann",
    "Ben"] }`). Set it when a publication shows roles instead of employees (`resources = "roles"`)."""
    earliest: AwareDatetime | None = None
    """Events before this time are ignored: the daemon sends them to the dlq, a replay leaves them out. Set it when the
    information system writes 1900-01-01 or the like if the date is unknown."""

    _moment = field_validator("earliest")(kept_moment)

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        return plain_name(value, "process.name")

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
        """Make one list of `sensitive` and `attributes.sensitive`."""
        if not isinstance(value, Mapping):
            return value
        roles = value.get("attributes", {})
        if not isinstance(roles, Mapping | AttributeRoles):
            return value
        if not isinstance(roles, AttributeRoles):
            roles = AttributeRoles.model_validate(roles)
        short = value.get("sensitive", ())
        if not isinstance(short, list | tuple):
            return value
        both = tuple(dict.fromkeys((*short, *roles.sensitive)))
        all_roles = {**roles.model_dump(), "sensitive": both}
        return {**value, "sensitive": both, "attributes": all_roles}

    @model_validator(mode="after")
    def _archive_in_retention(self) -> Process:
        archive, retention = self.archive, self.retention
        if archive is None or retention is None:
            return self
        if isinstance(archive, str) or archive > retention:
            kept = archive if isinstance(archive, str) else as_text(archive)
            raise ValueError(
                f'archive = "{kept}" would keep events longer than retention = "{as_text(retention)}" allows: shorten '
                "archive, or remove retention (events of released cases leave the state without it)"
            )
        return self

    @model_validator(mode="after")
    def _roles_of_resources(self) -> Process:
        roles = self.resource_roles
        if isinstance(roles, str):
            for role in ("identifier", "sensitive", "quasi", "person"):
                if roles in getattr(self.attributes, role):
                    raise ValueError(f"resource_roles = {roles!r} has the role {role}, which cannot leave with events")
        elif roles is not None:
            if not roles or not all(roles.values()):
                raise ValueError("resource_roles: each role needs at least one resource")
            everyone = [name for names in roles.values() for name in names]
            if len(set(everyone)) < len(everyone):
                raise ValueError("resource_roles: a resource has two roles; keep one")
        return self

    @property
    def role_of(self) -> str | dict[str, str] | None:
        """The attribute that holds the role, or the role of each resource (`resource_roles`)."""
        if isinstance(self.resource_roles, str) or self.resource_roles is None:
            return self.resource_roles
        return {name: role for role, names in self.resource_roles.items() for name in names}

    @property
    def person(self) -> str | None:
        """The attribute that names the person of a case."""
        return next(iter(self.attributes.person), None)

    @property
    def kept(self) -> tuple[str, ...]:
        """The attributes that mechanisms and audits read.

        These are all attributes with a role except identifiers and the person, and the one that holds the role of a
        resource.
        """
        names = (*self.sensitive, *self.attributes.quasi, *self.attributes.public)
        more = self.resource_roles if isinstance(self.resource_roles, str) else ""
        return (*names, more) if more and more not in names else names

    @field_validator("completion", mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        return {"log_end": True} if value == "log_end" else value


def plain_name(value: str, place: str) -> str:
    """Return the name if a topic and a folder can have it.

    Raises
    ------
    ValueError
        If they cannot; the message begins with `place`.
    """
    if not NAME.fullmatch(value):
        raise ValueError(f"{place} = {value!r}: use a lower-case letter, then letters, digits and hyphens (63 at most)")
    return value
