"""The test kit, for our tests and for those of anybody who builds on veilstream.

`faults`: crashes and failing disks at named places; `killer`: a real process that is killed at a named boundary;
`verifier`: checks what a run left, from its output folders alone.
"""
