"""`python -m loadstone`."""

import sys

from loadstone.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
