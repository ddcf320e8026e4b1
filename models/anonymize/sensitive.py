"""Sensitive attributes as classes: what the bound C counts.

Each attribute is bounded separately. A missing value is not a value, but its case stays in the denominator. Numeric
attributes are cut into classes, by default at the quartiles of the log with inclusive ties (<= Q1 low, >= Q3 high):
with strict ties the middle of a skewed attribute can hold most cases and no C below that is feasible.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from models.anonymize.violations import TlkcBounds
from models.errors import InputError
from models.eventlog import Column, EventLog, Flags, Ints
from models.missing_words import means_missing
from models.spelling import DIFFERENCE, spelled_twice
from models.variants import amounts, total

Edges = Sequence[float]


class InfeasibleError(InputError):
    """K or C that the whole log already breaks: no suppression can help."""


class FewerThanKError(InfeasibleError):
    """The whole log has fewer than K cases."""


def class_columns(
    log: EventLog, names: Sequence[str], bins: Mapping[str, Edges] | None = None, cases: Ints | None = None
) -> dict[str, Column]:
    """Return the class of each case, by sensitive attribute.

    Parameters
    ----------
    log
        The source log.
    names
        The sensitive attributes.
    bins
        Ascending upper edges by attribute; a value belongs to the first edge that it does not exceed, and
        above the last edge to one more class.
    cases
        int64[C], number of cases that each case represents; None: one each.

    Returns
    -------
    dict
        One column of classes per attribute.

    Raises
    ------
    InputError
        If an attribute is unknown, edges do not ascend, or an attribute with bins is not numeric.
    """
    edges = dict(bins or {})
    unknown = sorted(set(edges) - set(names))
    if unknown:
        raise InputError(f"bins are given for {', '.join(unknown)}, which is not a sensitive attribute here")
    return {name: _classes(name, log.case_values(name), edges.get(name), cases) for name in names}


def warnings_of_several_values(cases_by_name: Mapping[str, int]) -> list[str]:
    """Return a warning for each sensitive attribute that changes within a case: only its last value is bounded.

    Parameters
    ----------
    cases_by_name
        The number of cases with several values, by attribute.
    """
    warnings = []
    for name, cases in cases_by_name.items():
        if cases:
            warnings.append(
                f"{_cases_have(cases)} several values of the sensitive attribute {name!r}: C bounds the last value of "
                "each case, and all cases of a group may share an earlier one"
            )
    return warnings


def warnings_of_values(
    log: EventLog, names: Sequence[str], bins: Mapping[str, Edges] | None = None, cases: Ints | None = None
) -> list[str]:
    """Return the warnings of words for a missing value, of numbers that count as texts, and of spellings.

    Parameters
    ----------
    log, names, bins, cases
        As for `warnings_of_missing_words`.
    """
    return [warning for warnings_of in VALUE_WARNINGS for warning in warnings_of(log, names, bins, cases)]


def warnings_of_no_values(log: EventLog, names: Sequence[str]) -> list[str]:
    """Return a warning for each sensitive attribute that no case has: its name is misspelled, or a field was renamed.

    Parameters
    ----------
    log
        The log.
    names
        The sensitive attributes that C bounds.
    """
    warnings = []
    for name in names:
        columns = [attributes.get(name) for attributes in (log.case_attributes, log.event_attributes)]
        if not any(column is not None and (column.codes >= 0).any() for column in columns):
            warnings.append(
                f"none of {log.n_cases} cases has a value of the sensitive attribute {name!r}, so C bounds nothing of "
                "it: compare the name in process.sensitive with the field of the events, which the source may have "
                "renamed"
            )
    return warnings


LOST_BY_CHANCE = 1e-6
"""Largest chance that the newest cases have no value, if values come as before. A larger one warns of rare values."""


def warnings_of_lost_values(
    log: EventLog, names: Sequence[str], least: int, complete: Flags | None = None
) -> list[str]:
    """Return a warning for each sensitive attribute that earlier cases have, and none or far fewer of the newest ones.

    The source, or one of several, may have renamed the field. C bounds nothing of cases without a value, and
    `warnings_of_no_values` is silent as long as an earlier case has one.

    Parameters
    ----------
    log
        The log.
    names
        The sensitive attributes that C bounds.
    least
        Number of cases of the smallest group (K); fewer newest cases give no warning.
    complete
        bool[C], which cases are complete. The others may get a value later, so they are not counted if any is.
    """
    is_counted = log.lengths > 0
    if complete is not None and complete.any():
        is_counted &= complete
    counted_cases = np.flatnonzero(is_counted)
    begin = log.time[log.starts[counted_cases]]
    order = np.argsort(begin, kind="stable")
    by_begin, begin = counted_cases[order], begin[order]
    warnings = []
    for name in names:
        has_value = _has_value(log, name)[by_begin]
        if not has_value.any():
            continue
        n_until_last_value = int(np.flatnonzero(has_value)[-1]) + 1
        n_without = len(has_value) - n_until_last_value
        n_with = int(has_value.sum())
        if n_without >= least and _chance_of_run(n_without, n_with, n_until_last_value) < LOST_BY_CHANCE:
            warnings.append(
                f"none of the {n_without} cases that began last has a value of the sensitive attribute {name!r}, and "
                f"{n_with} of {n_until_last_value} cases before them have one: C bounds nothing of the newest cases; "
                "the source may have renamed the field, or a value may come late in a case"
            )
            continue
        if complete is None or not complete.any():
            n_settled = int(np.searchsorted(begin, _latest_settled_begin(log, name), side="right"))
            has_value = has_value[:n_settled]
        n_before = _cases_before_partial_loss(has_value, least)
        if n_before is not None:
            warnings.append(_warning_of_partial_loss(name, has_value, n_before))
    return warnings


def _chance_of_run(n_without: int, n_with: int, n_others: int) -> float:
    """Return the chance that `n_without` cases in a row have no value, if `n_with` of `n_others` cases have one."""
    # One more case without a value, so that a share of 1 does not make every missing value impossible.
    share_without = 1 - n_with / (n_others + 1)
    return float(share_without**n_without)


def warnings_of_late_values(log: EventLog, names: Sequence[str], least: int) -> list[str]:
    """Return a warning for each sensitive attribute that none of the first cases has, and later ones have.

    The field had another name before, or the source did not export it. A daemon reports it while no case has a value
    (`warnings_of_no_values`); a release of a complete log sees values, so it needs this warning.

    Parameters
    ----------
    log
        The whole log.
    names
        The sensitive attributes that C bounds.
    least
        Number of cases of the smallest group (K); fewer first cases give no warning.
    """
    cases = np.flatnonzero(log.lengths > 0)
    by_begin = cases[np.argsort(log.time[log.starts[cases]], kind="stable")]
    warnings = []
    for name in names:
        has_value = _has_value(log, name)[by_begin]
        if not has_value.any():
            continue
        n_without = int(np.argmax(has_value))
        n_after = len(has_value) - n_without
        n_with = int(has_value.sum())
        if n_without >= least and _chance_of_run(n_without, n_with, n_after) < LOST_BY_CHANCE:
            warnings.append(
                f"none of the {n_without} cases that began first has a value of the sensitive attribute {name!r}, and "
                f"{n_with} of {n_after} cases after them have one: C bounds nothing of the first cases; the source may "
                "have given the field another name then, or none"
            )
    return warnings


LEAST_SHARE_LOST = 0.1
"""Share of the newest cases that have to lack a value before a partial loss is reported."""

LEAST_RISE = 2
"""How many times as frequent cases without a value have to be. Smaller changes are those of a process."""

LATE_VALUES = 0.95
"""Share of values that have come when a case counts as old enough. The others are fewer than the least share lost."""


def _latest_settled_begin(log: EventLog, name: str) -> int:
    """Return the latest begin (ns) of a case that would have its value by the end of the log, if it gets one."""
    end = int(log.time.max())
    if name not in log.event_attributes:
        return end
    events = np.flatnonzero(log.event_attributes[name].codes >= 0)
    cases, first = np.unique(log.case_of_event[events], return_index=True)
    if not len(cases):
        return end
    delays = log.time[events[first]] - log.time[log.starts[cases]]
    return end - int(np.quantile(delays, LATE_VALUES, method="higher"))


def _cases_before_partial_loss(has_value: Flags, least: int) -> int | None:
    """Return the number of cases before a sudden rise of those without a value, or None.

    One source of several that has renamed the field leaves such a log.

    Parameters
    ----------
    has_value
        bool[n], by the begin of the cases.
    least
        Least number of newest cases without a value (K).

    Notes
    -----
    Let the cases have a value with one probability 1 - p, independently. At one place, of the n_1 cases before it a
    share a has no value, and of the n_2 after it a share b > a. By Chernoff's bound, each of a and b is as far from p
    as this with a chance of at most exp(-n KL(. || p)). The sum t of both exponents is least at the share p of all
    cases. So a t at least as large has a chance of at most (3 + t) exp(-t), whatever p is: two sides that are both off
    have (1 + t) exp(-t), and a p outside of a to b has exp(-t) on each side. The n places are tried one by one.
    """
    n_cases = len(has_value)
    without = np.cumsum(~has_value)
    n_before = np.arange(1, n_cases)
    n_after = n_cases - n_before
    without_before = without[:-1]
    if not n_cases or without[-1] in (0, n_cases):
        return None
    without_after = without[-1] - without_before
    share_before, share_after = without_before / n_before, without_after / n_after
    share_of_all = without[-1] / n_cases
    exponent = n_before * _divergence(share_before, share_of_all) + n_after * _divergence(share_after, share_of_all)
    log_of_chance = np.log(n_cases) + np.log(3 + exponent) - exponent
    is_lost = (
        (without_after >= least)
        & (share_after >= LEAST_SHARE_LOST)
        & (share_after >= LEAST_RISE * share_before)
        & (log_of_chance < np.log(LOST_BY_CHANCE))
    )
    if not is_lost.any():
        return None
    return int(n_before[np.argmax(np.where(is_lost, exponent, -np.inf))])


def _divergence(share: npt.NDArray[np.float64], probability: float) -> npt.NDArray[np.float64]:
    """Return the relative entropy (nats) of two distributions over two outcomes; `probability` is not 0 and not 1."""
    # A share of 0 contributes nothing: the limit of x log x.
    present = share * np.log(np.where(share > 0, share / probability, 1))
    absent = (1 - share) * np.log(np.where(share < 1, (1 - share) / (1 - probability), 1))
    return np.asarray(present + absent)


def _warning_of_partial_loss(name: str, has_value: Flags, n_before: int) -> str:
    n_after = len(has_value) - n_before
    without_before = n_before - int(has_value[:n_before].sum())
    without_after = n_after - int(has_value[n_before:].sum())
    return (
        f"in the order of their begins, {without_after} of {n_after} cases from number {n_before + 1} on have no value "
        f"of the sensitive attribute {name!r}, and {without_before} of the {n_before} before: C bounds nothing of a "
        "case without a value; one of several sources may have renamed the field (if values came as before, one log in "
        "a million would look so)"
    )


def _has_value(log: EventLog, name: str) -> Flags:
    """Return which cases have a value of an attribute, as `EventLog.case_values` finds it."""
    has_value = np.zeros(log.n_cases, dtype=np.bool_)
    if name in log.event_attributes:
        has_value[log.case_of_event[log.event_attributes[name].codes >= 0]] = True
    if name in log.case_attributes:
        has_value |= log.case_attributes[name].codes >= 0
    return has_value


def _cases_have(n_cases: int) -> str:
    return "1 case has" if n_cases == 1 else f"{n_cases} cases have"


def warnings_of_missing_words(
    log: EventLog, names: Sequence[str], bins: Mapping[str, Edges] | None = None, cases: Ints | None = None
) -> list[str]:
    """Return a warning for each sensitive attribute with texts that exports write for a missing value.

    Such a text is a value: C bounds its share, so that groups lose events for a value that nobody has. Among numbers it
    does more harm: the attribute is no number then, no quartiles are formed, and C bounds each single number.

    Parameters
    ----------
    log
        The log.
    names
        The sensitive attributes. One that the log does not have is passed over.
    bins
        Attributes with given bins are numbers, and another text is refused.
    cases
        As for `class_columns`.
    """
    warnings = []
    for name in names:
        stored = [columns[name] for columns in (log.case_attributes, log.event_attributes) if name in columns]
        # Most logs have no such text, and then no value is looked at for each case.
        has_text = any(_names_no_value(value) for column in stored for value in column.values)
        if name in (bins or {}) or not has_text:
            continue
        column = log.case_values(name)
        other_values = [value for value in column.values if not _names_no_value(value)]
        are_numbers = bool(other_values) and all(map(_is_number, other_values))
        # The empty text is a missing value (`models.anonymize.values`). Only among numbers it does harm: it makes all
        # of them texts.
        has_numbers = are_numbers and not any(isinstance(value, str) for value in other_values)
        is_doubtful = _names_no_value if has_numbers else means_missing
        is_word = np.array([is_doubtful(value) for value in column.values], dtype=np.bool_)
        n_cases = _cases_with(column, is_word, cases)
        if not n_cases:
            continue
        used_codes = np.unique(column.codes[column.codes >= 0])
        words = {str(column.values[code]).strip() or "an empty text" for code in used_codes if is_word[code]}
        effect = "C bounds its share like that of any other value"
        if are_numbers:
            effect = "with it the attribute is no number, so C bounds each single number and no range of them"
        warnings.append(
            f"{_cases_have(n_cases)} a value of the sensitive attribute {name!r} that exports write for a missing one "
            f"({', '.join(sorted(words))}): {effect}; leave the field empty if no value is known"
        )
    return warnings


def warnings_of_spellings(
    log: EventLog, names: Sequence[str], bins: Mapping[str, Edges] | None = None, cases: Ints | None = None
) -> list[str]:
    """Return a warning for each sensitive attribute with values that differ in spelling alone.

    `HIV`, `hiv` and `HIV ` are three values. C bounds the share of each, and all cases of a group may have one of them.

    Parameters
    ----------
    log, names, bins, cases
        As for `warnings_of_missing_words`.
    """
    warnings = []
    for name in names:
        stored = [columns[name] for columns in (log.case_attributes, log.event_attributes) if name in columns]
        # Both levels together: some cases may have `HIV` themselves, and others `hiv` in an event.
        stored_values = dict.fromkeys(value for column in stored for value in column.values)
        # Most logs have no such texts, and then no value is looked at for each case.
        if name in (bins or {}) or not spelled_twice(stored_values):
            continue
        column = log.case_values(name)
        used_codes = np.unique(column.codes[column.codes >= 0])
        is_spelled_twice = np.zeros(len(column.values), dtype=np.bool_)
        is_spelled_twice[used_codes[spelled_twice(column.values[code] for code in used_codes)]] = True
        n_cases = _cases_with(column, is_spelled_twice, cases)
        if n_cases:
            warnings.append(
                f"{n_cases} cases have a value of the sensitive attribute {name!r} that differs from another one "
                f"{DIFFERENCE}: each spelling is a value of its own, and C bounds the share of each alone, not of all "
                "together; write them alike at the source"
            )
    return warnings


MOSTLY_NUMBERS = Fraction(9, 10)
"""From this share of the cases on, texts are taken for numbers. A classification has codes with letters (`V45.1`)."""


def warnings_of_mixed_numbers(
    log: EventLog, names: Sequence[str], bins: Mapping[str, Edges] | None = None, cases: Ints | None = None
) -> list[str]:
    """Return a warning for each sensitive attribute with numbers or booleans that are counted as texts.

    An attribute has one type. One text among its numbers (`"<5"`, or `"12"` in quotes) or one boolean makes all of them
    texts, and so does a decimal comma or a last zero (`1.50`). Then no quartiles are formed, and C bounds each number.
    Of `true` and `"true"` it bounds each share alone, though both mean the same.

    Parameters
    ----------
    log, names, bins, cases
        As for `warnings_of_missing_words`, which reports texts that stand for a missing value.
    """
    warnings = []
    present_names = {*log.case_attributes, *log.event_attributes} - (bins or {}).keys()
    for name in names:
        if name not in present_names:
            continue
        column = log.case_values(name)
        doubt = None if is_numeric(column) else _doubt_about_numbers(column, cases)
        if doubt is not None:
            n_cases, problem = doubt
            warnings.append(f"{_cases_have(n_cases)} a value of the sensitive attribute {name!r} {problem}")
    return warnings


VALUE_WARNINGS = (warnings_of_missing_words, warnings_of_mixed_numbers, warnings_of_spellings)
"""The kinds of doubtful values. Each returns at most one warning an attribute."""


_ALL_ARE_TEXTS = "all its values are texts then, so C bounds each single number and no range of them"
_AT_THE_SOURCE = f"{_ALL_ARE_TEXTS}; write numbers as numbers, with a point, at the source"


def _doubt_about_numbers(column: Column, cases: Ints | None) -> tuple[int, str] | None:
    """Return how many cases have the values that were hardly meant as texts, and what is wrong with them."""
    writings = [_writing_of(value) for value in column.values]

    def cases_with(*chosen: Writing) -> int:
        is_chosen = np.array([writing in chosen for writing in writings], dtype=np.bool_)
        return _cases_with(column, is_chosen, cases)

    numbers, numbers_as_text = cases_with("number"), cases_with("number as text")
    booleans, others = cases_with("boolean"), cases_with("boolean", "text")
    if numbers and numbers_as_text + others:
        return numbers_as_text + others, f"that is no number, beside numbers: {_AT_THE_SOURCE}"
    if others and numbers_as_text >= MOSTLY_NUMBERS * (numbers_as_text + others):
        return others, f"that is no number, beside numbers: {_AT_THE_SOURCE}"
    if not others:
        texts = [value for value, writing in zip(column.values, writings, strict=True) if writing == "number as text"]
        if any("," in text for text in texts):
            return numbers_as_text, f"that is a number written as text, with a decimal comma: {_AT_THE_SOURCE}"
        if any("." in text for text in texts):
            # A reader takes texts for numbers only if none of them would be written otherwise, as 1.50 is.
            remedy = "give its ranges (bins) if it is a measurement"
            return numbers_as_text, f"that is a number written as text: {_ALL_ARE_TEXTS}; {remedy}"
    if 0 < booleans < numbers_as_text + others:
        return booleans, (
            'that is a boolean, beside texts: true and the text "true" are two values then, and C bounds the share of '
            "each alone; write them alike at the source"
        )
    return None


Writing = Literal["number", "number as text", "boolean", "text", "no value"]


def _writing_of(value: Any) -> Writing:
    """Return as what a value is written."""
    if _names_no_value(value):
        return "no value"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float, Decimal)):
        return "number"
    return "number as text" if isinstance(value, str) and _is_number(value) else "text"


def _cases_with(column: Column, is_chosen: Flags, cases: Ints | None) -> int:
    """Return how many cases have one of the chosen values."""
    has_value = np.zeros(len(column.codes), dtype=np.bool_)
    present = column.codes >= 0
    has_value[present] = is_chosen[column.codes[present]]
    return total(has_value, cases)


def _names_no_value(value: Any) -> bool:
    return means_missing(value) or (isinstance(value, str) and not value.strip())


def _is_number(value: Any) -> bool:
    """Return whether a value is a number, also one that is written as text, with a point or a comma."""
    try:
        float(value.replace(",", ".") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        return False
    return True


def check_edges(name: str, edges: Edges) -> None:
    """Check the bins of a sensitive attribute.

    Parameters
    ----------
    name
        The attribute, for messages.
    edges
        Upper edges of its classes.

    Raises
    ------
    InputError
        If there are none, or they are not finite and ascending.
    """
    ascends = all(low < high for low, high in itertools.pairwise(edges))
    if not edges or not ascends or not np.isfinite(edges).all():
        raise InputError(f"the bins of {name} do not ascend")


def _classes(name: str, column: Column, edges: Edges | None, cases: Ints | None) -> Column:
    if edges is None:
        return quartile_classes(column, cases) if is_numeric(column) else column
    check_edges(name, edges)
    try:
        # Logs often write numbers as text; setting bins declares that they are numbers.
        numbers = np.asarray([float(value) for value in column.values], dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"bins are given for {name}, which is not numeric") from None
    labels = [f"<= {edge:g}" for edge in edges] + [f"> {edges[-1]:g}"]
    bin_of_value = np.searchsorted(np.asarray(edges, dtype=np.float64), numbers)
    return _relabel(column, [labels[number] for number in bin_of_value.tolist()])


def is_numeric(column: Column) -> bool:
    """Return whether an attribute has values and all of them are numbers.

    Parameters
    ----------
    column
        Values of the attribute. Booleans are no numbers.
    """
    return bool(column.values) and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in column.values
    )


def quartile_classes(column: Column, cases: Ints | None = None) -> Column:
    """Cut a numeric attribute at the quartiles of its known values.

    The classes are low (<= Q1), high (>= Q3) and middle. If Q1 = Q3, a value of Q1 is low.

    Parameters
    ----------
    column
        The attribute by case; all values are numbers.
    cases
        int64[C], number of cases that each case represents; None: one each.
    """
    numbers = np.asarray(column.values, dtype=np.float64)
    has_value = column.codes >= 0
    weight = amounts(column.codes[has_value], None if cases is None else cases[has_value], len(numbers))
    low, high = (_quartile(numbers, weight, quarters) for quarters in (1, 3))
    labels = []
    for number in numbers.tolist():
        if number <= low:
            labels.append("low")
        elif number >= high:
            labels.append("high")
        else:
            labels.append("middle")
    return _relabel(column, labels)


def _quartile(numbers: npt.NDArray[np.float64], weight: Ints, quarters: int) -> float:
    """Return a quartile of weighted numbers, interpolated as `numpy.quantile` does."""
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(weight[order])
    last = int(ends[-1]) - 1
    below, quarters_above = divmod(last * quarters, 4)
    neighbours = [numbers[order[np.searchsorted(ends, at, "right")]] for at in (below, min(below + 1, last))]
    return float(np.quantile(neighbours, quarters_above / 4))


NEARLY_UNIQUE = Fraction(9, 10)
"""Distinct values among the cases that have one: from this share on, an attribute names cases."""

ENOUGH_CASES = 50
"""Fewer cases with a value do not show whether an attribute names them."""


def refuse_identifying(
    log: EventLog, names: Sequence[str], bins: Mapping[str, Edges] | None = None, cases: Ints | None = None
) -> None:
    """Refuse an attribute that names single cases.

    An attribute with nearly as many values as cases identifies them, and no share of a value can be bounded.
    Measurements with given bins are counted by class, and pass.

    Parameters
    ----------
    log
        The source log.
    names
        The sensitive attributes.
    bins
        Edges of classes by attribute. An attribute that has them is not checked.
    cases
        As for `class_columns`.

    Raises
    ------
    InputError
        If nearly every case has a value of its own. The message names the attribute.
    """
    for name in names:
        if name in (bins or {}):
            continue
        column = log.case_values(name)
        present_codes = column.codes[column.codes >= 0]
        distinct, holding = len(np.unique(present_codes)), total(column.codes >= 0, cases)
        if holding >= ENOUGH_CASES and distinct >= NEARLY_UNIQUE * holding:
            raise InputError(
                f"attribute {name!r} has {distinct} values in {holding} cases, so it names single cases: give it "
                "the role identifier (process.attributes.identifier), or bins if it is a measurement"
            )


def _relabel(column: Column, labels: list[str]) -> Column:
    merged = Column.encode(labels)
    return Column(np.where(column.codes < 0, -1, merged.codes[column.codes]).astype(np.int32), merged.values)


def refuse_infeasible(
    n_cases: int, classes: Mapping[str, Column], bounds: TlkcBounds, cases: Ints | None = None
) -> None:
    """Refuse bounds that the whole log already violates.

    This is the empty candidate of Def. 14, which no suppression cures. The message names the number that
    makes it so: cases against K, the largest class against C, or the number of classes against 1/C.

    Parameters
    ----------
    n_cases
        Number of cases.
    classes
        The class of each case, by sensitive attribute.
    bounds
        K and C.
    cases
        int64[C], number of cases that each entry of a column represents; None: one each.

    Raises
    ------
    FewerThanKError
        If the log has fewer than K cases.
    InfeasibleError
        If a class has more than C of the cases.

    References
    ----------
    tlkc-privacy-extended-2021, Def. 14.
    """
    if n_cases < bounds.K:
        raise FewerThanKError(f"K = {bounds.K} is infeasible: the log has {n_cases} cases")
    for name, column in classes.items():
        has_value = column.codes >= 0
        present_codes = column.codes[has_value]
        if not len(present_codes):
            continue
        weight = None if cases is None else cases[has_value]
        share = Fraction(int(amounts(present_codes, weight).max()), n_cases)
        if share <= bounds.C:
            continue
        kinds = len(np.unique(present_codes))
        why = f"one value of {name} belongs to {share.numerator * n_cases // share.denominator} of {n_cases} cases"
        if total(present_codes >= 0, weight) == n_cases and bounds.C * kinds < 1:
            why = f"{name} has {kinds} values, so one of them has at least 1/{kinds} of the cases"
        raise InfeasibleError(
            f"C = {float(bounds.C):g} is infeasible: {why} ({float(share):.4f}); cases with "
            "other values would help, or fewer and larger classes (bins)"
        )
