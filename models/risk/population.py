"""Population uniqueness: cases of a sample that would be unique among all N persons too.

Note. The idea is that of a Gaussian copula over the case attributes (Rocher, Hendrickx and de Montjoye 2019, used by
reidentification-risk-2020, section 3.1). Its authors' program is under the GPL-3 and they say that a patent is
pending. This module was written from the idea alone, without their code, and nothing else imports it but the `risk`
command, so that it can be left out.

Model: exact categorical marginals of the sample; one Gaussian correlation a pair, fitted so that a simulated sample of
the same size has the same plug-in mutual information (so the bias of small samples is on both sides); then
populations of N persons are simulated and their uniques counted. Per record, with p its probability under the model:
probability of a twin among the others 1 - (1-p)^(N-1).

It is not a guarantee. Values that the sample does not contain do not exist in the model, so a population with
many rare values is underestimated. `fit_error` is the distance of the model from the sample itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from scipy.special import ndtr, ndtri

from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Column, EventLog, Floats, Ints, starts_of

BISECTIONS = 12
"""Halvings of the correlation's range: to within 1/4096, far below the noise of any sample."""
FITS = 4
"""Simulated samples whose mutual information is averaged in the fit of one pair."""
PATHS = 256
"""Random paths an estimate of one record's probability is averaged over."""
BATCH = 500_000
"""Persons simulated at a time; of each, eight bytes are kept until all are there."""
MOST = 400_000_000
"""Largest population: 3.2 GB of those bytes, and a quarter of an hour."""


@dataclass(frozen=True, slots=True)
class Population:
    """Estimate for a population.

    Attributes
    ----------
    size
        Persons in the population.
    runs
        Simulated populations.
    unique_mean, unique_sd
        Share of unique persons over the simulated populations: mean and standard deviation.
    sample_unique
        Equation 1 on the sample. The population's share cannot exceed the sample's in expectation: a case
        that is unique in the population is so in every sample (Table 5 of the paper has two rows against
        this).
    record_unique
        Mean over the sample of (1-p)^(N-1), an independent route to `unique_mean`.
    fit_error
        |uniqueness of a simulated sample - of the sample|. If it is large, the data have no such structure.
    information_error
        Largest difference of a pair's mutual information (nats) between model and sample.
    """

    size: int
    runs: int
    unique_mean: float
    unique_sd: float
    sample_unique: float
    record_unique: float
    fit_error: float
    information_error: float


@content_free("information_error")
@dataclass(frozen=True, slots=True)
class Copula:
    """Marginals and the correlation matrix of a fitted model.

    `cuts[k]` are the normal quantiles between the values of column k, from -inf to inf.

    Attributes
    ----------
    cuts
        By column, float64[values + 1].
    correlation
        float64[columns, columns].
    information_error
        Largest difference of a pair's mutual information (nats) between model and sample.
    """

    cuts: tuple[Floats, ...]
    correlation: Floats
    information_error: float


RUNS = 5
"""Simulated populations that are averaged."""


def population_uniqueness(
    log: EventLog,
    attributes: Sequence[str],
    size: int,
    *,
    seed: int = 0,
) -> Population:
    """Estimate the share of persons that the named case attributes single out in a population.

    Parameters
    ----------
    log
        The sample: one case a person.
    attributes
        Case attributes that are known.
    size
        Persons of the population, at least the cases of the log.
    seed
        Seed of the simulation.

    Raises
    ------
    InputError
        If there is no attribute or no case, or the size is out of range.
    """
    if not attributes:
        raise InputError("population uniqueness needs at least one case attribute")
    if not log.n_cases:
        raise InputError("the log has no cases; uniqueness has no meaning")
    codes = np.stack([_ordered(log.case_values(name)) for name in attributes], axis=1)
    return estimate(codes, size, seed)


