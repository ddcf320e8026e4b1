"""Content of an operator's folder: lock, key, ledger, checkpoints, variants, encryption at rest."""
