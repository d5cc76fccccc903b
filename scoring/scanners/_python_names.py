"""Python source with each name replaced by its import or assignment, so that rules see through one step of it.

`from os import system as run; line = "tar " + name; run(line)` becomes `os.system("tar " + name)`. Rows keep their
places, and only code near added lines is rewritten. Pure and bounded.
"""

import ast
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from scoring.diff.budget import spend
from scoring.scanners._python_folding import dotted, dotted_name, folded, is_fixed, parsed, substituted
from scoring.scanners.whole_files import NewSide

if TYPE_CHECKING:
    from ast_grep_py import SgNode

SOURCE_CHARACTERS = 500_000  # of one text; a longer one is read as written
EXPRESSION_CHARACTERS = 2_000  # of one expression that is rewritten
VALUE_CHARACTERS = 400  # of a value that is filled in
VALUE_ROWS = 60  # from which a value is taken
FILLED_CHARACTERS = 4_000  # filled in for the names of one statement, or of one value before it is folded
GROWTH = 2  # times the length of the source: filling in and reading 1,000 characters takes 2 ms
ALIAS_CHARACTERS = 40  # of a dotted name, which is filled in regardless of the source's growth
NEAR = 20  # rows around an added one that are rewritten
STEPS = 6  # chained names that are followed
# Modules that rules name. Imports from other modules keep their own names, without an alias.
_MODULES = """
    os subprocess commands pty pickle cPickle _pickle cloudpickle dill marshal shelve joblib jsonpickle yaml ruamel
    torch numpy pandas requests httpx urllib urllib2 urllib3 aiohttp http socket ssl smtplib ftplib telnetlib paramiko
    asyncssh ftputil asyncio hashlib hmac random secrets crypt Crypto Cryptodome cryptography jwt jose jinja2 flask
    importlib builtins code codeop types ctypes tempfile shutil tarfile zipfile base64 binascii zlib bz2 lzma codecs
    functools operator sys runpy platform getpass pathlib io logging xml lxml sqlite3 psycopg2 psycopg sqlalchemy
"""
MODULES = frozenset(_MODULES.split())
_UNITS = """
    expression_statement return_statement if_statement elif_clause while_statement with_item for_statement
    raise_statement assert_statement decorator default_parameter typed_default_parameter
    import_statement import_from_statement function_definition
"""
_FOLDABLE = re.compile(
    r"getattr|setattr|import_module|__import__|__dict__|globals\(|vars\(|locals\(|builtins|sys\.modules|partial|\[::|"
    r"methodcaller|attrgetter|\.join\(|chr\(|reversed\(|\*\*|[\"']\s*(\+|%|\.)|[\"'] [\"']|\+\s*[\"']|"
    r"b64decode|fromhex|rot13|lambda:"
)
_WORD = re.compile(r"\w+")
_SECRET = re.compile(r"(?i)passw|secret|token|credential|api_?key|private")


