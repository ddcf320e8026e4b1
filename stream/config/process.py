"""`[process]`: one log, its columns, the roles of its attributes, when its cases end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from connectors.lifecycle import Lifecycle
from connectors.times import nanoseconds as instant
from connectors.times import zone
from models.dp.zcdp import CONVERSION_DELTA, Accounting
from models.errors import InputError
from stream.values.duration import Duration
from stream.values.exact import Exact

NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")


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
    """Set it if your file or topic calls the case differently."""
    activity: str = "concept:name"
    """Set it if the activity has another name."""
    time: str = "time:timestamp"
    """Set it if the time has another name."""
    resource: str = "org:resource"
    """Set it if whoever did an event has another name."""
    lifecycle: str = "lifecycle:transition"
    """Set it if the transition of an activity has another name."""

    @property
    def changed(self) -> dict[str, str]:
        """The names that differ from the XES names."""
        return {name: value for name, value in self.model_dump().items() if name in self.model_fields_set}


class Completion(ConfigTable):
    """When a case counts as complete."""

    end_activities: tuple[str, ...] = ()
    """Set it if certain activities end a case: it is complete when one of them is its last event."""
    end_all: tuple[str, ...] = Field(default=(), max_length=64)
    """Set it if a case ends once it has had all of certain activities, in any order."""
    inactivity: Duration | None = None
    """Set it if no event tells that a case is over: it is complete after this much silence."""
    log_end: bool = False
    """Set it to replay a log of the past: a case is complete when the log has no later event of it."""


class ProcessBudget(ConfigTable):
    """Cap over all publications of the process (their charges add up)."""

    max_epsilon: Exact | None = Field(default=None, gt=0)
    """Set it if several dp publications share one budget: the largest sum of their epsilon."""
    max_delta: Exact | None = Field(default=None, ge=0, lt=1)
    """The same for delta_dp."""
    accounting: Literal["pure", "zcdp"] = "pure"
    """How the ledger adds charges up, for its whole life: `pure` adds epsilon and delta_dp. Set `zcdp` if many
    releases with Gaussian noise (`dp-variants` with `rho`) share a budget: it adds their rho, and allows far more
    of them."""
    conversion_delta: Exact | None = Field(default=None, gt=0, lt=1)
    """zcdp: the delta at which rho is shown and bounded as epsilon; it counts once. Set it if max_delta must be below
    the 1e-6 of the default."""

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
        """How charges add up."""
        return Accounting(self.accounting, self.conversion_delta or CONVERSION_DELTA)


Role = Literal["identifier", "sensitive", "quasi", "public", "person"]


class AttributeRoles(ConfigTable):
    """The role of each attribute; one that has none is dropped at intake."""

    identifier: tuple[str, ...] = ()
    """Names one person (a citizen number): dropped at intake, never stored, in no topic and no file."""
    sensitive: tuple[str, ...] = ()
    """Must not be learnt of a person (a diagnosis): bounded by C, and released only if a publication names it
    (`release_attributes`)."""
    quasi: tuple[str, ...] = ()
    """May be known of a person (age, postal code): counted in the risk of the source, never released."""
    public: tuple[str, ...] = ()
    """Not about a person: released and counted if a publication names it."""
    person: tuple[str, ...] = Field(default=(), max_length=1)
    """Tells whose case it is. Set it if people can have several cases: `cases = "completed"` counts the cases of a
    person by it. Only its pseudonym is stored; it is never released."""

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
    """Lower-case letters, digits, hyphens; part of the names of topics and metrics. Set it for each process of a
    broker or a ledger."""
    sensitive: tuple[str, ...] = ()
    """Short for `attributes.sensitive`."""
    attributes: AttributeRoles = AttributeRoles()
    """Roles of the attributes: see process.attributes."""
    columns: Columns = Columns()
    """Names of the columns: see process.columns."""
    completion: Completion = Completion()
    """When a case is complete: see process.completion. `"log_end"` is short for `{ log_end = true }`."""
    lifecycle: Lifecycle | None = None
    """Set it if activities have transitions (column `lifecycle`): which of them are events: `complete`, `start`, or
    `both`, as `A+start` and `A+complete`. An event without a transition counts as complete. By default all are
    events, under their activity."""
    timezone: str | None = None
    """Set it if times carry no zone, or for `mechanism.clock = "log"`, which counts by the hours of a place
    (`Europe/Berlin`)."""
    budget: ProcessBudget = ProcessBudget()
    """Bounds over all publications: see process.budget."""
    retention: Duration | None = None
    """Set it if the state must not grow for ever, or data must be deleted in time: a complete case leaves the state
    this long after its last event."""
    raw_resources: bool = False
    """Set it if resources are no people (machines): keep and publish their names. By default they are pseudonyms from
    ingest on, in topics and state too."""
    resource_roles: str | dict[str, tuple[str, ...]] | None = None
    """Set it for publications with `resources = "roles"`, which show roles instead of employees: an attribute of
    events (`"org:role"`), or the resources of each role (`{ nurse = ["Ann", "Ben"] }`)."""
    earliest: AwareDatetime | None = None
    """Set it if some events have dates like 1900-01-01: events before this time are ignored; the daemon sends them to
    the dlq, a replay leaves them out."""

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
        if not isinstance(value, Mapping) or not isinstance(value.get("attributes", {}), Mapping | AttributeRoles):
            return value
        written_roles = value.get("attributes", {})
        roles = (
            written_roles if isinstance(written_roles, AttributeRoles) else AttributeRoles.model_validate(written_roles)
        )
        short = value.get("sensitive", ())
        if not isinstance(short, list | tuple):
            return value
        both = tuple(dict.fromkeys((*short, *roles.sensitive)))
        all_roles = {**roles.model_dump(), "sensitive": both}
        return {**value, "sensitive": both, "attributes": all_roles}

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
        """The attribute that tells whose case it is."""
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


def plain_name(value: str, where: str) -> str:
    """Return the name if a topic and a folder can have it.

    Raises
    ------
    ValueError
        If they cannot; the message begins with `where`.
    """
    if not NAME.fullmatch(value):
        raise ValueError(f"{where} = {value!r}: use a lower-case letter, then letters, digits and hyphens (63 at most)")
    return value
