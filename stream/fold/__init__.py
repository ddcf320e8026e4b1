"""The parts of the fold, in the order in which an event meets them.

`intake` codes rows into the state (`cases`: growing columns); `rows` decides how many rows may be taken at once;
`clocks` keep the time; `completion` knows when a case is over and removes cases after their retention; `publications`
count for each stream of releases; `triggers` decide when a release is due; `cutting` makes the cut; `exposure` selects
what it exposes; `snapshot` turns the state into bytes. `stream.fold.fold` makes the parts and owns them.
"""
