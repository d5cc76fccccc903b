"""Reads the project's own sources for tests: the names of the environment, imports, strings."""

import ast
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
SETTINGS = PROJECT / "trustsite" / "settings.py"


def environment_names(settings: Path = SETTINGS) -> set[str]:
    """Every name that settings.py reads from the environment: the first argument of `env.…(…)` and `_place(…)`."""
    names = set()
    for call in ast.walk(ast.parse(settings.read_text())):
        if isinstance(call, ast.Call) and _reads_environment(call.func) and call.args:
            name = call.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                names.add(name.value)
    return names


def _reads_environment(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return isinstance(function.value, ast.Name) and function.value.id == "env"
    return isinstance(function, ast.Name) and function.id == "_place"
