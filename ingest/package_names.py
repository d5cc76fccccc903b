"""Names of packages as their registries compare them, and package URLs."""

import re
from functools import lru_cache

_TYPES = {"PyPI": "pypi", "npm": "npm", "crates.io": "cargo", "Go": "golang", "RubyGems": "gem", "Maven": "maven"}
ECOSYSTEMS = tuple(_TYPES)  # as OSV spells them
_SEPARATORS = re.compile(r"[-_.]+")


@lru_cache(maxsize=4096)
def normalised(ecosystem: str, name: str) -> str:
    """The name under which the registry files it: two spellings of one package give the same.

    PyPI: PEP 503. crates.io takes - and _ for the same. The others keep what is written: old npm names have capitals.
    """
    name = name.strip()
    if ecosystem == "PyPI":
        return _SEPARATORS.sub("-", name).lower()
    if ecosystem == "crates.io":
        return name.replace("_", "-").lower()
    return name


def package_url(ecosystem: str, name: str, version: str | None = None) -> str:
    """The package URL: pkg:npm/%40scope/name@1.0.0.

    Raises ValueError for an ecosystem outside ECOSYSTEMS and for a name that is none.
    """
    from packageurl import PackageURL  # 11 ms, and needed by few callers

    if ecosystem not in _TYPES:
        raise ValueError(f"no ecosystem that package URLs are made for here: {ecosystem!r}")
    namespace, _, last = name.rpartition(":" if ecosystem == "Maven" else "/")
    return PackageURL(_TYPES[ecosystem], namespace or None, last, version).to_string()
