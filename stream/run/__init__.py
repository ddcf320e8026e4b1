"""The running program around one fold: every publication's pipeline over one ledger."""
