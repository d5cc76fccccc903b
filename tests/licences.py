"""The licences of the packages that requirements/base.txt pins, as docs/licences.md lists them: `make licences`.

Read with pip-licenses from what is installed. A licence that is not in ALLOWED stops the list from being written.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping

from ingest.lookups.osv import normalised
from scoring.packages.entry import Package
from scoring.review.pins import read_pins
from tests.sources import PROJECT

PINS, LIST = PROJECT / "requirements" / "base.txt", PROJECT / "docs" / "licences.md"
PERMISSIVE = "asks for its notice to be kept, and nothing of what is built with it"
# Sunstead is under the MIT licence and is passed on as source: what is here may be used and passed on beside it.
ALLOWED: Mapping[str, str] = {
    "MIT": PERMISSIVE,
    "MIT-0": PERMISSIVE,
    "MIT-CMU": PERMISSIVE,
    "BSD": f"{PERMISSIVE}; its metadata does not say which of the BSD licences, all of which do that",
    "BSD-2-Clause": PERMISSIVE,
    "BSD-3-Clause": PERMISSIVE,
    "0BSD": "asks for nothing",
    "CC0-1.0": "asks for nothing",
    "ISC": PERMISSIVE,
    "Zlib": PERMISSIVE,
    "PSF-2.0": PERMISSIVE,
    "ZPL-2.1": PERMISSIVE,
    "Apache-2.0": f"{PERMISSIVE}; grants patents",
    "Apache-2.0 WITH LLVM-exception": f"{PERMISSIVE}; grants patents",
    "MPL-2.0": "asks that changes of its own files are passed on, and nothing of the code beside them",
}
# What older metadata calls them.
NAMES: Mapping[str, str] = {
    "MIT License": "MIT",
    "BSD License": "BSD",
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "Zope Public License": "ZPL-2.1",
}
# Whose metadata name none: read in the licence file that the package brings.
READ_BY_HAND: Mapping[str, str] = {"huey": "MIT"}
HEAD = """# Licences

Sunstead is under the [MIT licence](../LICENSE). It is passed on as source, without the packages that it is built from;
this is what `requirements/base.txt` has installed, made by `make licences`. Which licences may stand here, and why, is
said in `tests/licences.py`; a test compares the list with the pins.

| package | version | licence |
|---|---|---|
"""


class LicenceProblem(Exception):
    """A package that may not be built upon, or of which nothing is known; the message names it."""


def parts_of(expression: str) -> list[str]:
    """The licences that an expression names: all of them have to be allowed, whichever one may choose."""
    return [part.strip(" ()") for part in re.split(r"\s+(?:AND|OR)\s+|;", expression)]


def settled(name: str, told: str) -> str:
    """The licence of a package in the words of SPDX; LicenceProblem where one is not allowed or not known."""
    said = READ_BY_HAND.get(name, told)
    expression = " AND ".join(NAMES.get(part.strip(), part.strip()) for part in said.split(";"))
    if wrong := [part for part in parts_of(expression) if part not in ALLOWED]:
        raise LicenceProblem(f"{name} is under {wrong[0]!r}, which tests/licences.py does not allow.")
    return expression


def page(rows: Iterable[tuple[str, str, str]]) -> str:
    """docs/licences.md of these packages, versions and licences."""
    return HEAD + "".join(f"| {name} | {version} | {licence} |\n" for name, version, licence in rows)


def installed() -> dict[str, tuple[str, str]]:
    """Version and licence of every installed package by its normalised name, as pip-licenses reads them."""
    command = [sys.executable, "-m", "piplicenses", "--format=json", "--with-system", "--from=mixed"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return {normalised("PyPI", one["Name"]): (one["Version"], one["License"]) for one in found}


def main() -> int:
    """Write the page; 1 with a sentence where a pin is not installed or a licence is not allowed."""
    held = installed()
    try:
        rows = [(one.name, str(one.version), settled(one.name, held[one.name][1])) for one in _pins(held)]
    except LicenceProblem as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    LIST.write_text(page(rows))
    return 0


def _pins(held: Mapping[str, tuple[str, str]]) -> list[Package]:
    pins = list(read_pins(PINS.read_text()))
    for one in pins:
        if held.get(one.name, ("",))[0] != one.version:
            raise LicenceProblem(f"{one.name} {one.version} is not installed: run `make setup` first.")
    return pins


if __name__ == "__main__":
    sys.exit(main())
