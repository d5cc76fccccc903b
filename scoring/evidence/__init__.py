"""Deterministic scanners, one a file: every module here has SCANNER (its id) and `scan(submission)`.

To add one, add a file. A module whose name begins with an underscore is what scanners share.
"""

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from scoring.content.finding import Finding
from scoring.content.submission import Submission

Scan = Callable[[Submission], Iterator[Finding]]
FINDINGS_LIMIT = 200  # of one scanner on one change: more tell a person nothing more


@cache
def scanners() -> dict[str, Scan]:
    """Return every scanner by its id, in the order of their file names."""
    names = sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
    modules = [import_module(f"{__name__}.{name}") for name in names]
    return {module.SCANNER: module.scan for module in modules}
