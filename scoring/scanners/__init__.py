"""Deterministic scanners, one a file: every module here has SCANNER (its id) and `scan(submission)`.

To add one, add a file. Modules with a leading underscore hold shared parts.
"""

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from scoring.scanners.submission import Submission
from scoring.types import Finding

Scan = Callable[[Submission], Iterator[Finding]]
SHARED = {"run", "submission", "whole_files"}  # not scanners, though other packages import them
FINDINGS_LIMIT = 200  # of one scanner on one change: more tell a person nothing more


@cache
def scanners() -> dict[str, Scan]:
    """Return every scanner by its id, sorted by id."""
    names = sorted(
        module.name
        for module in iter_modules(__path__)
        if module.name not in SHARED and not module.name.startswith("_")
    )
    modules = [import_module(f"{__name__}.{name}") for name in names]
    return {module.SCANNER: module.scan for module in sorted(modules, key=lambda module: module.SCANNER)}
