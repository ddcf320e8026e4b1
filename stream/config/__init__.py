"""The configuration: its models, where values come from, what is wrong with them, and the generated reference."""
