"""The edges: log files in and out, Kafka, and the place where releases lie."""

from connectors.logs import read_log, write_log

__all__ = ["read_log", "write_log"]
