"""The parts of the fold, in the order in which an event meets them.

`fold` takes the records and owns the parts; `state` has events and cases in growing columns, and codes rows into them;
`completion` computes when a case is over and removes cases after their retention; `triggers` keep the clocks, count for
each stream of releases, and decide when a release is due (`window`: the configuration of that); `cutting` makes the
cut; `exposure` selects what it exposes; `snapshot` turns the state, and what changed in it, into bytes.
"""
