"""The pure core: event logs, mechanisms, attacks and measures. No Kafka, no files, no clock, no global randomness."""
