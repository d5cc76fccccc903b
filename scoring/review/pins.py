"""The packages that Sunstead itself is built from, by their pins, against imported advisories."""

from dataclasses import dataclass

from ingest.store.transaction import Rows
from scoring.packages.entry import Package
from scoring.packages.python import parse_requirement
from scoring.scanners.dependencies import find_advisories
from scoring.scanners.submission import Advisory

ECOSYSTEM = "PyPI"
KNOWN = "select count(distinct advisory_id) from advisory_ranges where ecosystem = ?"


class PinProblem(ValueError):
    """A line that pins nothing; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Unsafe:
    """A pinned package and the advisories that its version falls under, the gravest first."""

    package: Package
    advisories: tuple[Advisory, ...]


def read_pins(text: str) -> tuple[Package, ...]:
    """The packages of a requirements file as `uv pip compile` writes it; PinProblem for a line without one version."""
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return tuple(_pin(line) for line in lines if line)


def _pin(line: str) -> Package:
    requirement = parse_requirement(line)
    if requirement is None or requirement.allowed.version is None:
        raise PinProblem(f"{line[:200]!r} pins no package to one version.")
    return Package(ECOSYSTEM, requirement.name, requirement.allowed.version)


def known_advisories(rows: Rows) -> int:
    """Return how many advisories with ranges of versions on packages of Python were imported."""
    return int(rows.value(KNOWN, [ECOSYSTEM]))


def unsafe_pins(rows: Rows, packages: tuple[Package, ...]) -> tuple[Unsafe, ...]:
    """Those of the packages that an imported advisory speaks of, in their order."""
    advisories_by_package = find_advisories(rows, packages)
    return tuple(
        Unsafe(package, advisories)
        for package, advisories in zip(packages, advisories_by_package, strict=True)
        if advisories
    )
