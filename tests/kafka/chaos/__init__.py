"""`make chaos`: random faults by a seeded schedule on a running daemon of two hosts, judged by an outsider."""
