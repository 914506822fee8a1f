"""`python -m myna` is the command `myna`."""

from myna.cli import main

if __name__ == "__main__":
    main()
