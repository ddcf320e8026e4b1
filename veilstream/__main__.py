"""Start the command line: `veilstream`, or `python -m veilstream`."""

from __future__ import annotations

from stream.commands import main

if __name__ == "__main__":
    main()
