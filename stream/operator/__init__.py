"""What an operator does while nothing runs: backup, migration, erasure without the daemon, reading the history."""
