"""A log file through the whole program without a broker: replay, compare, advise."""
