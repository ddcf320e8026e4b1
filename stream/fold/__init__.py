"""The parts of the fold, in the order in which an event meets them.

`intake` codes rows into the state (`cases`: growing columns); `rows` and `stride` decide how many may be taken at once;
`clocks` tell the time; `completion` knows when a case is over; `publications` count for each stream of releases;
`triggers` say when one is due; `retention` lets cases go; `cutting` makes the cut; `exposure` says what it shows;
`snapshot` writes the whole down. `stream.fold.fold` is the door: it makes the parts and owns them.
"""
