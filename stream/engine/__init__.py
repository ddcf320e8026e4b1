"""Engines: where tables of variants are counted and plans applied. A plan is made in one process (models.variants)."""

from __future__ import annotations

from stream.engine.contract import KINDS, Engine
from stream.engine.opening import open_engine

__all__ = ["KINDS", "Engine", "open_engine"]