@dataclass(frozen=True, slots=True)
class Expanded:
    """A text with as many rows as before. `sources`: the other rows from which each row took a value."""

    text: str
    sources: dict[int, set[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Span:
    """A piece of the source: offsets, and the first and last row."""

    start: int
    end: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Value:
    """A value assigned to a name. `tree` is None where it cannot be followed, `added` True for `+=`."""

    name: str
    span: _Span
    scope: int
    tree: ast.expr | None
    added: bool = False

    @property
    def is_changing(self) -> bool:
        """Return whether the value is not a literal."""
        return self.tree is None or not is_fixed(self.tree)


class _Values:
    """The values of one name in one function, in the order of the source."""

    def __init__(self, values: Iterable[_Value]) -> None:
        self._all = sorted(values, key=lambda assigned: assigned.span.end)
        self._changing = [assigned for assigned in self._all if assigned.is_changing]
        fixed = (assigned.tree.value for assigned in self._all if isinstance(assigned.tree, ast.Constant))
        self._is_switch = len({value for value in fixed if isinstance(value, bool)}) > 1

    def last(self, offset: int) -> _Value | None:
        """Return the last value before an offset; None where both True and False are assigned, which settles nothing.

        A value that is not fixed wins over a fixed one: a rule must not treat a name as fixed that another line sets.
        """
        if self._is_switch:
            return None
        return _last(self._changing, offset) or _last(self._all, offset)


class _TooMuch(ValueError):
    """More would be filled in than is allowed."""


class _Filled(NamedTuple):
    """The expression to write for a name, None where the name stays, and the rows that it comes from."""

    tree: ast.expr | None
    rows: set[int]
    characters: int


def expand_python(side: NewSide, root: "SgNode") -> Expanded:
    """Return the text of a new side with names filled in, as `root` parsed it; unchanged where it is too long."""
    if len(side.text) > SOURCE_CHARACTERS:
        return Expanded(side.text)
    return _Source(side, root).expanded()


def focused(text: str, root: "SgNode", rows: set[int]) -> str:
    """Return the text with top-level statements blanked that are farther than NEAR from all of these rows."""
    near = {near for row in rows for near in range(row - NEAR, row + NEAR + 1)}
    kept_rows: set[int] = set()
    for node in root.children():
        reach = node.range()
        reached = range(reach.start.line, reach.end.line + 1)
        if not near.isdisjoint(reached):
            kept_rows.update(reached)
    return "\n".join(line if row in kept_rows else "" for row, line in enumerate(text.split("\n")))


class _Source:
    """One text: its functions, imports, values, and the expressions that may be rewritten."""

    def __init__(self, side: NewSide, root: "SgNode") -> None:
        self._text = side.text
        self._rows = {row for row, line in enumerate(side.lines) if line is not None and line.mark == "+"}
        self._imports: dict[str, tuple[str, int]] = {}  # name: its full name, and the row
        self._values: dict[str, list[_Value]] = {}
        self._units: list[tuple[str, SgNode]] = []
        self._functions: list[tuple[_Span, SgNode]] = []
        self._parameters: dict[int, frozenset[str]] = {}
        self._used: set[int] = set()  # rows that the current expression used
        self._filled: dict[tuple[str, int], _Filled] = {}
        self._room = 0  # characters that may still be filled in for the current expression
        self._left = GROWTH * len(self._text) + FILLED_CHARACTERS  # and for the whole text
        self._sort(root)

    def expanded(self) -> Expanded:
        """Rewrite the expressions near added rows."""
        edits: list[tuple[_Span, str]] = []
        sources: dict[int, set[int]] = {}
        for node, is_last in self._expressions():
            spend()
            span = _span(node)
            if edits and span.start < edits[-1][0].end:
                continue
            spend()
            left = self._left
            self._used, self._room = set(), FILLED_CHARACTERS
            text = self._written(node.text(), span)
            if text is None:
                self._left = left
                continue
            edits.append((span, _over_rows(text, span.last - span.first, is_last)))
            other_rows = {*self._used, *range(span.first, span.last + 1)} - {span.first}
            if other_rows:
                sources.setdefault(span.first, set()).update(other_rows)
        pieces, position = [], 0
        for span, text in edits:
            pieces += [self._text[position : span.start], text]
            position = span.end
        return Expanded("".join([*pieces, self._text[position:]]), sources)

    def _written(self, text: str, span: _Span) -> str | None:
        if len(text) > EXPRESSION_CHARACTERS:
            return None
        words = set(_WORD.findall(text))
        if not (words & self._known or _FOLDABLE.search(text)):
            return None
        scope = self._scope(span.start)
        return folded(text, lambda name: self._stands_for(name, span.start, scope, STEPS))

    @cached_property
    def _known(self) -> set[str]:
        return {*self._imports, *(name.rpartition(".")[2] for name in self._values)}

    def _expressions(self) -> Iterator[tuple["SgNode", bool]]:
        """Yield expressions near added rows, in order, and whether each ends its statement."""
        near = {near for row in self._rows for near in range(row - NEAR, row + NEAR + 1)}
        changed = {
            name for name, values in self._values.items() if any(self._is_added(assigned.span) for assigned in values)
        }
        changed |= {name for name, (_, row) in self._imports.items() if row in self._rows}
        for kind, unit in self._units:
            spend()
            for node, is_last in _written_parts(kind, unit):
                reach = node.range()
                is_near = not near.isdisjoint(range(reach.start.line, reach.end.line + 1))
                if is_near or (changed and not changed.isdisjoint(_WORD.findall(node.text()))):
                    yield node, is_last

    def _is_added(self, span: _Span) -> bool:
        return not self._rows.isdisjoint(range(span.first, span.last + 1))

    def _sort(self, root: "SgNode") -> None:
        kinds: Any = {"rule": {"any": [{"kind": kind} for kind in _UNITS.split()]}}
        for node in root.find_all(kinds):
            spend()
            kind = node.kind()
            if kind.startswith("import"):
                self._add_imports(node)
            elif kind == "function_definition":
                self._functions.append((_span(node), node))
            else:
                self._units.append((kind, node))
        for kind, node in self._units:
            spend()
            self._add_values(kind, node)

    def _add_imports(self, node: "SgNode") -> None:
        try:
            (statement,) = ast.parse(" ".join(node.text().split("\n"))).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        row = node.range().start.line
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            return
        module = statement.module or "" if isinstance(statement, ast.ImportFrom) and not statement.level else ""
        for alias in statement.names:
            if module.partition(".")[0] in MODULES:
                self._imports[alias.asname or alias.name] = f"{module}.{alias.name}", row
            elif alias.asname and alias.asname != alias.name:
                self._imports[alias.asname] = alias.name, row

    def _add_values(self, kind: str, node: "SgNode") -> None:
        if kind in ("default_parameter", "typed_default_parameter"):
            name, value = node.field("name"), node.field("value")
            if name is not None and value is not None and value.kind() in ("identifier", "attribute"):
                self._add(name.text(), value, self._scope(value.range().end.index + 1), is_added=False)
            return
        if kind == "with_item":
            return
        child = next(iter(node.children()), None)
        if kind != "expression_statement" or child is None:
            return
        if child.kind() in ("assignment", "augmented_assignment"):
            target, value = child.field("left"), child.field("right")
            while value is not None and value.kind() == "assignment":  # a = b = value
                value = value.field("right")
            if target is not None and value is not None:
                self._add(target.text(), value, self._scope(value.range().start.index), child.kind() != "assignment")

    def _add(self, target: str, value: "SgNode", scope: int, is_added: bool) -> None:
        span = _span(value)
        tree = None if span.end - span.start > VALUE_CHARACTERS else parsed(value.text())
        names = [name.strip() for name in target.split(",")]
        trees: list[ast.expr | None] = [tree]
        if len(names) > 1:
            trees = [*tree.elts] if isinstance(tree, ast.Tuple | ast.List) else []
            trees = trees if len(trees) == len(names) else [None] * len(names)
        trees = [
            None if isinstance(value_tree, ast.List) and not value_tree.elts else value_tree for value_tree in trees
        ]  # filled later
        for name, value_tree in zip(names, trees, strict=True):
            if re.fullmatch(r"\w+|self\.\w+", name):
                scope_of_name = -1 if "." in name else scope
                self._values.setdefault(name, []).append(_Value(name, span, scope_of_name, value_tree, is_added))

    @cached_property
    def _starts(self) -> list[int]:
        return [span.start for span, _ in self._functions]

    @cached_property
    def _outer(self) -> list[int]:
        """Return the number of the function around each function, -1 for none."""
        outer: list[int] = []
        for number, (span, _) in enumerate(self._functions):
            outer.append(self._around(number - 1, span.start, outer))
        return outer

    def _around(self, number: int, offset: int, outer: list[int]) -> int:
        while number >= 0 and self._functions[number][0].end <= offset:
            number = outer[number]
        return number

    def _scope(self, offset: int) -> int:
        """Return the number of the innermost function around an offset, -1 for none."""
        return self._around(bisect_right(self._starts, offset) - 1, offset, self._outer)

    @cached_property
    def _given(self) -> dict[tuple[str, int], _Values]:
        """Return the values by name and function."""
        grouped: dict[tuple[str, int], list[_Value]] = {}
        for name, values in self._values.items():
            for assigned in values:
                grouped.setdefault((name, assigned.scope), []).append(assigned)
        return {key: _Values(values) for key, values in grouped.items()}

    def _shadows(self, scope: int, name: str) -> bool:
        """Return whether a function has a parameter of this name."""
        if scope not in self._parameters:
            parameters = self._functions[scope][1].field("parameters")
            self._parameters[scope] = frozenset(_argument_names(parameters.text()) if parameters else ())
        return name in self._parameters[scope]

    def _stands_for(self, name: str, offset: int, scope: int, steps: int) -> ast.expr | None:
        """Return the expression for a name at an offset, None where the name stays."""
        if steps == 0:
            return None
        value = self._chosen(name, offset, scope)
        if value is None:
            return self._imported(name, scope)
        key = value.name, value.span.start
        if key not in self._filled:
            saved = self._used, self._room, self._left
            self._used = set(range(value.span.first, value.span.last + 1))
            self._room = self._left = FILLED_CHARACTERS
            tree, characters = self._followed(value, steps)
            self._filled[key] = _Filled(tree if len(self._used) <= VALUE_ROWS else None, self._used, characters)
            self._used, self._room, self._left = saved
        filled = self._filled[key]
        if filled.tree is None:
            return None
        is_name = bool(dotted_name(filled.tree))
        if _SECRET.search(name) and not is_name and not is_fixed(filled.tree):
            return None  # such a name tells more than its value
        self._take(filled.characters, is_name)
        self._used |= filled.rows
        return filled.tree

    def _take(self, characters: int, is_name: bool) -> None:
        """Count the filled-in characters.

        Raise _TooMuch where there are too many for one expression or for the source.
        """
        counted = 0 if is_name and characters <= ALIAS_CHARACTERS else characters
        if characters > self._room or counted > self._left:
            raise _TooMuch
        self._room -= characters
        self._left -= counted

    def _imported(self, name: str, scope: int) -> ast.expr | None:
        if name not in self._imports or (scope >= 0 and self._shadows(scope, name)):
            return None
        full_name, row = self._imports[name]
        self._used.add(row)
        if full_name == name:
            return None
        self._take(len(full_name), is_name=True)
        return dotted(full_name)

    def _chosen(self, name: str, offset: int, scope: int) -> _Value | None:
        """Return the last value before an offset in the same function, else the module's last value."""
        if name not in self._values:
            return None
        if scope >= 0 and "." not in name:
            own = self._given.get((name, scope))
            if own is not None:
                return own.last(offset)
            if self._shadows(scope, name):
                return None
        shared = self._given.get((name, -1))
        return shared.last(len(self._text) if scope >= 0 else offset) if shared else None

    def _followed(self, value: _Value, steps: int) -> tuple[ast.expr | None, int]:
        """Return a value with its own names filled in, and its length; `+=` adds to the previous value."""
        tree = _copied(value.tree)
        if tree is None:
            return None, 0
        offset, scope = value.span.start, value.scope

        def stands_for(name: str) -> ast.expr | None:
            return self._stands_for(name, offset, scope, steps - 1) if name != value.name else None

        try:
            tree = substituted(tree, stands_for)
            if value.added:
                previous = self._stands_for(value.name, offset, scope, steps - 1)
                tree = (
                    substituted(ast.BinOp(previous, ast.Add(), tree), lambda _: None) if previous is not None else tree
                )
            characters = len(ast.unparse(tree))
            return (tree if characters <= VALUE_CHARACTERS else None), characters
        except (RecursionError, ValueError, MemoryError):
            return None, 0


def _copied(tree: ast.expr | None) -> ast.expr | None:
    """Return a tree that may be changed; None where it is not an expression by itself, such as `*x`."""
    if tree is None or isinstance(tree, ast.Starred):
        return None
    try:
        return parsed(ast.unparse(tree))
    except (RecursionError, ValueError, MemoryError):
        return None


def _argument_names(parameters: str) -> list[str]:
    tree = parsed(f"lambda {_WITHOUT_TYPES.sub('', parameters[1:-1])}: 0")
    if not isinstance(tree, ast.Lambda):
        return _WORD.findall(parameters)
    arguments = tree.args
    arguments_in_order = (
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    )
    return [argument.arg for argument in arguments_in_order if argument is not None]


_WITHOUT_TYPES = re.compile(r":[^,=]*(?:\[[^\]]*\][^,=]*)*")


def _last(values: list[_Value], offset: int) -> _Value | None:
    """Return the last of the values, sorted by their ends, that ends before an offset."""
    count = bisect_right(values, offset, key=lambda assigned: assigned.span.end)
    return values[count - 1] if count else None


def _span(node: "SgNode") -> _Span:
    reach = node.range()
    return _Span(reach.start.index, reach.end.index, reach.start.line, reach.end.line)


def _written_parts(kind: str, node: "SgNode") -> list[tuple["SgNode", bool]]:
    """Return the expressions of a statement in order, each with whether the statement ends with it."""
    field = {"if_statement": "condition", "elif_clause": "condition", "while_statement": "condition"}.get(kind)
    if field or kind == "for_statement":
        condition = node.field(field or "right")
        return [(condition, False)] if condition is not None else []
    children = [child for child in node.children() if child.is_named()]
    if kind == "expression_statement" and children and children[0].kind() in ("assignment", "augmented_assignment"):
        target, value = children[0].field("left"), children[0].field("right")
        is_written = target is not None and target.kind() in ("attribute", "subscript")
        return [(part, part is value) for part in (target if is_written else None, value) if part is not None]
    if kind == "with_item" and children and children[0].kind() == "as_pattern":
        children = [child for child in children[0].children() if child.is_named()]
    if kind in ("expression_statement", "return_statement"):
        return [(children[0], True)] if children else []
    is_read = kind in ("with_item", "decorator", "raise_statement", "assert_statement")
    return [(children[0], False)] if children and is_read else []


def _over_rows(text: str, rows: int, is_last: bool) -> str:
    """Spread a text of one row over several, so that the text after it stays on its row."""
    if not rows:
        return text
    return text + "\n" * rows if is_last else "(" + "\n" * rows + text + ")"
