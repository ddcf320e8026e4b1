"""Differentially private release of variants by this program and by others, on public logs."""
