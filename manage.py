#!/usr/bin/env python3
"""The one command line of Sunstead."""

import gc
import sys


def main() -> None:
    """Run the command in `sys.argv`."""
    # Until the command begins: what is loaded never becomes garbage, and to walk it took a fifth of the CPU of a start.
    gc.disable()
    from trustsite.command_line import run

    run(sys.argv)


if __name__ == "__main__":
    main()
