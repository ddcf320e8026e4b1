"""Mechanisms of the group-based kind: TLKC-privacy, its baselines, cohorts."""
