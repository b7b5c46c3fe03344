"""`python -m cophenet`: the command line."""

from cophenet.cli import main

if __name__ == "__main__":
    main()
