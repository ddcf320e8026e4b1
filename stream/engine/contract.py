"""The contract of an engine: it counts the variants of a data set, and assigns a released trace to each case.

The draws of a case (its released id, its place among the cases of its variant) come from HMAC-SHA256 of its id
under a key that is made for one release and thrown away: a task that an engine runs again draws the same, and nobody
outside draws it at all. Noise is drawn where the plan is made, never by an engine.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from models.anonymize.sensitive import Edges
from models.eventlog import Codes, Column, Ints
from models.knowledge import Knowledge
from models.variants import VariantPlan, VariantTable

KINDS = ("embedded", "duckdb", "spark")

ID_DIGITS = 20
"""Hexadecimal digits of a released case id: of 10^9 cases two get the same one with probability 4 in 10^7."""

BLOCK = 64
"""Bytes of a block of SHA-256: HMAC pads its key to it."""

ReportStep = Callable[[str], None]
"""Called with the name of the next step of an engine, in a word or two."""


def report_nothing(_: str) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class CountQuery:
    """A question to an engine: which table of variants to count.

    * `knowledge`: its items make a variant;
    * `sensitive`: attributes of a case, each a column of the table; `classes`: as the classes that C bounds,
      numbers cut by `bins` or at their quartiles, else as they are;
    * `public`: attributes that leave as they are: not in the table, but with the case when a plan is applied;
    * `written`: labels and values in the form that any file can hold (`models.anonymize.values`), as releases need it.
    """

    knowledge: Knowledge
    sensitive: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    bins: Mapping[str, Edges] = field(default_factory=dict)
    classes: bool = True
    written: bool = True


@dataclass(frozen=True, slots=True)
class Counted:
    """The answer to a `CountQuery`.

    `table`: the variants. `unit`: the coarsest unit of which all times are whole multiples apart, if that is coarser
    than the unit of the knowledge. `changing_cases`: how many cases have events with different values of each sensitive
    attribute.
    """

    table: VariantTable
    unit: str | None = None
    changing_cases: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Leaving:
    """Some of the cases that leave, in the order of their ids.

    `ids`: of each; `trace`: int64, its trace in the plan; `row`: int64, its row in the table; `attributes`: codes of
    its public attributes, by name.
    """

    ids: Sequence[str]
    trace: Ints
    row: Ints
    attributes: Mapping[str, Codes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draws:
    """The key of one release, from which its cases draw."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def pads(self, purpose: str) -> tuple[bytes, bytes]:
        """Return the inner and the outer block of HMAC-SHA256 under the key of a purpose.

        HMAC(key, text) is sha256(outer + sha256(inner + text)).
        """
        import hashlib
        import hmac

        purpose_key = hmac.new(self.key, purpose.encode(), hashlib.sha256).digest().ljust(BLOCK, b"\0")
        inner = bytes(byte ^ 0x36 for byte in purpose_key)
        outer = bytes(byte ^ 0x5C for byte in purpose_key)
        return inner, outer

    def of(self, purpose: str, case: str) -> str:
        """Return the draw of a case for a purpose, 64 hexadecimal digits."""
        import hashlib

        inner, outer = self.pads(purpose)
        text = case.encode("utf-8", "surrogatepass")
        return hashlib.sha256(outer + hashlib.sha256(inner + text).digest()).hexdigest()


class Engine(Protocol):
    """One data set, opened. `count` comes before `leaving`."""

    @property
    def cases(self) -> int:
        """Cases of the data set, once it is counted."""
        ...

    def count(self, count_query: CountQuery, report_step: ReportStep = report_nothing) -> Counted:
        """Return the table of variants of the data set."""
        ...

    def values(self, name: str) -> Column:
        """Return the distinct values of a public attribute, which the codes of `Leaving` refer to."""
        ...

    def leaving(
        self,
        plan: VariantPlan,
        draws: Draws,
        report_step: ReportStep = report_nothing,
    ) -> Iterator[Leaving]:
        """Return the cases that leave, ascending by released id.

        Parameters
        ----------
        plan
            The plan of the release.
        draws
            Secret draws, from which the released ids follow.
        report_step
            Called with the name of each step.
        """
        ...

    def close(self) -> None:
        """Release what the engine holds."""
        ...
