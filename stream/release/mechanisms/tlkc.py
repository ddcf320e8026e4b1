"""`tlkc`: TLKC-privacy (tlkc-privacy-extended-2021, Def. 14)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from models.anonymize.hiding import Mode, Target
from models.anonymize.repair import Banned, choose, repaired
from models.anonymize.result import Anonymized
from models.anonymize.sensitive import FewerThanKError, InfeasibleError, check_edges, class_columns
from models.anonymize.shown import ShownItems
from models.anonymize.tlkc import Suppression, SuppressionOptions, TlkcProblem
from models.anonymize.values import coarser_unit
from models.anonymize.violations import TlkcBounds
from models.errors import BoundError, InputError, TooFewCasesError
from models.eventlog import EventLog
from models.knowledge import WEAKER, Attribute, Clock, Knowledge, Structure, Unit
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.mechanisms.suppression import faults, removed, timed

# The keys that `tlkc` and `tlkc-cohorts` have in common, and what the models make of them.

CLOCKS = {"utc": "UTC", "log": "the clock of the log"}
"""Clocks, as promises say it."""

ITEMS = {"ac": "activities", "re": "resources", "ar": "activities with their resources"}
KNOWN = {"set": "which ones", "mult": "how often each", "seq": "in which order", "rel": "in which order and when"}
"""Words of promises for items and for knowledge about them."""


def values_words(C: float, of: str) -> str:
    """Return the words of a promise on sensitive values; empty if C = 1, which bounds nothing."""
    return f", and no value of a sensitive attribute has more than {C:g} of {of}" if C < 1 else ""


class TlkcMechanism(Mechanism):
    """A mechanism whose releases satisfy TLKC-privacy (tlkc-privacy-extended-2021, Def. 14)."""

    knowledge: Structure = "seq"
    """Knowledge of the adversary about a case: which items (`set`); how often each (`mult`); in which order (`seq`);
    order and relative time (`rel`). Set it when somebody may know when steps happened (`rel`), or nobody knows their
    order (`set`)."""
    attribute: Attribute = "ac"
    """Items are activities (`ac`), resources (`re`) or both (`ar`). Set it when recipients study who works with
    whom."""
    T: Unit = "minutes"
    """Accuracy of relative times. Set it when recipients read durations of whole hours or days, or an adversary knows
    times only so exactly."""
    clock: Clock = "utc"
    """By which clock relative days and hours begin: UTC, or `log`, that of the log (of process.timezone, where events
    come from a stream). Set it when days and hours of a place matter, such as night shifts."""
    L: int = Field(default=2, ge=1)
    """Items that an adversary knows of a case. Set it when colleagues or relatives may know more than two events."""
    K: int = Field(default=20, ge=1)
    """Cases that must match. Set it when your policy asks for another group size than 20: 5 to 10 for trusted
    researchers."""
    C: float = Field(default=0.5, gt=0, le=1)
    """Largest share of one value of a sensitive attribute among the cases that match. Set it when half of a group
    sharing a diagnosis already reveals too much (lower)."""
    also: tuple[Structure, ...] = ()
    """Weaker knowledge against which C holds too (K does by itself); by default all of it for `local` and cohorts. Set
    it when `exact` must also protect sensitive values from somebody who does not know the order."""
    times: Literal["ordinal", "microaggregated"] = "ordinal"
    """Times of a release: only the order, or means over at least K cases, dealt out at random among them (starts
    in whole T; elapsed times by directly-follows pair). Set it when recipients need a performance map."""
    suppression: Suppression = "exact"
    """Choice of suppressed events: `local` shortens single cases, the others remove items from all. Set it when more
    events must stay (`local`), or when you compare with the paper (`greedy`)."""
    algorithm: Literal[1, 2] = 2
    """`greedy`, `pruned`: the paper's Algorithm 1 or 2. Set it when you repeat the experiments of the TLKC paper with
    Algorithm 1."""
    theta: float = Field(default=0.5, gt=0, le=1)
    """Algorithm 1: share of the cases that makes a trace frequent. Set it when you repeat the paper's experiments with
    another threshold of frequent traces."""
    alpha: float = Field(default=0.5, ge=0, le=1)
    """Algorithm 2: weight of the privacy gain. Set it when you repeat the paper's experiments that weigh privacy more
    than utility."""
    beta: float = Field(default=0.5, ge=0, le=1)
    """Algorithm 2: weight of the utility loss; 1 - `alpha`. Set it when you change `alpha`, since both add up to 1."""
    capping: bool = True
    """`mult`: cap how often an item occurs in a case if that is enough, instead of removing it. Set it when results
    must equal those of the paper, which removes items as a whole: `false`."""
    bins: Mapping[str, tuple[float, ...]] = Field(default_factory=dict)
    """Upper edges of the classes of a numeric sensitive attribute; its quartiles without. Set it when classes have a
    meaning, such as age groups of a statistic; cohorts need it for each numeric attribute."""
    work: float = Field(default=20.0, gt=0)
    """Seconds of branch and bound of `exact` before it falls back to `pruned` with a warning. Set it when that warning
    appears and more events would be worth the wait."""
    effort: int = Field(default=0, ge=0)
    """`local`: number of proposals of the search; each costs less than a plain run. Set it when a release may take
    minutes longer and must keep as many events as possible."""
    seed: int = 0
    """`local`: seed of the search. Set it when you examine how much a result of `effort` depends on chance."""
    max_minimality: int | None = Field(default=None, ge=0)
    """`local`: suppress more, until at most so many sets of items leave fewer than K cases to somebody who knows
    the rules; by default `gate.max_minimality`. Set it when releases shall aim at fewer such sets than the gate
    refuses."""

    @model_validator(mode="before")
    @classmethod
    def _default_also(cls, table: Any) -> Any:
        """Set `also` if single cases lose events or many cohorts are combined, since shares then easily differ."""
        if not isinstance(table, Mapping) or "also" in table:
            return table
        weaker: tuple[Structure, ...] = ()
        if cls.shares_memory or table.get("suppression") == "local":
            weaker = WEAKER.get(str(table.get("knowledge", "seq")), ())
        return {**table, "also": weaker}

    @model_validator(mode="after")
    def _meaningful(self) -> Self:
        """Refuse settings when the file is read, and not at the first cut."""
        self.options()
        for structure in self.also:
            if structure not in WEAKER[self.knowledge]:
                weaker = ", ".join(WEAKER[self.knowledge]) or "nothing"
                raise InputError(f"also = {structure!r} is not weaker than knowledge = {self.knowledge!r}; {weaker} is")
        if self.times != "ordinal" and (self.knowledge == "rel" or self.attribute == "re"):
            raise InputError(
                'times = "microaggregated" needs releases that show activities and no times of their own: not '
                'knowledge = "rel", nor attribute = "re"'
            )
        for name, edges in self.bins.items():
            check_edges(name, edges)
        return self

    @property
    def adversary_knowledge(self) -> Knowledge:
        """Return the knowledge of the adversary, as the models take it."""
        return Knowledge(self.knowledge, self.attribute, self.T, self.clock)

    @property
    def bounds(self) -> TlkcBounds:
        """L, K and C, as the models take them."""
        return TlkcBounds.of(self.L, self.K, self.C)

    def options(self) -> SuppressionOptions:
        """Return the options of suppression for the model."""
        return SuppressionOptions(**{field.name: getattr(self, field.name) for field in fields(SuppressionOptions)})

    @property
    def perspective(self) -> tuple[str, ...]:
        """Return the columns that releases carry; see `Mechanism.perspective`."""
        if self.knowledge == "rel":
            return (*self.adversary_knowledge.carries, self.T, self.clock)
        if self.times == "ordinal":
            return self.adversary_knowledge.carries
        return (*self.adversary_knowledge.carries, "relative_time", self.T)

    @property
    def known_words(self) -> str:
        """Return the knowledge of the adversary, in the words of promises."""
        time = f", times in {self.T} by {CLOCKS[self.clock]}" if self.knowledge == "rel" else ""
        structures = " or ".join(KNOWN[structure] for structure in (self.knowledge, *self.also))
        return f"{ITEMS[self.attribute]}: {structures}{time}"

    @property
    def left_words(self) -> str:
        """Return the promise against weaker knowledge."""
        unprotected = [structure for structure in WEAKER[self.knowledge] if structure not in self.also]
        if self.knowledge == "rel":
            zone = ""
            if self.T not in ("seconds", "minutes"):
                zone = f"; days and hours counted by another clock than {self.clock}"
            return f" the share of a value for somebody who knows the items without their times{zone};"
        if not unprotected:
            return ""
        words = ", ".join(KNOWN[structure] for structure in unprotected)
        return f" the share of a value for somebody who knows less of the items ({words});"

    @property
    def local_risks(self) -> tuple[str, ...]:
        """Return what a release by local suppression does not guarantee."""
        if self.suppression != "local":
            return ()
        adversaries = "adversaries who know the rules of local suppression"
        if self.max_minimality is not None:
            sets = f"at most {self.max_minimality} of them" if self.max_minimality else "none of them"
            adversaries += (
                f", beyond the sets of items that are measured ({sets} may leave them fewer than {self.K} cases)"
            )
        return (
            adversaries,
            "that a person's own case is among those that match what is known of it, since events were removed",
        )

    def broken(self, released: ReleaseRecord, exposure: Exposure) -> list[str]:
        """Check by the checker that shares nothing with the search.

        For the knowledge itself and every weaker kind of it that is promised.
        """
        return faults(released, exposure, (self.knowledge, *self.also), self.bounds, self.bins)

    def check_log(self, log: EventLog) -> None:
        """Refuse a log that lacks a column that the parameters need."""
        self.check_unit(coarser_unit(log, self.T) if self.knowledge == "rel" else None)

    def check_unit(self, unit: str | None) -> None:
        """Refuse a log whose times are too coarse for the parameters."""
        if unit:
            raise InputError(f"T = {self.T} is finer than the log, whose times are whole {unit} apart")


HIDDEN = (
    "adversaries who know the rules of repair by events: a case that an earlier release does not hold lacks what "
    "fewer than the bound of such cases share",
    "that a person's own case is among those that match what is known of it, since events were removed",
)

OR_COHORTS = ", or kind tlkc-cohorts: it lets cases wait, while tlkc releases all"
"""Further remedy if one value belongs to more than C of all cases, in addition to those that the error names."""


class Tlkc(TlkcMechanism):
    """Events leave until every candidate of at most L items has K cases and no sensitive value more than C of them."""

    kind: Literal["tlkc"] = "tlkc"
    repair_by: Mode = "events"
    """Items that `gate.on_violation = "repair"` suppresses: `events` of single cases first, or whole `items` only. Set
    it when recipients know the rules of the repair and could conclude from a hidden event: `items`
    (docs/fcb-safe.md)."""

    def problem(self, exposure: Exposure) -> TlkcProblem:
        """Return the log of a cut with these bounds, as the model takes it."""
        # A table of variants already has the class of each row in place of its value.
        if exposure.cases is None:
            classes = class_columns(exposure.log, exposure.sensitive, self.bins)
        else:
            classes = {name: exposure.log.case_values(name) for name in exposure.sensitive}
        return TlkcProblem(
            exposure.log, self.adversary_knowledge, self.bounds, classes, also=self.also, cases=exposure.cases
        )

    def variants_by(self) -> Knowledge:
        """Return the knowledge by which a table of variants is counted."""
        if self.times != "ordinal":
            raise InputError(f"times = {self.times!r} needs the times of each case; only --engine embedded can")
        return self.adversary_knowledge

    def promise(self) -> Mapping[str, Any]:
        """Return the promise in plain sentences; see `Mechanism.promise`."""
        return {
            "guaranteed": f"whatever somebody knows of a case, up to {self.L} items ({self.known_words}): "
            f"at least {self.K} released cases match it (or none){values_words(self.C, 'them')}",
            "to_whom": "released cases",
            "against_whom": f"a recipient of this one release who knows at most {self.L} items of a case",
            "relation": None,
            "unit": "case",
            "not_guaranteed": f"anything against somebody who knows more than that;{self.left_words} what follows from "
            "the absence of an item; several releases together (after a repair `mechanism.repair.bounds` says what "
            "holds of them)",
        }

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """Build one release; see `Mechanism.build`."""
        build = self._released(lambda: self.problem(exposure).solve(self.options()), exposure)
        return replace(build, not_guaranteed=(*build.not_guaranteed, *self.local_risks))

    @property
    def repairable(self) -> bool:
        """Not `rel`: its items hold times, and background knowledge of an audit does not."""
        return self.knowledge != "rel"

    def repair(
        self,
        exposure: Exposure,
        shown: ShownItems,
        targets: Sequence[Target],
        gone: Sequence[Any],
    ) -> Build:
        """Remove events of single cases, and whole items (see `Mechanism.repair`).

        With `local`, whole items are removed only if single events cannot be. Nothing is capped, which would change the
        counts of other candidates. Released resources are pseudonyms, and earlier ones cannot be recognised here, so
        only activities are hidden case by case.

        Parameters
        ----------
        exposure
            The events to release.
        shown
            Items that earlier releases have shown.
        targets
            Least numbers that each group of cases must have.
        gone
            Items that are suppressed already.
        """
        options = replace(self.options().whole_items, capping=False)
        mode: Mode = self.repair_by if self.attribute == "ac" else "items"
        local = self.suppression == "local" and mode == "events"
        problem = self.problem(exposure)
        build = self._released(
            lambda: repaired(problem, shown, targets, options, gone=gone, mode=mode, local=local), exposure
        )
        extent = {
            "by": mode,
            "suppression": "local" if local else options.suppression,
            "hidden": build.operator["hidden"],
        }
        hidden = HIDDEN if mode == "events" else ()
        risks = tuple(risk for risk in self.local_risks if risk not in hidden) if local else ()
        public = {**build.public, "repair": extent}
        return replace(build, public=public, not_guaranteed=(*build.not_guaranteed, *hidden, *risks))

    def cheapest(self, exposure: Exposure, worst: Sequence[Banned], gone: Sequence[Any]) -> Any | None:
        """Return the item to suppress next; see `Mechanism.cheapest`."""
        return choose(self.problem(exposure), worst, gone)

    def _released(self, solve: Callable[[], Anonymized], exposure: Exposure) -> Build:
        try:
            result = solve()
        except FewerThanKError as error:
            raise TooFewCasesError(str(error)) from None
        except InfeasibleError as error:
            raise BoundError(f"{error}{OR_COHORTS}") from None
        build = removed(result, exposure.linked)
        if self.times == "ordinal":
            return build
        return timed(build, self.K, self.T, exposure.time_ns)