def estimate(codes: Ints, size: int, seed: int = 0) -> Population:
    """Estimate population uniqueness from coded records.

    Parameters
    ----------
    codes
        int64[n, d], codes in the order of the values, 0 to k - 1 in each column.
    size, seed
        As of `population_uniqueness`.

    Raises
    ------
    InputError
        If the size is out of range.
    """
    sample = len(codes)
    if size < sample:
        raise InputError(f"population = {size} is smaller than the {sample} cases of the log, which are a part of it")
    if size > MOST:
        raise InputError(f"population = {size} is more than the {MOST:,} persons that can be simulated")
    rng = np.random.default_rng(seed)
    model = fit(codes, rng)
    shares = np.asarray([_unique_share(model, size, rng) for _ in range(RUNS)])
    sample_share = _unique_share_of(_keys(codes, model))
    resampled = float(np.mean([_unique_share(model, sample, rng) for _ in range(RUNS)]))
    chance = np.minimum(probabilities(model, codes, rng), 1 - 1e-12)
    # A record is unique if none of the `size - 1` other persons has its values.
    unique_by_record = np.exp((size - 1) * np.log1p(-chance))
    return Population(
        size=size,
        runs=RUNS,
        unique_mean=float(shares.mean()),
        unique_sd=float(shares.std(ddof=1)),
        sample_unique=sample_share,
        record_unique=float(np.mean(unique_by_record)),
        fit_error=abs(resampled - sample_share),
        information_error=model.information_error,
    )


def fit(codes: Ints, rng: np.random.Generator) -> Copula:
    """Fit a Gaussian copula: marginals, and correlations of their normal scores.

    Parameters
    ----------
    codes
        int64[n, d], as of `estimate`.
    rng
        Draws for the fit.
    """
    columns = codes.shape[1]
    cuts = tuple(_cuts(codes[:, k]) for k in range(columns))
    correlation = np.eye(columns)
    for i in range(columns):
        for j in range(i):
            correlation[i, j] = correlation[j, i] = _pair(codes[:, i], codes[:, j], cuts[i], cuts[j], rng)
    correlation = _nearest(correlation)
    drawn = _draw(Copula(cuts, correlation, 0.0), max(len(codes), 2), rng)
    gaps = [
        abs(_information(codes[:, i], codes[:, j]) - _information(drawn[:, i], drawn[:, j]))
        for i in range(columns)
        for j in range(i)
    ]
    return Copula(cuts, correlation, max(gaps, default=0.0))


def probabilities(model: Copula, codes: Ints, rng: np.random.Generator) -> Floats:
    """Return the probability of each record under the model, float64[n].

    It is an integral of the normal density over a box, by sequential conditioning along the points of a randomly
    shifted lattice (unbiased, and evenly spread).

    Parameters
    ----------
    model
        The fitted copula.
    codes
        int64[n, d], the records.
    rng
        Draws the shift.
    """
    lower = np.stack([cut[codes[:, k]] for k, cut in enumerate(model.cuts)], axis=1)
    upper = np.stack([cut[codes[:, k] + 1] for k, cut in enumerate(model.cuts)], axis=1)
    root = np.linalg.cholesky(model.correlation)
    normals = np.zeros((len(codes), PATHS, 0))
    result = np.ones((len(codes), PATHS))
    steps = np.arange(PATHS)
    for k in range(codes.shape[1]):
        shift = normals @ root[k, :k]
        low = ndtr((lower[:, k, None] - shift) / root[k, k])
        high = ndtr((upper[:, k, None] - shift) / root[k, k])
        result *= high - low
        # Irrational steps, one a dimension: fractional parts of multiples of square roots fill the cube evenly.
        even = (rng.random((len(codes), 1)) + steps * np.sqrt(_prime(k))) % 1.0
        within = np.clip(low + even * (high - low), 1e-15, 1 - 1e-15)
        normals = np.concatenate((normals, ndtri(within)[:, :, None]), axis=2)
    return np.asarray(result.mean(axis=1), dtype=np.float64)


def _prime(k: int) -> int:
    """Return the k-th prime, from 2: square roots of distinct primes are independent over the rationals."""
    primes: list[int] = []
    number = 2
    while len(primes) <= k:
        if all(number % prime for prime in primes):
            primes.append(number)
        number += 1
    return primes[k]


