"""From the tags of an XES file, as they are written, to the columns of `xes.read`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from connectors.xes_stream import DEEPEST, attribute, check_shape, local

if TYPE_CHECKING:
    from connectors.xes_columns import Collector

_MOST_SEEN, _LONGEST_SEEN = 1 << 15, 256
"""Tags of event attributes that are known by their text: at most 16 MiB of Latin text (four times that where every
character needs four bytes), however long the log and however many different tags it has. The first ones stay."""


def taker(to: Collector, time_key: str) -> Callable[[Iterator[str]], None]:
    """The function that takes the tags of a chunk, one flat closure, since its loop runs for every tag of the file.

    An attribute of an event that has come before, with the same value, is known by its text (`seen`): what is left to
    do is one look-up and one append. Times rarely repeat and are cut out of the tag.
    """
    depth, row, base = 0, -1, 0  # depth: open elements; 3 within an event of a trace
    in_trace = in_event = False
    seen: dict[str, tuple[Callable[[int], None], int]] = {}
    time, timed, parse = to.time.append, to.timed.append, to.parse
    offset, suffixes = to.offset.append, to.suffixes
    prefix = f'<date key="{time_key}" value="'
    start = len(prefix)

    def moment(text: str) -> None:
        time(parse(text))
        timed(row)
        end = text[-6:]
        offset(suffixes.setdefault(end if end[:1] in "+-" else "", len(suffixes)))  # not the digits of a fraction

    def attribute_of_event(written: str) -> None:
        tag, pair = attribute(written)
        if pair is None:
            return
        key, text = pair
        if key == time_key:
            moment(text)
            return
        column = to.event_column(tag, key)
        code = column.index[text]
        column.append(base + code)
        if len(written) <= _LONGEST_SEEN and len(seen) < _MOST_SEEN and written.endswith("/>"):
            seen[written] = column.append, code

    def opened(written: str) -> None:
        nonlocal row, base, in_trace, in_event
        at = depth + 1
        if at == 4:
            if in_event:
                attribute_of_event(written)
        elif at == 3:
            tag, pair = attribute(written)
            in_event = in_trace and local(tag) == "event"
            if in_event:
                row += 1
                base = row << 32
                to.events = row + 1
            elif in_trace:
                to.case_attribute(tag, pair)
        elif at == 2:
            in_trace, in_event = local(attribute(written)[0]) == "trace", False
            if in_trace:
                to.starts.append(row + 1)
        elif at == 1 or at > DEEPEST:
            check_shape(attribute(written)[0], at)

    def take(chunk: Iterator[str]) -> None:
        nonlocal depth, row, base, in_event
        for written in chunk:
            if depth == 3 and in_event:
                known = seen.get(written)
                if known is not None:
                    append, code = known
                    append(base + code)
                    continue
                if written == "</event>":
                    depth = 2
                    continue
                if written.startswith(prefix) and written.endswith('"/>'):
                    text = written[start:-3]
                    if '"' not in text and "&" not in text and text.isprintable():
                        moment(text)
                        continue
            elif written == "<event>" and depth == 2 and in_trace:
                row += 1
                base = row << 32
                to.events = row + 1
                in_event, depth = True, 3
                continue
            if written.startswith("</"):
                depth -= 1
            elif written.startswith("<") and written[1] not in "!?":
                opened(written)
                depth += not written.endswith("/>")

    return take
