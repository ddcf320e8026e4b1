"""The console: an output folder in a browser, and the decisions on its held releases."""
