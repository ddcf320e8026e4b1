"""`python -m stream.commands`: the same as `veilstream`."""

from stream.commands import main

if __name__ == "__main__":
    main()
