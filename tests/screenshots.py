"""Pictures of every page and state in light and dark, on a desktop, a tablet and a phone: `make screenshots`.

They lie in the folder that SCREENSHOTS names, below LOG_DIR by default: one file for each page, state and look. The
site behind them is that of the browser tests: drawn rows in every lane, a real store for what people did, the one of
hostile texts, a served demo and replay for the life of a fast lane, and the first day of an owner who acts in their own
name, where the peers of the tests are. Needs Chromium.
"""

import os
import sys
from pathlib import Path

import pytest

TAKEN_IN = (
    "tests/triage/pictures/pictures.py",
    "tests/triage/pictures/lane_pictures.py",
    "tests/triage/overlay/pictures.py",
    "tests/triage/morning/test_own_name_browser.py",
)


def main() -> int:
    """Take them all; the exit status of pytest."""
    target = Path(os.environ["SCREENSHOTS"]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("*.png"):
        old.unlink()
    os.environ["SCREENSHOTS"] = str(target)
    status = pytest.main(["-q", *TAKEN_IN])
    print(f"{len(list(target.glob('*.png')))} pictures in {target}", file=sys.stderr)  # noqa: T201
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
