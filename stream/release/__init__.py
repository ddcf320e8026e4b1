"""The life of a release: build -> audit -> gate -> seal -> publish.

`contract` defines mechanism and audit; `mechanisms/` and `audits/` hold one file a kind; `gate` decides;
`ledger` remembers; `pipeline` walks a cut through all of it in the order that survives a crash.
"""
