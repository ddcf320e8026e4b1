"""The papers' simulation on the papers' logs: Table 2 of temporal-privacy-leakage-2022, and lockstep growth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from connectors import read_log
from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.rules import FoldRules, PublicationRules
from stream.run.log_source import log_facts, records_from_log

# semantics/leakage.md: events, complete traces, incomplete traces of the first release
TABLE_2 = {
    "sepsis": (7_290, 442, 84),
    "bpic2013-incidents": (21_705, 0, 2_271),
    "bpic2012-app": (29_227, 5_849, 690),
}


@pytest.fixture(scope="module", params=sorted(TABLE_2))
def log(request, logs):
    return request.param, read_log(logs / f"{request.param}.xes.gz")


def replayed(log, rule, batch):
    """(lengths by case, complete cases) of each release of a lockstep replay."""
    window = read_window({"events_per_case": {**rule, "lockstep": True}, "first": {"paper_split": 0.5}})
    fold = Fold(FoldRules((PublicationRules("p", window),), log_end=True, embedded=True), log_facts(log))
    releases = []

    def take(cuts):
        for cut in cuts:
            shown = fold.exposed(cut)
            lengths = dict(zip(shown.log.case_ids, shown.log.lengths.tolist(), strict=True))
            releases.append((lengths, {shown.log.case_ids[i] for i in np.flatnonzero(shown.complete)}))
            fold.decided(cut, released=True)

    for position, record in records_from_log(log, log_end=True, batch=batch):
        take(fold.apply(position, record))
    take(fold.finish())
    return releases


@pytest.mark.parametrize(("rule", "batch"), [({"x": 4}, 500), ({"x": 4, "mode": "up_to"}, 3000)])
def test_first_release_has_the_figures_of_table_2_and_cases_advance_together(log, rule, batch):
    """paper_split = 0.5: the paper's events, complete and incomplete traces exactly; then every case that is left
    grows by one number of events, x in S1 and 0..x in S2, or by what it has left; at most five releases."""
    name, log = log
    releases = replayed(log, rule, batch)
    lengths, complete = releases[0]
    assert (sum(lengths.values()), len(complete), len(lengths) - len(complete)) == TABLE_2[name]
    assert len(releases) <= 5
    whole = dict(zip(log.case_ids, log.lengths.tolist(), strict=True))
    for (before, _), (after, complete) in itertools.pairwise(releases):
        steps = {after.get(c, 0) - before.get(c, 0) for c in whole if after.get(c, 0) < whole[c]}
        assert len(steps) <= 1
        step = steps.pop() if steps else rule["x"]
        assert step == rule["x"] if "mode" not in rule else 0 <= step <= rule["x"]
        assert all(after.get(c, 0) - before.get(c, 0) == min(step, whole[c] - before.get(c, 0)) for c in whole)
        assert complete == {c for c in after if after[c] == whole[c]}
    assert len(releases) == 5 or releases[-1][0] == whole
