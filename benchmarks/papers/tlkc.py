"""tlkc-privacy-extended-2021: Tables 3 to 10, Figures 5, 6, 7, 9, 10 and 13."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from typing import Any, get_args

from benchmarks.papers.page import NOT_HELD, ROOT, Page, Table, chosen, held
from benchmarks.tlkc import AUTHORS, SETTINGS
from models.anonymize.baselines import baseline_1, baseline_2, pretsa
from models.anonymize.result import Anonymized
from models.anonymize.suppression import algorithm_1
from models.anonymize.tlkc import anonymize, maximal_frequent
from models.anonymize.view import view_of_items
from models.anonymize.violations import TlkcBounds, minimal_violations
from models.errors import VeilstreamError
from models.eventlog import Column, EventLog
from models.knowledge import Structure
from models.utility.discovery import discovery_quality
from models.utility.distance import data_utility
from models.utility.graphs import agreement, directly_follows, handover

LOGS = {"sepsis": ("Diagnose",), "bpic2012-app": ("AMOUNT_REQ",)}
SMALL_TYPES = ("set", "seq")
"""Structures of Sepsis that CI recomputes: an easy and a hard one."""

TYPES: tuple[Structure, ...] = get_args(Structure)
METHODS: dict[str, dict[str, Any]] = {
    "TLKC (Algorithm 1)": {"suppression": "greedy", "algorithm": 1, "theta": 0.5},
    "TLKC-EXT (Algorithm 2)": {"suppression": "greedy"},
    "exact": {"suppression": "exact"},
}
EXAMPLE = json.loads((ROOT / "tests" / "golden" / "tlkc_table3.json").read_text(encoding="utf-8"))
TABLE_9 = {"sepsis": (1050, 15214, 16, None, None), "bpic2012-app": (13087, 60849, 10, 61, 301)}
TABLE_10 = {"sepsis": (846, None, None), "bpic2012-app": (17, 2974, 3872)}
HEADER = ["setting", "type", "method", "events", "data utility", "DFG f1", "handover f1", "authors"]


def page(*, small: bool = False) -> Page:
    """All tables; `small`: those of Sepsis and of the worked example."""
    names = chosen(list(LOGS), small=small)
    tables = [*_example(), *(_statistics(name) for name in names), *(_prices(name, small=small) for name in names)]
    if not small:
        tables += [_models("sepsis"), _baselines("sepsis"), _organization()]
    return Page(
        name="tlkc-privacy-extended-2021",
        title="Group-based privacy preservation for process mining: TLKC-privacy, extended (2021)",
        about="Weak: L = 2, K = 20, C = 0.5; strong: L = 6, K = 60, C = 0.2; T = minutes; attribute `ac`. Fitness "
        "is by replay (by alignments: "
        "`python -m benchmarks.tlkc --json`), models by the inductive miner "
        "infrequent (0.2). The figures have no value labels; *authors* is "
        "what their program "
        "returned for Sepsis with Diagnose and Age (events / data utility), not a value of the paper. The 200 "
        "settings of section 6.1: "
        "`python -m benchmarks.tlkc_grid`.",
        tables=tables,
        differences=[
            "**Tables 6 to 8** do not follow from Table 3 as printed: (HO,E3,4) alone has two Corona cases of "
            "three, above C = 0.5, so it is a "
            "minimal violation, and Table 8 still contains it. With another disease in case 5 the printed tables "
            "come out exactly "
            "(*mended*).",
            "**Table 4** is a valid 2-anonymous log but not optimal: it removes 12 events, 10 are possible and ours "
            "removes 10. **Table 5** "
            "removes 18, which is the least; our Baseline-2 merges step by step and removes 24 there.",
            "**Figures 5 to 7 and 13**: the published program counts duplicates in `seq`, never tests `rel` beyond "
            "one item and matches exact "
            "counts only in `mult`, so that those releases do not satisfy the definition; ours do, and keep fewer "
            "events greedily. "
            "`exact` chooses the items by least events lost and keeps more.",
            "**Sensitive attributes**: the paper uses Diagnose and Age. Quartiles with strict ties put 64 % of the "
            "ages into one class, with "
            "which C = 0.5 is impossible for the whole log; these tables use Diagnose alone.",
            "**BPIC-2012-APP**: the paper does not name the sensitive attribute; here it is AMOUNT_REQ.",
            "**BPIC-2017-APP** is not held. **Figures 8, 11, 12** are drawings; their content is in the agreement "
            "of the graphs "
            "(`veilstream utility` also lists bottlenecks).",
        ],
    )


def _example() -> list[Table]:
    printed = EXAMPLE["variant_case5_disease_new"]
    rows = []
    for label, mend in (("as printed", False), ("mended", True)):
        chosen_, traces = _algorithm_1(mend=mend)
        rows.append([label, "; ".join(chosen_), sum(map(len, traces)), "(VI,D1,5); (RE,E4,1)", 24])
    table = Table(
        "Tables 3, 6, 7, 8: Algorithm 1", ["Table 3", "suppressed", "events left", "printed", "printed"], rows
    )
    _, traces = _algorithm_1(mend=True)
    lines = []
    for number, trace in enumerate(traces, start=1):
        lines.append([number, " ".join(trace), " ".join(printed["anonymized"][str(number)])])
    return [table, Table("Table 8, mended", ["case", "ours", "printed"], lines), _tables_4_5()]


def _algorithm_1(*, mend: bool) -> tuple[list[str], list[list[str]]]:
    bounds = EXAMPLE["parameters"]
    traces = [row["trace"] for row in EXAMPLE["input"]]
    diseases = [row["disease"] for row in EXAMPLE["input"]]
    if mend:
        diseases[4] = "another"
    items = Column.encode(tuple(_part(text)) for trace in traces for text in trace)
    starts = EventLog.from_traces([(trace, None) for trace in traces]).starts
    view = view_of_items(starts, items, "rel", {"Disease": Column.encode(diseases)})
    violations = minimal_violations(view, TlkcBounds.of(bounds["L"], bounds["K"], bounds["C"])).candidates()
    codes = algorithm_1(violations, maximal_frequent(view, bounds["theta"]), len(view.alphabet))
    gone = [f"({','.join(map(str, item))})" for item in view.decode(codes)]
    return gone, [[text for text in trace if text not in gone] for trace in traces]


def _part(text: str) -> list[Any]:
    activity, resource, moment = text.strip("()").split(",")
    return [activity, resource, int(moment)]


def _tables_4_5() -> Table:
    log = EventLog.from_traces([(row["trace"], row["disease"]) for row in EXAMPLE["input"]])
    rows = [
        [name, K, log.n_events - baseline_2(log, K).events, lost]
        for name, K, lost in (("Table 4", 2, 12), ("Table 5", 4, 18))
    ]
    return Table("Tables 4 and 5: Baseline-2", ["table", "K", "events removed", "printed"], rows)


def _statistics(name: str) -> Table:
    log = held(name)
    labels = [
        "cases",
        "events",
        "activities",
        "resources",
        "(activity, resource)",
        "variants",
        "by resource",
        "by both",
    ]
    ours: list[Any] = [NOT_HELD] * len(labels)
    if log is not None:
        named = log.resource.codes.max(initial=-1) >= 0
        acts, resources = log.activity.decode(), log.resource.decode()
        both = list(zip(acts, resources, strict=True))
        cases = list(pairwise(log.starts.tolist()))
        variants: list[int | None] = [
            len({tuple(values[begin:end]) for begin, end in cases}) for values in (acts, resources, both)
        ]
        distinct_resources: list[int | None] = [None, None]
        if named:
            distinct_resources = [len(set(resources) - {None}), len(set(both))]
        else:
            variants[1:] = [None, None]
        ours = [log.n_cases, log.n_events, len(set(acts)), *distinct_resources, *variants]
    printed = [*TABLE_9[name], *TABLE_10[name]]
    rows = [list(row) for row in zip(labels, ours, printed, strict=True)]
    return Table(f"Tables 9 and 10: {name}", ["what", "ours", "printed"], rows, log=name)


def _prices(name: str, *, small: bool) -> Table:
    rows = []
    for setting, each, method in ((s, t, m) for s in SETTINGS for t in TYPES for m in METHODS):
        if small and each not in SMALL_TYPES:
            continue
        rows.append([setting, each, method, *_price(name, setting, each, method), _authors(name, setting, each)])
    return Table(f"Figures 6, 7, 9, 13: {name}", HEADER, rows, log=name)


def _authors(name: str, setting: str, each: str) -> str | None:
    printed: Any = AUTHORS.get((name, setting), {}).get(each)
    return f"{printed['events']} / {printed['data_utility']}" if isinstance(printed, dict) else printed


def _price(name: str, setting: str, each: Structure, method: str) -> list[Any]:
    log = held(name)
    if log is None:
        return [NOT_HELD] * 4
    try:
        released = _released(name, setting, each, method)
    except VeilstreamError as error:
        return [_reason(error), *["-"] * 3]
    return [released.events, *_measured(log, released)]


@cache
def _released(name: str, setting: str, each: Structure, method: str, attribute: Any = "ac") -> Anonymized:
    log = held(name)
    assert log is not None
    bounds = SETTINGS[setting]
    return anonymize(
        log, sensitive=LOGS[name], knowledge=each, attribute=attribute, T="minutes", **bounds, **METHODS[method]
    )


def _reason(error: VeilstreamError) -> str:
    return str(error).split(";")[0].replace("|", "/")


def _measured(log: EventLog, released: Anonymized) -> list[Any]:
    graphs = agreement(directly_follows(log), directly_follows(released.log))
    people = handover(log, released.log) if log.resource.codes.max(initial=-1) >= 0 else None
    return [round(data_utility(log, released.log), 3), round(graphs.f1, 3), people and round(people.f1, 3)]


def _models(name: str) -> Table:
    """Figure 5; the weak setting and the definition's best methods, since discovery on Sepsis takes long."""
    log, rows = held(name), []
    for setting, each in ((s, t) for s in SETTINGS for t in TYPES):
        cells: list[Any] = [NOT_HELD] * 2
        if log is not None:
            try:
                model = discovery_quality(log, _released(name, setting, each, "exact").log, "replay")
                cells = [round(model.fitness, 3), round(model.precision, 3)]
            except VeilstreamError as error:
                cells = [_reason(error), "-"]
        rows.append([setting, each, *cells])
    return Table(f"Figure 5, suppression exact: {name}", ["setting", "type", "fitness", "precision"], rows, log=name)


