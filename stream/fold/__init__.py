"""The parts of the fold, in the order in which an event meets them.

`intake` codes rows into the state (`cases`: growing columns); `rows` and `stride` decide how many may be taken at once;
`completion` knows when a case is over; `triggers` when a publication is due; `cutting` makes the cut; `exposure` says
what it shows; `snapshot` writes the whole down. `stream.fold.fold` is the door.
"""
