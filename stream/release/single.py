"""Build one release of one log, outside of any publication and without a ledger."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypedDict, Union, get_args, get_origin

import numpy as np

from connectors import write_log
from models.anonymize.sensitive import (
    FewerThanKError,
    InfeasibleError,
    refuse_identifying,
    warnings_of_late_values,
    warnings_of_lost_values,
    warnings_of_several_values,
    warnings_of_values,
)
from models.anonymize.tlkc import TlkcProblem
from models.anonymize.values import written
from models.errors import InputError
from models.eventlog import EventLog, Ints
from models.knowledge import NANOSECONDS, perspective
from models.variants import total
from stream.release.audits.loss import LossAudit
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.manifest import INTAKE_STATEMENTS, promise
from stream.release.mechanisms import kinds, mechanism
from stream.release.mechanisms.tlkc import OR_COHORTS, Tlkc
from stream.release.public_files import privacy_header, public_log
from stream.release.public_view import pseudonymous_resources, with_attributes
from stream.release.spec import Intake
from stream.values.pseudonym import Pseudonyms

OWN_OPTIONS = frozenset(
    {"K", "L", "C", "T", "delta", "delta_dp", "epsilon", "knowledge", "attribute", "variant", "prior"}
)
"""Parameters that `anonymize` has an option for; the others are given with `--set`."""


def mechanism_of(kind: str, flags: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism of the given flags; None means not given.

    Raises
    ------
    InputError
        The mechanism has no such flag, or lacks one. The message names it.
    """
    from pydantic import ValidationError

    table = {key: _typed(kind, key, value) for key, value in flags.items() if value is not None}
    try:
        return mechanism({"kind": kind, **table})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or "the mechanism"
        if first["type"] == "extra_forbidden":
            options = sorted(set(kinds()[kind].model_fields) - {"kind"})
            raise InputError(f"{name} is not an option of --mechanism {kind}; it has {', '.join(options)}") from None
        if first["type"] == "missing":
            raise InputError(f"--mechanism {kind} needs {_flag(name)}") from None
        raise InputError(f"--mechanism {kind}: {name}: {first['msg'].removeprefix('Value error, ')}") from None


def _typed(kind: str, key: str, value: Any) -> Any:
    """Return the value of a flag as a configuration file would have it.

    `--set` gives text, which pydantic reads as a number or a boolean by itself, but not as one of some numbers
    (algorithm=2), nor as a list (also=set,mult).
    """
    mechanism_class = kinds().get(kind)
    field = mechanism_class.model_fields.get(key) if mechanism_class is not None else None
    if field is None or not isinstance(value, str):
        return value
    annotations = [field.annotation]
    if get_origin(field.annotation) in (Union, UnionType):
        annotations = list(get_args(field.annotation))
    for annotation in annotations:
        if get_origin(annotation) is Literal:
            allowed = {str(value_allowed): value_allowed for value_allowed in get_args(annotation)}
            if value in allowed:
                return allowed[value]
        if get_origin(annotation) is tuple:
            return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _flag(name: str) -> str:
    """Return the flag of a parameter of a mechanism: some have an option of their own."""
    if name in OWN_OPTIONS:
        return f"--{name.replace('_', '-')}"
    return f"--set {name}=..."


def exposure_of(
    log: EventLog,
    sensitive: Sequence[str],
    released: Sequence[str],
    mechanism_: Mechanism,
) -> Exposure:
    """Return the log with its values as they are written, all cases complete.

    Parameters
    ----------
    log
        The source log.
    sensitive
        Attributes whose values the mechanism bounds.
    released
        Attributes that the release shows.
    mechanism_
        Mechanism that will release the log.

    Raises
    ------
    InputError
        The log lacks an attribute, an attribute names cases, the mechanism releases no attributes, or it does not fit
        the log.
    """
    if not mechanism_.releases_log:
        raise InputError(
            f"{mechanism_.kind} releases no log, so one file cannot hold it; replay the log with a configuration"
        )
    last = int(log.time.max()) if log.n_events else 0
    if released and not mechanism_.releases_attributes:
        raise InputError(f"--release-attributes: {mechanism_.kind} releases no attributes of cases")
    if mechanism_.releases_attributes:
        refuse_identifying(log, tuple(dict.fromkeys((*sensitive, *released))), getattr(mechanism_, "bins", None))
    public = tuple(name for name in released if name not in sensitive)
    written_log = written(log, tuple(dict.fromkeys((*sensitive, *released))))
    mechanism_.check_log(written_log)
    return Exposure(written_log, np.ones(log.n_cases, dtype=np.bool_), tuple(sensitive), last, public)


def tlkc_problem(mechanism_: Mechanism, exposure: Exposure) -> TlkcProblem | None:
    """Return the TLKC problem; None for other mechanisms.

    InputError if the problem is infeasible.
    """
    if not isinstance(mechanism_, Tlkc):
        return None
    problem = mechanism_.problem(exposure)
    try:
        problem.refuse_infeasible()
    except FewerThanKError:
        raise
    except InfeasibleError as error:
        raise InfeasibleError(f"{error}{OR_COHORTS}") from None
    return problem


class ViolationDocument(TypedDict):
    """A minimal violating candidate: its items, how many cases match, and what is wrong."""

    candidate: list[Any]
    cases: int
    reason: str


def violation_documents(problem: TlkcProblem) -> list[ViolationDocument]:
    """Return the minimal violating candidates of the source as JSON."""
    names = {1: "fewer than K cases", 2: "a sensitive value above C"}
    return [
        {"candidate": list(problem.seen.decode(row)), "cases": int(support), "reason": names[int(reason)]}
        for level in problem.violations.levels
        for row, support, reason in zip(level.candidates.tolist(), level.support, level.reason, strict=True)
    ]


