"""The faults, by the part that they strike. Importing this package enters them into the catalogue."""

from tests.kafka.chaos.faults import incoming, ledger_copy, machine, network, processes, standing, topics

__all__ = ["incoming", "ledger_copy", "machine", "network", "processes", "standing", "topics"]
