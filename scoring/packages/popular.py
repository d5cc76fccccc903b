"""Widely known names by ecosystem: a list of our own (known/*.txt), and what the operator adds."""

from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path

from ingest.package_names import ECOSYSTEMS, normalised
from scoring.packages.likeness import Known

FOLDER = Path(__file__).with_name("known")  # one file an ecosystem, names between white space, # begins a comment


@cache
def curated(ecosystem: str) -> frozenset[str]:
    """The names of our own list, as the registry files them; empty for an ecosystem without one."""
    file = FOLDER / f"{ecosystem.lower()}.txt"
    if ecosystem not in ECOSYSTEMS or not file.is_file():
        return frozenset()
    lines = (line.partition("#")[0] for line in file.read_text().splitlines())
    return frozenset(normalised(ecosystem, name) for line in lines for name in line.split())


@lru_cache(maxsize=32)
def _known(ecosystem: str, more: frozenset[str]) -> Known:
    return Known(curated(ecosystem) | {normalised(ecosystem, name) for name in more})


def known_names(ecosystem: str, popular: Mapping[str, frozenset[str]]) -> Known:
    """What is known of an ecosystem: our list and `popular`."""
    return _known(ecosystem, popular.get(ecosystem, frozenset()))
