"""Temporal privacy leakage and budgets that bound it (paper: temporal-privacy-leakage-2022)."""
