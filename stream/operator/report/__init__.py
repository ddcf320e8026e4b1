"""The report and the statement: pages on the releases of an output folder."""
