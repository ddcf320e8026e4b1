"""The running program's parts around Faust: applications, deltas, ledger on a topic, checkpoints, health."""
