"""The programs that the briefing's tests need: espeak-ng, which speaks, and pocketsphinx, which hears."""

import os
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pytest


def _missing(reason: str) -> NoReturn:
    if os.environ.get("REQUIRE_SPEECH") == "1":
        pytest.fail(f"REQUIRE_SPEECH=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def espeak() -> Path:
    """The path of espeak-ng; without it this skips, REQUIRE_SPEECH=1 fails."""
    found = shutil.which("espeak-ng")
    if found is None:
        _missing("espeak-ng is not on the PATH")
    return Path(found)


@pytest.fixture(scope="session")
def hearing() -> Any:
    """pocketsphinx, whose package brings its model; without it this skips, REQUIRE_SPEECH=1 fails."""
    try:
        return import_module("pocketsphinx")
    except (ImportError, OSError) as problem:
        _missing(f"pocketsphinx cannot be loaded: {problem}")