def _baselines(name: str) -> Table:
    log = held(name)
    rows = []
    for label, method in (("baseline-1", baseline_1), ("baseline-2", baseline_2), ("PRETSA_case", pretsa)):
        for K in (20, 60):
            try:
                released = None if log is None else method(log, K)
            except VeilstreamError as error:
                rows.append([label, K, _reason(error), *["-"] * 3])
                continue
            cells = [NOT_HELD] * 4 if log is None or released is None else [released.events, *_measured(log, released)]
            rows.append([label, K, *cells])
    return Table(f"Figure 5, the baselines: {name}", ["method", "K", *HEADER[3:7]], rows, log=name)


def _organization() -> Table:
    name, rows = "bpic2012-app", []
    log = held(name)
    for setting, each in ((s, t) for s in SETTINGS for t in TYPES):
        cells: list[Any] = [NOT_HELD] * 3
        if log is not None:
            try:
                released = _released(name, setting, each, "TLKC-EXT (Algorithm 2)", "re")
                people = handover(log, released.log)
                cells = [released.events, round(data_utility(log, released.log), 3), people and round(people.f1, 3)]
            except VeilstreamError as error:
                cells = [_reason(error), "-", "-"]
        rows.append([setting, each, *cells])
    header = ["setting", "type", "events", "data utility (activities)", "handover f1"]
    return Table("Figures 9 and 10: bpic2012-app, attribute re", header, rows, log=name)
