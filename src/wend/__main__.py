"""`python -m wend`: the same as the command `wend`."""

import sys

from wend._tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
