"""Streams for the fold's tests, and what its cuts show."""

from __future__ import annotations

from stream.fold.records import Delta, Row

S = 1_000_000_000
COUNTED = ("new_cases", "new_events", "pending", "late", "non_append_insertions")


def in_order(events):
    """Rows of one partition whose times never go back."""
    clock, rows = 0, []
    for offset, (case, activity, gap, end) in enumerate(events):
        clock += gap * S
        rows.append(Row(offset, f"c{case}", activity, clock, None, None, None, end and activity == "b"))
    return rows


def shown(cut, projection):
    log = projection.log
    traces = {
        case: tuple(zip(trace, log.time[a:b].tolist(), strict=True))
        for case, trace, a, b in zip(log.case_ids, log.traces(), log.starts[:-1], log.starts[1:], strict=True)
    }
    complete = {case for case, done in zip(log.case_ids, projection.complete, strict=True) if done}
    return cut.publication, cut.trigger, cut.window, traces, complete, {name: cut.counts[name] for name in COUNTED}


def cases_that_leave(cut, projection):
    """A decision of every third cut shows no case, the others one half of them, which changes from cut to cut."""
    if cut.ordinal % 3 == 0:
        return []
    return [case for case in projection.log.case_ids if (ord(case[-1]) + cut.ordinal) % 2]


def run(fold, records):
    """All cuts of the records, decided as released."""
    cuts = []
    for position, record in records:
        for cut in fold.apply(position, record):
            cuts.append(shown(cut, fold.exposed(cut)))
            book = fold.accounting(cut.publication)
            assert book["seen"] == book["exposed"] + book["pending"] + book["late"]
            fold.decided(cut, released=True)
    return cuts


def deltas(source, rows, sizes):
    """The rows as records of the given sizes, in turn."""
    begin, turn = 0, 0
    while begin < len(rows):
        part = rows[begin : begin + sizes[turn % len(sizes)]]
        previous = rows[begin - 1].offset if begin else -1
        yield part[0].offset, Delta(src=source, p=0, prev=previous, last=part[-1].offset, n=len(part), rows=part)
        begin, turn = begin + len(part), turn + 1