def _ordered(column: Column) -> Ints:
    """Return codes in the order of the values if they have one (numbers, dates), else by frequency.

    A copula reads order. A missing value is the lowest.
    """
    values = list(column.values)
    are_numbers = all(isinstance(value, int | float) for value in values)
    are_dates = all(isinstance(value, datetime) for value in values)
    if are_numbers or are_dates:
        order = np.asarray(sorted(range(len(values)), key=values.__getitem__), dtype=np.int64)
    else:
        counts = np.bincount(column.codes[column.codes >= 0], minlength=len(values))
        order = np.argsort(-counts, kind="stable")
    place = np.empty(len(values) + 1, dtype=np.int64)
    place[order] = np.arange(1, len(values) + 1)
    place[-1] = 0
    return np.asarray(np.unique(place[column.codes], return_inverse=True)[1], dtype=np.int64)


def _cuts(codes: Ints) -> Floats:
    counts = np.bincount(codes)
    return np.asarray(ndtri(starts_of(counts) / len(codes)), dtype=np.float64)


def _information(first: Ints, second: Ints) -> float:
    """Plug-in mutual information in nats."""
    table = np.zeros((int(first.max()) + 1, int(second.max()) + 1))
    np.add.at(table, (first, second), 1)
    joint = table / table.sum()
    expected = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    cells = joint > 0
    return float(np.sum(joint[cells] * np.log(joint[cells] / expected[cells])))


def _pair(
    first: Ints,
    second: Ints,
    first_bounds: Floats,
    second_bounds: Floats,
    rng: np.random.Generator,
) -> float:
    """Return the correlation whose simulated samples have the mutual information of the data.

    The sign is that of the rank correlation. The same normals serve every trial correlation, so the bisection is of one
    monotone curve.
    """
    if len(first_bounds) <= 2 or len(second_bounds) <= 2:
        return 0.0
    target = _information(first, second)
    normals = rng.standard_normal((FITS, 2, len(first)))
    sign = 1.0 if np.corrcoef(first, second)[0, 1] >= 0 else -1.0
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        rho = (low + high) / 2
        information = np.mean([_simulated(x, y, sign * rho, first_bounds, second_bounds) for x, y in normals])
        low, high = (rho, high) if information < target else (low, rho)
    return sign * (low + high) / 2


def _simulated(x: Floats, y: Floats, rho: float, first_bounds: Floats, second_bounds: Floats) -> float:
    return _information(_bin(x, first_bounds), _bin(rho * x + np.sqrt(1 - rho * rho) * y, second_bounds))


def _bin(normals: Floats, cuts: Floats) -> Ints:
    return np.asarray(np.searchsorted(cuts[1:-1], normals, side="right"), dtype=np.int64)


def _nearest(correlation: Floats) -> Floats:
    """Return the correlation matrix near a symmetric one: negative eigenvalues become small, the diagonal 1."""
    values, vectors = np.linalg.eigh(correlation)
    if values.min() >= 1e-6:
        return correlation
    mended = (vectors * np.maximum(values, 1e-6)) @ vectors.T
    scale = np.sqrt(np.diag(mended))
    return np.asarray(mended / np.outer(scale, scale), dtype=np.float64)


def _draw(model: Copula, size: int, rng: np.random.Generator) -> Ints:
    normals = rng.standard_normal((size, len(model.cuts))) @ np.linalg.cholesky(model.correlation).T
    return np.stack([_bin(normals[:, k], cut) for k, cut in enumerate(model.cuts)], axis=1)


def _keys(codes: Ints, model: Copula) -> Ints:
    """One integer a record; folded again where the product of the columns would pass 63 bits."""
    keys = np.zeros(len(codes), dtype=np.int64)
    size = 1
    for k, cut in enumerate(model.cuts):
        if size * (len(cut) - 1) >= 2**62:
            raise InputError("the case attributes have too many combinations to count; leave out identifying ones")
        keys = keys * (len(cut) - 1) + codes[:, k]
        size *= len(cut) - 1
    return keys


def _unique_share(model: Copula, size: int, rng: np.random.Generator) -> float:
    """Share of unique persons in one simulated population."""
    batches = [min(BATCH, size - done) for done in range(0, size, BATCH)]
    return _unique_share_of(np.concatenate([_keys(_draw(model, batch, rng), model) for batch in batches]))


def _unique_share_of(keys: Ints) -> float:
    """Share of keys that occur once. Sorts them in place."""
    keys.sort()
    new = np.concatenate(([True], keys[1:] != keys[:-1], [True]))
    return float(np.sum(new[:-1] & new[1:]) / len(keys))
