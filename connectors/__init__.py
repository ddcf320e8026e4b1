"""Input and output: log files, Kafka, and the store of releases."""

from connectors.logs import read_log, write_log

__all__ = ["read_log", "write_log"]
