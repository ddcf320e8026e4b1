"""The parts of the fold, in the order in which an event meets them.

`intake` codes rows into the state (`cases`: growing columns); `rows` accepts them up to the next possible cut;
`completion` knows when a case is over and removes cases after their retention; `publications` count for each stream
of releases; `triggers` keep the clocks and decide when a release is due (`window`: what the configuration says);
`cutting` makes the cut; `exposure` selects what it exposes; `snapshot` turns the state, and what changed in it, into
bytes. `stream.fold.fold` makes the parts and owns them.
"""
