"""Differentially private log release (paper: differentially-private-release-2023) and its auditor."""
