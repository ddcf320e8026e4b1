"""Configuration of a daemon whose cases have one sensitive attribute, `diag`."""

from __future__ import annotations

DAY = 20_000 * 86_400 * 10**9
"""A moment (ns) in 2024."""


def daemon(K: int = 2, C: float = 0.9, window: str = "manual = true") -> str:
    """Return the text of a configuration with one publication, `p`."""
    return f"""
[process]
name = "clinic"
sensitive = ["diag"]
[[publication]]
name = "p"
window = {{ {window} }}
mechanism = {{ kind = "tlkc", K = {K}, L = 1, C = {C} }}
"""
