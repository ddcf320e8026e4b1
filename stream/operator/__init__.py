"""Work of an operator while nothing runs: backup, migration, erasure without the daemon, reading the history."""
