"""Compares Sunstead's own pinned packages with imported advisories."""

from dataclasses import dataclass

from ingest.store.transaction import Rows
from scoring.packages.entry import Package
from scoring.packages.python import parse_requirement
from scoring.scanners.dependencies import find_advisories
from scoring.scanners.submission import Advisory

ECOSYSTEM = "PyPI"
COUNT_ADVISORIES = "select count(distinct advisory_id) from advisory_ranges where ecosystem = ?"


class PinProblem(ValueError):
    """A line that pins no version; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class UnsafePackage:
    """A pinned package and the advisories on its version, the gravest first."""

    package: Package
    advisories: tuple[Advisory, ...]


def read_pins(text: str) -> tuple[Package, ...]:
    """Read the packages of a file by `uv pip compile`. Raises PinProblem for a line without one version."""
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return tuple(_pin(line) for line in lines if line)


def _pin(line: str) -> Package:
    requirement = parse_requirement(line)
    if requirement is None or requirement.allowed.version is None:
        raise PinProblem(f"{line[:200]!r} pins no package to one version.")
    return Package(ECOSYSTEM, requirement.name, requirement.allowed.version)


def count_advisories(rows: Rows) -> int:
    return int(rows.value(COUNT_ADVISORIES, [ECOSYSTEM]))


def unsafe_pins(rows: Rows, packages: tuple[Package, ...]) -> tuple[UnsafePackage, ...]:
    """Return the packages with an advisory on their version, in the given order."""
    advisories_by_package = find_advisories(rows, packages)
    return tuple(
        UnsafePackage(package, advisories)
        for package, advisories in zip(packages, advisories_by_package, strict=True)
        if advisories
    )
