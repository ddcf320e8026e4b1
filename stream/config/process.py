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
    """A moment that nanoseconds since 1970 can hold; ValueError otherwise."""
    if value is not None:
        instant(value)
    return value


class ConfigTable(BaseModel):
    """A table of the configuration file: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Columns(ConfigTable):
    """Names of the columns; the XES names are the defaults."""

    case: str = "case:concept:name"
    activity: str = "concept:name"
    time: str = "time:timestamp"
    resource: str = "org:resource"
    lifecycle: str = "lifecycle:transition"

    @property
    def changed(self) -> dict[str, str]:
        """Only what differs from the XES names."""
        return {name: value for name, value in self.model_dump().items() if name in self.model_fields_set}


class Completion(ConfigTable):
    """When a case counts as complete."""

    end_activities: tuple[str, ...] = ()
    end_all: tuple[str, ...] = Field(default=(), max_length=64)
    inactivity: Duration | None = None
    log_end: bool = False
    """Replay only: a case is complete when the log holds no later event of it."""


class ProcessBudget(ConfigTable):
    """Cap over all publications of the process (their charges add up)."""

    max_epsilon: Exact | None = Field(default=None, gt=0)
    max_delta: Exact | None = Field(default=None, ge=0, lt=1)
    accounting: Literal["pure", "zcdp"] = "pure"
    """how the ledger adds charges up: `pure` adds epsilon and delta_dp; `zcdp` adds the `rho` of mechanisms with
    Gaussian noise (`dp-variants`), which allows far more releases. One for the life of a ledger"""
    conversion_delta: Exact | None = Field(default=None, gt=0, lt=1)
    """zcdp: the delta at which rho is shown, and bounded, as epsilon; it counts to delta once. 1e-6 by default"""

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
    """Bounded by C; released only where a publication names it (`release_attributes`)."""
    quasi: tuple[str, ...] = ()
    """What somebody may know of a person (age, postal code): counted in the risk of the source, never released."""
    public: tuple[str, ...] = ()
    """Says nothing about a person: released where a publication names it, and counted there."""
    person: tuple[str, ...] = Field(default=(), max_length=1)
    """Says whose case it is. Only its pseudonym is stored, never released: `cases = "completed"` counts the cases of a
    person by it."""

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
    def _one_role(self) -> AttributeRoles:
        names = [name for role in type(self).model_fields for name in getattr(self, role)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{twice[0]!r} has two roles; keep one")
        return self


class Process(ConfigTable):
    """One log: its name, its columns, the roles of its attributes."""

    name: str = "log"
    sensitive: tuple[str, ...] = ()
    """Short for `attributes.sensitive`."""
    attributes: AttributeRoles = AttributeRoles()
    columns: Columns = Columns()
    completion: Completion = Completion()
    lifecycle: Lifecycle | None = None
    """Which transitions of an activity are events (column `lifecycle`): `complete`, `start`, or `both`, as `A+start`
    and `A+complete`. An event without a transition counts as complete. By default all are, under their activity."""
    timezone: str | None = None
    budget: ProcessBudget = ProcessBudget()
    retention: Duration | None = None
    """A closed case leaves the state this long after its completion."""
    raw_resources: bool = False
    """Keep and publish resource names as they are; by default they are pseudonyms from ingest on, in topics and state
    too."""
    resource_roles: str | dict[str, tuple[str, ...]] | None = None
    """What publications with `resources = "roles"` show instead of employees: an attribute of events (`"org:role"`), or
    a taxonomy, the resources of each role (`{ nurse = ["Ann", "Ben"] }`)."""
    earliest: AwareDatetime | None = None
    """Events before this time are ignored: the daemon sends them to the dlq, a replay leaves them out."""

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
        """`sensitive` and `attributes.sensitive` are one list, whichever was written."""
        if not isinstance(value, Mapping) or not isinstance(value.get("attributes", {}), Mapping | AttributeRoles):
            return value
        given = value.get("attributes", {})
        roles = given if isinstance(given, AttributeRoles) else AttributeRoles.model_validate(given)
        short = value.get("sensitive", ())
        if not isinstance(short, list | tuple):
            return value
        both = tuple(dict.fromkeys((*short, *roles.sensitive)))
        known = {**roles.model_dump(), "sensitive": both}
        return {**value, "sensitive": both, "attributes": known}

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
        """`resource_roles`: the attribute, or the role of each resource."""
        if isinstance(self.resource_roles, str) or self.resource_roles is None:
            return self.resource_roles
        return {name: role for role, names in self.resource_roles.items() for name in names}

    @property
    def person(self) -> str | None:
        """The attribute that says whose case it is."""
        return next(iter(self.attributes.person), None)

    @property
    def kept(self) -> tuple[str, ...]:
        """The attributes that mechanisms and audits read: all with a role but identifiers and the person, and what says
        the role of resources."""
        known = (*self.sensitive, *self.attributes.quasi, *self.attributes.public)
        more = self.resource_roles if isinstance(self.resource_roles, str) else ""
        return (*known, more) if more and more not in known else known

    @field_validator("completion", mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        return {"log_end": True} if value == "log_end" else value


def plain_name(value: str, where: str) -> str:
    """The name, where it can be that of a topic and of a folder; ValueError otherwise."""
    if not NAME.fullmatch(value):
        raise ValueError(f"{where} = {value!r}: use a lower-case letter, then letters, digits and hyphens (63 at most)")
    return value
