"""The project's modules as tests of their imports read them."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

PACKAGES = ("ingest", "scoring", "triage", "trustsite")


@dataclass(frozen=True)
class Module:
    """One source file of the project."""

    path: str  # relative, with slashes
    text: str

    @cached_property
    def nodes(self) -> list[tuple[ast.AST, bool]]:
        """Every node, and whether it runs when the module is imported."""
        return list(_walk(ast.parse(self.text)))

    @property
    def package(self) -> str:
        """The package, or "trustsite" for manage.py: both start things."""
        first = PurePosixPath(self.path).parts[0]
        return first if first in PACKAGES else "trustsite"

    def imports(self) -> Iterator[tuple[str, bool]]:
        """Every imported dotted name (`from a import b` is a.b), and whether it runs when the module is imported."""
        for node, at_start in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((alias.name, at_start) for alias in node.names)
            if isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                yield from ((f"{base}.{alias.name}", at_start) for alias in node.names)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        folder = PurePosixPath(self.path).parts[: -node.level]
        return ".".join([*folder, *([node.module] if node.module else [])])


def _walk(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    left: list[tuple[ast.AST, bool]] = [(tree, True)]
    while left:
        node, at_start = left.pop()
        yield node, at_start
        runs_later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _is_for_types(node)
        left += ((child, at_start and not runs_later) for child in ast.iter_child_nodes(node))


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and dotted(node.test) == "TYPE_CHECKING"


def dotted(node: ast.AST) -> str:
    """`a.b.c` of a name or attribute, else ""."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def modules(project: Path) -> Iterator[Module]:
    """Every Python file of the packages, and manage.py."""
    files = [path for package in PACKAGES for path in sorted((project / package).rglob("*.py"))]
    for path in [*files, *project.glob("manage.py")]:
        yield Module(path.relative_to(project).as_posix(), path.read_text())
