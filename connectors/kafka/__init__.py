"""Kafka at the edges: security settings for both clients, topics, the schema of source events, producers.

The daemon itself runs on Faust (stream/daemon/ingest.py, stream/daemon/coordinator.py); what administers and writes the
ledger uses kafka-python.
"""

from __future__ import annotations

from connectors.kafka.security import Security
from connectors.kafka.source import Source

__all__ = ["Security", "Source"]
