"""Markup that Python puts together of fixed texts and escaped values only. Pure; without recursion."""

import ast
import re
from collections.abc import Iterator

from scoring.scanners._python_folding import dotted_name

Place = tuple[int, int]  # row from 1, and offset in it
_DECLARES = re.compile(r"(?:^|\.)(?:Markup|mark_safe)$")
# Escapers of HTML and its quotes, unlike `re.escape` and `xml.sax.saxutils.escape`.
_ESCAPES = re.compile(r"(?:(?:(?:markupsafe\.)?Markup|markupsafe|html|flask|jinja2)\.)?escape|conditional_escape")
# Fixed text behind which an escaped value is code all the same: in a script or a handler, or without quotes around it.
_CODE = re.compile(r"(?i)<(?:script|style)\b|\bon[a-z]{3,20}=|\bsrcdoc=|javascript:|=$")
_HOLE = re.compile(r"%\w|\{[^{}]*\}")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Besides assignments, what gives a value to a name.
BINDING = (ast.arg, ast.alias, ast.ExceptHandler, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BINDING += (ast.MatchAs, ast.MatchStar, ast.MatchMapping)


def escaped_markup(tree: ast.Module) -> set[Place]:
    """Return where calls declare a text to be safe HTML in which every value comes from an escaper.

    A name counts whose every value in its function is escaped, and is assigned no deeper than the call stands.
    """
    functions = (node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))
    places = set[Place]()
    for scope in (tree, *functions):
        calls = list(_declaring_calls(scope))
        names = _escaped_names(scope) if calls else {}
        places |= {(call.lineno, call.col_offset) for call, depth in calls if _is_escaped(call.args[0], names, depth)}
    return places


def bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node gives values to other than by an assignment."""
    if isinstance(node, BINDING):
        yield from filter(None, (getattr(node, field, None) for field in ("arg", "name", "asname", "rest")))


def _declaring_calls(scope: ast.AST) -> Iterator[tuple[ast.Call, int]]:
    """Yield the calls in a scope but not in functions within it, each with the offset of its statement."""
    nodes = [(child, 0) for child in ast.iter_child_nodes(scope)]
    while nodes:
        node, depth = nodes.pop()
        if isinstance(node, _FUNCTIONS):
            continue
        depth = node.col_offset if isinstance(node, ast.stmt) else depth
        if isinstance(node, ast.Call) and node.args and _DECLARES.search(dotted_name(node.func)):
            yield node, depth
        nodes += [(child, depth) for child in ast.iter_child_nodes(node)]


def _escaped_names(scope: ast.AST) -> dict[str, int]:
    """Return the names that get escaped values only, each with the largest offset of an assignment."""
    depths: dict[str, int] = {}
    others, seen = set[str](), set[ast.AST]()
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and isinstance(name := node.targets[0], ast.Name) and _escapes(node.value):
            depths[name.id] = max(depths.get(name.id, 0), node.col_offset)
            seen.add(name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node not in seen:
            others.add(node.id)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            others.update(node.names)
        others.update(bound_names(node))
    return {name: depth for name, depth in depths.items() if name not in others}


def _escapes(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords
    return is_call and _ESCAPES.fullmatch(dotted_name(node.func)) is not None


def _is_escaped(text: ast.expr, names: dict[str, int], depth: int) -> bool:
    """Return whether a text consists of fixed texts, outside of code, and escaped values."""
    parts: list[ast.AST] = [text]
    while parts:
        part = parts.pop()
        if isinstance(part, ast.Constant):
            if any(map(_CODE.search, _HOLE.split(str(part.value)))):
                return False
        elif isinstance(part, ast.Name):
            if names.get(part.id, depth + 1) > depth:
                return False
        elif not _escapes(part):
            inner = _parts(part)
            if not inner:
                return False
            parts += inner
    return True


def _parts(text: ast.AST) -> list[ast.expr]:
    """Return the parts of a text that is put together; none where it is another expression."""
    match text:
        case ast.JoinedStr(values):
            return values
        case ast.FormattedValue(value, _, None):
            return [value]
        case ast.BinOp(left, ast.Add() | ast.Mod(), right):
            return [left, right]
        case ast.Tuple(values):
            return values
        case ast.Call(ast.Attribute(ast.Constant() as fixed, "format"), values, []):
            return [fixed, *values]
    return []
