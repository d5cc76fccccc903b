"""The size and shape of the code: `python -m tests.house` prints one row for each figure, with its limit.

A product module is any Python file of the four packages except migrations. Commands, scanners and `__init__.py` are
left out where a figure says so, since one file each is their form.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from statistics import median, quantiles

from tests.modules import PACKAGES, Module, modules
from tests.sources import PROJECT

SMALL = 60  # lines


def functions(module: Module) -> Iterator[int]:
    """The length in lines of each function of a module."""
    for node, _ in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            yield node.end_lineno - node.lineno + 1


def _is_one_of_many(path: str) -> bool:
    return PurePosixPath(path).name == "__init__.py" or "/commands/" in path or "/scanners/" in path


def _ninetieth(numbers: list[int]) -> float:
    return quantiles(numbers, n=10)[-1]


def figures() -> Iterator[tuple[str, str, str]]:
    """Name, value and limit of each figure."""
    product = [m for m in modules(PROJECT) if m.path.startswith(PACKAGES) and "/migrations/" not in m.path]
    lines = {module.path: module.text.count("\n") for module in product}
    sizes = [size for path, size in lines.items() if not path.endswith("__init__.py")]
    lengths = [length for module in product for length in functions(module)]
    folders = Counter(str(PurePosixPath(path).parent) for path in lines if not _is_one_of_many(path))
    fullest, flat = folders.most_common(1)[0]
    users = _users(product)
    tests = sum(path.read_text().count("\n") for path in (PROJECT / "tests").rglob("*.py"))
    yield "product modules", f"{len(product):,}", "430"
    yield "product lines", f"{sum(lines.values()):,}", "60,000"
    yield "lines of a module: median", f"{median(sizes):.0f}", "120 to 180"
    yield "lines of a module: 9 of 10 have at most", f"{_ninetieth(sizes):.0f}", "350"
    yield "lines of the longest module", f"{max(sizes):,}", "500"
    yield "lines of a function: median", f"{median(lengths):.0f}", "8 to 10"
    yield "lines of a function: 9 of 10 have at most", f"{_ninetieth(lengths):.0f}", "30"
    yield f"modules under {SMALL} lines", f"{sum(_is_small(path, size) for path, size in lines.items())}", "30"
    yield f"modules flat in one folder ({fullest})", f"{flat}", "16"
    yield "modules that one other imports", f"{sum(number == 1 for number in users.values())}", ""
    yield "lines of tests", f"{tests:,}", "55,000"


def _is_small(path: str, size: int) -> bool:
    return size < SMALL and not _is_one_of_many(path)


def _users(product: list[Module]) -> Counter[str]:
    """How many modules import each module."""
    known = {module.path.removesuffix(".py").replace("/", "."): module.path for module in product}
    users: Counter[str] = Counter()
    for module in product:
        named = {name for name, _ in module.imports()} | {name.rpartition(".")[0] for name, _ in module.imports()}
        users.update(known[name] for name in named if name in known)
    return users


if __name__ == "__main__":
    for name, value, limit in figures():
        print(f"{name:55} {value:>8}   {limit}")  # noqa: T201
