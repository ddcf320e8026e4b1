"""The fold, slow and obvious: every event by itself, every number counted from the list of events each time.

Independent of `stream.fold.fold`: it shares the records and the rules, and none of the state, counters or arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class Event:
    place: int
    source: tuple[str, int]
    offset: int
    case: str
    activity: str
    time: int
    end: bool
    arrival: int | None


@dataclass
class Pub:
    rules: object
    exposed: list = field(default_factory=list)
    dropped: set = field(default_factory=set)
    since: int = 0
    completions: int = 0
    window_end: int | None = None
    bound: int | None = None
    last_cut: int | None = None
    waiting: int | None = None
    cuts: int = 0
    first_done: bool = False
    retired: set = field(default_factory=set)


class Oracle:
    """Feed `event` and `tick`; `cuts` lists (publication, trigger, window, traces, complete, counts)."""

    def __init__(self, rules):
        self.rules = rules
        self.pubs = [Pub(one) for one in sorted(rules.publications, key=lambda one: one.name)]
        self.events, self.cuts = [], []
        self.heard, self.high, self.complete = {}, {}, set()
        self.now = None
        for pub in self.pubs:
            window = pub.rules.window
            if pub.rules.start is not None and window.every and (rules.embedded or window.time == "event"):
                pub.window_end = pub.rules.start + window.every

    # input

    def event(self, source, row):
        if row.offset <= self.high.get(source, -1):
            return
        if self.rules.embedded:
            self.pass_time(row.time_ns)
            self.heard[source] = row.time_ns
        else:
            self.heard[source] = max(self.heard.get(source, row.time_ns), row.time_ns)
        self.earliest = min([row.time_ns, *(event.time for event in self.events)])
        self.settle()
        self.evaluate()
        self.high[source] = row.offset
        before = set(self.complete)
        end = row.end or row.activity in self.rules.end_activities
        event = Event(
            len(self.events),
            source,
            row.offset,
            row.case,
            row.activity,
            row.time_ns,
            end,
            None if self.rules.embedded else self.now,
        )
        self.events.append(event)
        for pub in self.pubs:
            if pub.bound is not None and event.time < pub.bound and pub.rules.late != "next_release":
                pub.dropped.add(event.place)
            elif pub.waiting is None:
                pub.waiting = self.now
        self.complete = before - {event.case} | ({event.case} if self.is_complete(event.case) else set())
        for pub in self.pubs:
            pub.completions += event.case in self.complete and event.case not in before
        self.evaluate()

    def lose(self, source, first):
        """A source's log is another one from offset `first` on: these offsets come again, and are not repeats."""
        self.high[source] = min(self.high.get(source, -1), first - 1)

    def tick(self, at):
        if self.now is None and not self.rules.embedded and any(pub.rules.private for pub in self.pubs):
            self.now = at  # a clock that begins has no deadlines behind it
            self.open_wall_windows()
            self.settle()
        elif self.now is None or at > self.now:
            self.pass_time(at)
        self.evaluate()

    def pass_time(self, time):
        while True:
            later = [moment for moment in self.moments() if self.now is None or moment > self.now]
            if not later or min(later) > time:
                break
            self.now = min(later)
            self.embedded_clock()
            self.open_wall_windows()
            self.settle()
            self.evaluate()
        self.now = time if self.now is None else max(time, self.now)
        self.embedded_clock()
        self.settle()
        self.open_wall_windows()

    def open_wall_windows(self):
        """Wall windows counted from `start` begin with the one that the first tick is in."""
        for pub in self.pubs:
            every = pub.rules.window.every
            if every and pub.rules.start is not None and pub.window_end is None:
                pub.window_end = pub.rules.start + every
                while pub.window_end <= self.now:
                    pub.window_end += every

    def embedded_clock(self):
        if self.rules.embedded:
            self.heard = dict.fromkeys(self.heard, self.now)

    def moments(self):
        """Every moment at which a tick may change something (more than needed does no harm)."""
        silence = self.rules.inactivity
        for case in {event.case for event in self.events} - self.complete:
            if silence is not None:
                yield max(self.last(case).time, self.last_arrival(case)) + silence
        for pub in self.pubs:
            window = pub.rules.window
            if window.first is not None and window.first.kind == "until":
                yield window.first.value + 1
            if pub.window_end is not None:
                yield pub.window_end
                yield pub.window_end + window.allowed_lateness
            if pub.waiting is not None and window.events_per_case and window.events_per_case.max_wait:
                yield pub.waiting + window.events_per_case.max_wait
            if window.min_interval and pub.last_cut is not None:
                yield pub.last_cut + window.min_interval

    # completion

    def of(self, case):
        return sorted((e for e in self.events if e.case == case), key=lambda e: (e.time, e.source, e.place))

    def last(self, case):
        return max((e for e in self.events if e.case == case), key=lambda e: (e.time, e.place))

    def last_arrival(self, case):
        return max(-(1 << 62) if e.arrival is None else e.arrival for e in self.events if e.case == case)

    def is_complete(self, case, private=False):
        ended = self.last(case).end or self.has_all(e for e in self.events if e.case == case)
        return ended or self.silent(case, private)

    def has_all(self, events):
        wanted = set(self.rules.end_all)
        return bool(wanted) and wanted <= {event.activity for event in events}

    def silent(self, case, private=False):
        silence, last = self.rules.inactivity, self.last(case).time
        if silence is None:
            return False
        by_event = not private and self.watermark() is not None and last + silence <= self.watermark()
        return by_event or (self.now is not None and max(last, self.last_arrival(case)) + silence <= self.now)

    def settle(self):
        """Cases that have become silent complete one after another, in the order of their deadlines."""
        order = list(dict.fromkeys(event.case for event in self.events))
        due = [case for case in order if case not in self.complete and self.silent(case)]
        for case in sorted(due, key=lambda case: (self.last(case).time, order.index(case))):
            self.complete.add(case)
            for pub in self.pubs:
                pub.completions += 1
            self.evaluate()

    def watermark(self):
        if self.rules.embedded:
            return self.now
        sources = {*self.heard, *self.rules.sources}
        known = [self.heard.get(source) for source in sources]
        return None if not known or None in known else min(known)

    # triggers

    def evaluate(self):
        for pub in self.pubs:
            while (found := self.trigger(pub)) is not None:
                name, start, end, certain = found
                if name == "every" and self.held(pub):
                    self.next_window(pub)
                elif self.held(pub):
                    break
                else:
                    self.take(pub, name, start, end, certain)

    def fresh_events(self, pub):
        return [e for e in self.events[pub.since :] if e.place not in pub.dropped]

    def fresh_cases(self, pub):
        old = {e.case for e in self.events[: pub.since] if e.place not in pub.dropped}
        return {e.case for e in self.fresh_events(pub)} - old

    def pending(self, pub):
        done = {place for cut in pub.exposed for place in cut}
        left = [e for e in self.events if e.place not in done and e.place not in pub.dropped]
        return [e for e in left if e.case not in pub.retired]

    def shown(self, pub):
        places = {place for cut in pub.exposed for place in cut}
        return {place for place in places if self.events[place].case not in pub.retired}

    def retire(self, pub):
        """At its cuts a dp publication lets go of cases that are over, by their own events and the clock."""
        keep = self.rules.retention
        waiting = {e.case for e in self.pending(pub)}
        for case in {e.case for e in self.events} - waiting:
            since = max(self.last(case).time, self.last_arrival(case))
            if self.now is not None and self.is_complete(case, private=True) and since + keep <= self.now:
                pub.retired.add(case)

    def trigger(self, pub):
        window, mark = pub.rules.window, self.watermark()
        first, every = window.first, window.every
        if (
            every is not None
            and pub.rules.start is None
            and pub.window_end is None
            and getattr(self, "earliest", None) is not None
        ):
            known = mark if window.time == "event" else self.now
            if known is not None:
                base = min(self.earliest, known) if window.time == "event" else known
                pub.window_end = math.floor(base / every) * every + every
        cases, events = len(self.fresh_cases(pub)), len(self.fresh_events(pub))
        if first is not None and not pub.first_done:
            if first.kind == "until":
                mark = self.now if pub.rules.private else mark
                return ("first", None, first.value + 1, None) if mark is not None and mark > first.value else None
            return (
                ("first", None, None, None) if (cases if first.kind == "new_cases" else events) >= first.value else None
            )
        if every is not None and pub.window_end is not None:
            if window.time == "event" and mark is not None and mark >= pub.window_end + window.allowed_lateness:
                return "every", pub.window_end - every, pub.window_end, None
            if window.time == "wall" and self.now is not None and self.now >= pub.window_end:
                return "every", pub.window_end - every, None, None
        if window.new_cases and cases >= window.new_cases:
            return "new_cases", None, None, None
        if window.new_events and events >= window.new_events:
            return "new_events", None, None, None
        if window.completed_cases and pub.completions >= window.completed_cases:
            return "completed_cases", None, None, None
        return self.alone(pub) if window.only_events_per_case else None

    def alone(self, pub):
        rule = pub.rules.window.events_per_case
        waiting = [e.case for e in self.pending(pub)]
        unfinished = {e.case for e in self.events if e.case not in self.complete} | set(waiting)
        ready = {case for case in waiting if case in self.complete or waiting.count(case) >= rule.x}
        if ready and len(ready) >= rule.fraction * len(unfinished):
            return "events_per_case", None, None, None
        if (
            rule.max_wait
            and pub.waiting is not None
            and self.now is not None
            and self.now - pub.waiting >= rule.max_wait
        ):
            return "max_wait", None, None, False
        return None

    def held(self, pub):
        window = pub.rules.window
        soon = self.now is None or (pub.last_cut is not None and self.now - pub.last_cut < (window.min_interval or 0))
        if window.min_interval and pub.cuts and soon:
            return True
        tumbling = window.every is not None and window.time == "event"
        return bool(window.min_new_cases) and not tumbling and len(self.fresh_cases(pub)) < window.min_new_cases

    def window_of(self, pub, moment):
        every, start = pub.rules.window.every, pub.rules.start
        if start is None:
            return math.floor(moment / every) * every + every
        end = start + every
        while end <= moment:
            end += every
        return end

    def next_window(self, pub):
        pub.window_end += pub.rules.window.every
        if pub.rules.window.time == "wall":
            while pub.window_end <= self.now:
                pub.window_end += pub.rules.window.every

    # cuts

    def chosen(self, pub, name, end):
        pending = [e for e in self.pending(pub) if end is None or e.time < end]
        rule = pub.rules.window.events_per_case
        if rule is None or name == "first":
            return pending
        result = []
        for case in {e.case for e in pending}:
            mine = sorted((e for e in pending if e.case == case), key=lambda e: (e.time, e.source, e.place))
            if len(mine) >= rule.x or rule.mode == "up_to" or self.is_complete(case, pub.rules.private):
                result += mine[: rule.x]
        return result

    def take(self, pub, name, start, end, certain):
        window = pub.rules.window
        if self.rules.retention is not None and pub.rules.private:
            self.retire(pub)
        chosen = self.chosen(pub, name, end)
        shown = self.shown(pub)
        old = {self.events[place].case for place in shown}
        new_cases = len({e.case for e in chosen} - old)
        tumbling = window.every is not None and window.time == "event"
        few = bool(window.min_new_cases) and tumbling and new_cases < window.min_new_cases
        skipped = few or (window.skip_if_unchanged and not chosen)
        if not skipped:
            inserted = sum(
                any(self.events[p].case == e.case and self.key(self.events[p]) > self.key(e) for p in shown)
                for e in chosen
            )
            pub.exposed.append([e.place for e in chosen])
            late = len({place for place in pub.dropped if self.events[place].case not in pub.retired})
            counts = {
                "new_cases": new_cases,
                "new_events": len(chosen),
                "pending": len(self.pending(pub)),
                "late": late,
            }
            self.cuts.append(
                (
                    pub.rules.name,
                    name,
                    (start, end),
                    *self.project(pub, end),
                    {**counts, "non_append_insertions": inserted},
                )
            )
            latest = max((e.time for e in self.events), default=-(1 << 63))
            if pub.rules.private:
                latest = -(1 << 63) if self.now is None else self.now
            pub.bound = max(latest if end is None else end, -(1 << 63) if pub.bound is None else pub.bound)
            pub.cuts, pub.first_done = pub.cuts + 1, True
        pub.since, pub.completions, pub.waiting = len(self.events), 0, None
        pub.last_cut = self.now if self.now is not None else pub.last_cut
        if name == "every":
            self.next_window(pub)
        if name == "first" and window.first.until is not None:
            pub.first_done = True
        if name == "first" and window.every is not None and (not skipped or pub.first_done):
            last = end - 1 if end is not None else max(e.time for e in self.events)
            base = last if tumbling or self.now is None else self.now
            pub.window_end = self.window_of(pub, base)
        if window.only_events_per_case and self.pending(pub):
            pub.waiting = self.now

    @staticmethod
    def key(event):
        return event.time, event.source, event.place

    def project(self, pub, end):
        shown = sorted((self.events[p] for p in self.shown(pub)), key=self.key)
        waiting = {e.case for e in self.pending(pub) if end is None or e.time < end}
        traces, complete = {}, set()
        for event in shown:
            traces.setdefault(event.case, []).append((event.activity, event.time))
        for case in traces:
            final = [e for e in shown if e.case == case][-1]
            ended = final.end or self.has_all(e for e in shown if e.case == case)
            if end is None:
                done = ended or self.silent(case, pub.rules.private)
            else:
                done = ended or (self.rules.inactivity is not None and final.time + self.rules.inactivity <= end)
            if done and case not in waiting:
                complete.add(case)
        return {case: tuple(events) for case, events in traces.items()}, complete
