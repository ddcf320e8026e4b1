"""The parts of the fold, in the order in which an event meets them.

`fold` takes the records and owns the parts; `state` has events and cases in growing columns, and codes rows into them;
`completion` computes when a case is complete and removes cases after their retention; `triggers` keep the clocks, count
for each publication, and decide when a release is due (configured by `window`); `cutting` makes the cut; `exposure`
selects the events that it exposes; `snapshot` turns the state and its changes into bytes.
"""
