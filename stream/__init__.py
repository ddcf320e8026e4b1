"""The running program: fold, windows, release life, commands."""