def release_once(
    mechanism_: Mechanism, exposure: Exposure, *, keep_resources: bool, released: Sequence[str] = ()
) -> tuple[Build, float]:
    """Return the build, and the seconds that the mechanism took.

    Parameters
    ----------
    mechanism_, exposure
        The mechanism, and the log.
    keep_resources
        Whether resources keep their names. Otherwise they get pseudonyms under a key that is dropped.
    released
        Attributes that leave.
    """
    begin = time.perf_counter()
    build = mechanism_.build(exposure)
    seconds = time.perf_counter() - begin
    if not keep_resources:
        build = without_resource_names(build)
    return with_attributes(build, released, exposure, mechanism_), seconds


def without_resource_names(build: Build) -> Build:
    """Return the build with pseudonyms in place of resources, under a key that is dropped."""
    return replace(build, log=pseudonymous_resources(build.log, Pseudonyms(secrets.token_bytes(32))))


def write(path: Path, mechanism_: Mechanism, build: Build, *, durations: bool = False) -> None:
    """Write the released log under fresh case ids, with its privacy metadata.

    Parameters
    ----------
    path
        File to write. Its name decides the format.
    mechanism_
        The mechanism that made the release.
    build
        The release.
    durations
        Whether the file has durations of events in place of times.

    Raises
    ------
    InputError
        `durations` are requested, and the times are not relative.
    """
    if durations and build.time_basis != "relative":
        raise InputError(f"--format duration is for relative times; those of this release are {build.time_basis}")
    privacy = privacy_header(mechanism_, build)
    write_log(public_log(build), path, privacy=privacy, time_basis=build.time_basis, durations=durations)


def summary(
    mechanism_: Mechanism,
    exposure: Exposure,
    build: Build,
    seconds: float,
    intake: Intake = "log",
    changing_cases: Mapping[str, int] | None = None,
) -> Mapping[str, Any]:
    """Return the documented JSON of `anonymize`.

    Parameters
    ----------
    mechanism_, exposure, build
        The mechanism, the log as it was read, and the result.
    seconds
        CPU seconds of the mechanism.
    intake
        How events came in, for promises of epsilon.
    changing_cases
        How many cases have several values of each sensitive attribute, if the exposure is a table of variants.

    Returns
    -------
    Mapping
        `satisfied` is null for mechanisms that bound no counts.
    """
    operator = dict(build.operator)
    cases_each = cases_per_released_case(exposure, build)
    result: dict[str, Any] = {
        "mechanism": mechanism_.model_dump(mode="json"),
        "events": {"in": total(exposure.log.lengths, exposure.cases), "out": total(build.log.lengths, cases_each)},
        "cases": {
            "in": total(exposure.log.lengths >= 0, exposure.cases),
            "out": total(build.log.lengths >= 0, cases_each),
        },
        "variants": {"in": _variants_in(exposure.log, build), "out": _variants_out(build)},
        "suppressed": operator.pop("suppressed", []),
        "n_actual": build.n_actual,
        "satisfied": operator.pop("satisfied", None),
        "seconds": seconds,
        "time_basis": build.time_basis,
        "promise": promise(mechanism_, build, sensitive=bool(exposure.sensitive)),
    }
    if not mechanism_.reads_data_in_gate:
        result["promise"]["intake"] = INTAKE_STATEMENTS[intake]
    if mechanism_.reads_data_in_gate:  # Of a dp release this would reveal what its noise hides.
        result["loss"] = LossAudit().measured(exposure.log, build, build.origin, cases=exposure.cases)
        if changing_cases is None:
            changing_cases = exposure.log.changing_cases(exposure.sensitive)
        doubts = warnings_of_several_values(changing_cases)
        if exposure.cases is None and getattr(mechanism_, "C", 1) < 1:
            K = getattr(mechanism_, "K", 1)
            doubts += warnings_of_lost_values(exposure.log, exposure.sensitive, K, exposure.complete)
            doubts += warnings_of_late_values(exposure.log, exposure.sensitive, K)
        bins = getattr(mechanism_, "bins", None)
        doubts += warnings_of_values(exposure.log, exposure.sensitive, bins, exposure.cases)
        if doubts:
            operator["warnings"] = [*operator.get("warnings", ()), *doubts]
    return {**result, **({"details": operator} if operator else {})}


def warnings_of(result: Mapping[str, Any]) -> list[str]:
    """Return what the mechanism and the audit of loss warn of in a `summary`."""
    parts = [result.get("details") or {}, result.get("loss") or {}]
    return [warning for part in parts for warning in part.get("warnings", ())]


def cases_per_released_case(exposure: Exposure, build: Build) -> Ints | None:
    """Return how many cases each case of a build represents.

    It is the number of cases of its row on a table of variants, and else one (None).
    """
    if exposure.cases is None or (len(build.origin) and int(build.origin.min()) < 0):
        return None
    return exposure.cases[build.origin]


def _variants_in(log: EventLog, build: Build) -> int:
    return _distinct(log, perspective(log, build.carries, _unit(build)).codes[:, None])


def _variants_out(build: Build) -> int:
    parts: Mapping[str, Any] = {
        "activity": build.log.activity.codes,
        "resource": build.log.resource.codes,
        "relative_time": build.log.time // NANOSECONDS[_unit(build)],
    }
    columns = [parts[name].astype(np.int64) for name in build.carries]
    return _distinct(build.log, np.stack(columns, axis=1))


def _unit(build: Build) -> Any:
    return build.T


def _distinct(log: EventLog, rows: Any) -> int:
    """Count the distinct traces, whose events are `rows`."""
    traces = {rows[begin:end].tobytes() for begin, end in pairwise(log.starts.tolist())}
    return len(traces)
