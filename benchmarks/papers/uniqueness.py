"""reidentification-risk-2020: Figures 1 and 2, Table 5."""

from __future__ import annotations

from typing import Any, get_args

from benchmarks.papers.page import NOT_HELD, Page, Table, chosen, held
from models.eventlog import EventLog
from models.risk.points import Projection, Unit
from models.risk.uniqueness import Points, Semantics, trace_uniqueness

LOGS = ("sepsis", "bpic2012", "ccc19")
ABSENT = ("ADL", "BPIC 2015", "BPIC 2017", "BPIC 2018", "Credit", "HB", "RIH", "WABO", "RTFM")
FIGURE_1: dict[tuple[str, Unit, Points], str] = {
    ("A", "seconds", 4): "all traces",
    ("A", "days", 4): "31 %",
    ("A", "days", "100%"): "70 %",
    ("B", "seconds", "100%"): "approximately 37 %",
    ("D", "seconds", "100%"): "9 %",
}
AMOUNTS: tuple[Points, ...] = (1, 2, 4, 16, 64, "100%")
SHARES: tuple[Points, ...] = ("10%", "50%", "90%")
TABLE_5 = [
    ("PYMT", 0.409, 0.161),
    ("PYMT, ARA", 0.476, 0.164),
    ("PYMT, DPT", 0.528, 0.419),
    ("PYMT, #PCL", 0.698, 0.594),
    ("PYMT, ARA, #PCL", 0.747, 0.649),
    ("PYMT, DPT, #PCL", 0.788, 0.718),
    ("PYMT, DPT, #PCL, ARA, SF", 0.845, 0.971),
]


def page(*, small: bool = False) -> Page:
    """All tables; `small`: those of the small logs."""
    names = chosen(LOGS, small=small)
    tables = [_figure_1(held("sepsis")), *(_figure_2(name, held(name)) for name in names), _absent(), _table_5()]
    return Page(
        name="reidentification-risk-2020",
        title="Re-identification risk of event logs (2020)",
        about="*joint* matches multisets of whole points, as equation 2 says; *per-column* repeats the authors' "
        "program. Means "
        "of 5 seeded draws. Figure 1 has no value labels: *printed* is what the text states.",
        tables=tables,
        differences=[
            "**Figure 1**: the authors' program matches every column separately, loses the last event of each "
            "trace, reads case id "
            "`NA` as missing (1,049 of 1,050 cases) and floors times in UTC. `per-column` repeats that and comes "
            "out at the "
            "printed percentages; by the definition (`joint`) the risk is higher, twice as high for projection A by "
            "days.",
            "**Figure 2** and **Table 5 (right)**: the paper pseudonymizes its logs by numbers in another order, so "
            "its cells cannot "
            "be assigned to logs; ours have names, and no printed value is compared with them.",
            "**Table 5 (left)** is about BPI Challenge 2018, which is not held. Its last row has more unique cases "
            "in the population than "
            "in the sample, which contradicts the definition: who is unique in a population is unique in every sample.",
            "**CCC19**: the log at hand has 20 cases and 29 activities; in the paper's Table 4 these numbers are "
            "in the row 'Credit', and "
            "10,035 cases and 8 activities in the row 'CCC 2019': the two rows are exchanged.",
        ],
    )


def _shares(log: EventLog, projection: Any, resolution: Unit, amounts: Any, semantics: Semantics) -> list[Any]:
    runs = trace_uniqueness(log, projection, amounts, resolution=resolution, draws=5, semantics=semantics)
    if runs.status != "ok":
        return ["n/a"] * len(amounts)
    return [round(point.unique_mean, 3) for point in runs.points]


def _figure_1(log: EventLog | None) -> Table:
    rows: list[list[Any]] = []
    kinds: list[tuple[Projection, Unit]] = [
        ("A", "seconds"),
        ("A", "days"),
        *((p, "seconds") for p in ("B", "C", "D", "E")),
    ]
    for projection, resolution in kinds:
        columns = [
            [NOT_HELD] * len(AMOUNTS) if log is None else _shares(log, projection, resolution, AMOUNTS, semantics)
            for semantics in get_args(Semantics)
        ]
        for m, *values in zip(AMOUNTS, *columns, strict=True):
            name = f"{projection} by {resolution}" if projection == "A" else projection
            rows.append([name, m, *values, FIGURE_1.get((projection, resolution, m), "-")])
    return Table("Figure 1: Sepsis", ["projection", "points", *get_args(Semantics), "printed"], rows, log="sepsis")


def _figure_2(name: str, log: EventLog | None) -> Table:
    rows = []
    for projection in ("A", "B", "C", "D", "E"):
        values = [NOT_HELD] * 3 if log is None else _shares(log, projection, "seconds", SHARES, "joint")
        rows.append([projection, *values])
    return Table(f"Figure 2: {name} (joint)", ["projection", *map(str, SHARES)], rows, log=name)


def _absent() -> Table:
    return Table("Figure 2: the other logs", ["log", *map(str, SHARES)], [[name, *[NOT_HELD] * 3] for name in ABSENT])


def _table_5() -> Table:
    rows = [[*row[:1], NOT_HELD, row[1], NOT_HELD, row[2]] for row in TABLE_5]
    return Table("Table 5: BPI Challenge 2018", ["combination", "sample", "printed", "population", "printed"], rows)
