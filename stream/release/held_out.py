"""Attack a mechanism on held-out cases: what an attacker would learn from a release like the one that is to leave.

A release has no control: all cases entered it. So the cut is divided at random, both halves are released by the same
mechanism, and each is the control of the other. These two releases never leave the process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from models.disclosure.assessment import Assessment, Attackers, HalvedLog, assess_twice
from models.disclosure.material import MOST_KNOWN, Profile, shows_dates
from models.disclosure.membership import CountNoise
from models.disclosure.noise import LaplaceCounts
from models.errors import BoundError, InputError
from models.eventlog import EventLog, Ints
from models.knowledge import Knowledge
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.manifest import software
from stream.release.mechanisms import mechanism
from stream.release.mechanisms.dp_log import DpLog
from stream.release.mechanisms.dp_variants import DpVariants
from stream.release.public_files import public_log

log = logging.getLogger("veilstream")

Finish = Callable[[Build, Exposure], Build]
"""Makes of a build what leaves: names of resources, and attributes."""


def promised_profile(manifest: Mapping[str, Any] | None) -> Profile | None:
    """Return the attacker that a promise by groups names; None for other releases.

    The promise covers `L` items of a declared kind; more than 8 are attacked as 8.
    """
    mechanism_ = manifest["mechanism"] if manifest else {}
    # The JSON of `anonymize` has the parameters next to the kind, a manifest has them in a table of their own.
    parameters = mechanism_.get("parameters", mechanism_)
    if "L" not in parameters:
        return None
    knowledge = Knowledge(
        parameters.get("knowledge", "seq"),
        parameters.get("attribute", "ac"),
        parameters.get("T", "minutes"),
        parameters.get("clock", "utc"),
    )
    return Profile(min(int(parameters["L"]), MOST_KNOWN), knowledge, name="promised")


def with_stronger(first: Profile, releases: Sequence[EventLog], original: EventLog) -> list[Profile]:
    """Return an attacker, and one who knows more of what the releases show.

    Parameters
    ----------
    first
        Attacker with the declared knowledge, or with that of the promise.
    releases
        Released logs, oldest first.
    original
        The log that they were made from.
    """
    carried = [set(log.case_attributes) for log in releases]
    shown = sorted(set(original.case_attributes).intersection(*carried))
    stronger = first.stronger(shown, dates=shows_dates(releases[-1], original))
    if replace(stronger, name=first.name) == first:
        return [first]
    return [first, stronger]


def known_noise(manifest: Mapping[str, Any] | None) -> CountNoise | None:
    """Return the design of noisy counts of variants that a manifest states; None if there is none.

    `dp-synthetic` draws its traces from noisy models: the probability of its counts has no closed form. Gaussian noise
    (`rho`) is not computed either.
    """
    described = manifest["mechanism"] if manifest else {}
    kind = described.get("kind")
    if kind not in ("dp-variants", "dp-log"):
        return None
    parameters = described.get("parameters", described)
    terms = {key: value for key, value in parameters.items() if key in _TERMS[kind]}
    return noise_of(mechanism({"kind": kind, **terms}))


_TERMS = {
    "dp-variants": {"epsilon", "delta_dp", "cases_per_person", "rho"},
    "dp-log": {"epsilon", "delta_dp", "cases_per_person", "time_share"},
}
"""Parameters that the noise of counts depends on."""


def noise_of(mechanism_: Mechanism) -> CountNoise | None:
    """Return the design of noisy counts of variants that a mechanism releases; None if it has no such counts."""
    if isinstance(mechanism_, DpVariants) and mechanism_.epsilon is not None:
        return LaplaceCounts.of(mechanism_.epsilon, mechanism_.delta_dp, mechanism_.cases_per_person)
    if isinstance(mechanism_, DpLog):
        epsilon = mechanism_.epsilon * (1 - mechanism_.time_share)
        return LaplaceCounts.of(epsilon, mechanism_.delta_dp, mechanism_.cases_per_person)
    return None


def halves(n_cases: int, seed: int) -> tuple[Ints, Ints]:
    """Return two random halves of the numbers of some cases, each ascending.

    Raises
    ------
    InputError
        There are fewer than two cases.
    """
    if n_cases < 2:
        raise InputError("a control is half of the log: give a log of at least two cases")
    shuffled = np.random.default_rng(seed).permutation(n_cases)
    middle = (n_cases + 1) // 2
    return np.sort(shuffled[:middle]), np.sort(shuffled[middle:])


def assess_mechanism(
    mechanism_: Mechanism,
    exposure: Exposure,
    finish: Finish,
    attackers: Attackers,
    *,
    declared: Profile | None = None,
    divisions: int = 1,
    on_step: Callable[[str], None] = lambda _: None,
) -> Assessment:
    """Release both halves of an exposed log, and attack each release with the other half as control.

    Parameters
    ----------
    mechanism_
        Mechanism that makes a release.
    exposure
        The log of the cut, as the mechanism gets it.
    finish
        Turns a build into the released log.
    attackers
        Sensitive attributes, targets and seed; profiles and noise are those of the mechanism.
    declared
        The attacker; None: the one of the promise, else one who knows three activities in order.
    divisions
        Random divisions of the cases: with more of them the intervals are narrower, and it takes longer.
    on_step
        Called with what comes next.

    Raises
    ------
    InputError
        The mechanism refuses a half, or a half cannot be attacked.
    """
    if not mechanism_.releases_log:
        raise InputError(f"{mechanism_.kind} releases no log, and these attacks look for cases in one")
    divided = []
    for number in range(divisions):
        cases = halves(exposure.log.n_cases, attackers.seed + number)
        parts = [_part(exposure, some) for some in cases]
        releases = []
        for part in parts:
            on_step("making a release of one half")
            releases.append(public_log(finish(mechanism_.build(part), part)))
        logs = (parts[0].log, parts[1].log)
        divided.append(HalvedLog(cases, logs, (releases[0], releases[1])))
    described = {"mechanism": mechanism_.model_dump(mode="json")}
    first = declared or promised_profile(described) or Profile(name="default")
    profiles = with_stronger(first, divided[0].releases, divided[0].halves[0])
    attackers = replace(attackers, profiles=profiles, noise=noise_of(mechanism_))
    return assess_twice(divided, attackers, on_step=on_step)


VERSION = 1
"""Version of assessment.json."""


def document(
    mechanism_: Mechanism,
    exposure: Exposure,
    finish: Finish,
    *,
    seed: int,
    on_step: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Return the JSON of an assessment before a release; with `reason` if none could be made.

    A part of a cut may be too small for the mechanism or for an attack. This is a reason and not an error: only the
    gate judges the release.

    Parameters
    ----------
    mechanism_
        Mechanism that builds a release of each half of the cases.
    exposure
        The cases that the release would be made from.
    finish
        Makes the public log of a build.
    seed
        Seed of the division of the cases.
    on_step
        Called with the name of each attack before it runs.
    """
    body: dict[str, Any] = {"version": VERSION, "software": software(), "held_out": True}
    try:
        attackers = Attackers((), exposure.sensitive, seed=seed)
        assessment = assess_mechanism(mechanism_, exposure, finish, attackers, on_step=on_step)
    except (BoundError, InputError) as error:
        return body | {"reason": str(error)}
    except Exception as error:  # a measure must not keep a daemon from releasing, whatever is wrong with it
        log.exception("the assessment of a release failed; the release continues")
        return body | {"reason": f"the assessment failed ({type(error).__name__}); the log of the program has more"}
    return body | {"assessments": [{"attacked": "releases of both halves of the cut", **assessment.json()}]}


def _part(exposure: Exposure, cases: Ints) -> Exposure:
    """Return what a cut exposes of some cases."""
    represents = None if exposure.cases is None else exposure.cases[cases]
    log = exposure.log.select_cases(cases)
    return replace(exposure, log=log, complete=exposure.complete[cases], cases=represents)
