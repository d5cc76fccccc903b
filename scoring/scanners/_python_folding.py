"""A Python expression with names filled in and fixed texts joined, so that its effect is visible. Pure.

`getattr(import_module("so"[::-1]), "sys" + "tem")(line)` becomes `os.system(line)`. Only fixed parts of the source are
evaluated, by a few operations on small constants; no code of a change is ever run.
"""

import ast
import base64
import binascii
import codecs
import re
from collections.abc import Callable, Iterable

TEXT_LENGTH = 1_000  # of a joined text
SETTLED = "x"  # replaces a number, a quoted word or one of several fixed texts in a text
_SETTLING = frozenset({"int", "float", "len", "quote"})
Fixed = str | bytes | int
Lookup = Callable[[str], ast.expr | None]

_WIDTH = re.compile(r"%[^%]*[0-9*]")  # could make a short text long
_IMPORTERS = frozenset({"__import__", "import_module", "importlib.import_module", "importlib.__import__"})
_SPACES = frozenset({"globals", "locals", "vars"})
_BUILT_IN = ("__builtins__", "builtins")
_METHODS = "lower upper strip lstrip rstrip title swapcase replace removeprefix removesuffix"
_TEXT_METHODS = frozenset(_METHODS.split())
_WRITTEN_OUT = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.unaryop, ast.expr_context)


def folded(text: str, lookup: Lookup) -> str | None:
    """Return the expression on one line with known parts evaluated.

    None where nothing is known, or it is not an expression.

    `lookup` returns the expression for a name, None where the name stays. A call of `setattr` becomes an assignment.
    """
    tree = parsed(text)
    if tree is None:
        return None
    folder = _Folder(lookup)
    try:
        new_tree = folder.visit(tree)
        return _unparsed(new_tree) if folder.has_changed or _setting(new_tree) else None
    except (RecursionError, ValueError, MemoryError):
        return None


def parsed(text: str) -> ast.expr | None:
    """Return the tree of an expression that may span several lines; None where it is not one."""
    try:
        return ast.parse(f"({text}\n)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def substituted(tree: ast.expr, lookup: Lookup) -> ast.expr:
    """Return the tree with names filled in and constants evaluated. Raises RecursionError where it is too deep."""
    return _Folder(lookup).visit(tree)


def dotted(name: str) -> ast.expr:
    """Return the tree of a dotted name."""
    first, *rest = name.split(".")
    tree: ast.expr = ast.Name(first, ast.Load())
    for attribute in rest:
        tree = ast.Attribute(tree, attribute, ast.Load())
    return tree


def dotted_name(tree: ast.AST) -> str:
    """Return the dotted name of a chain of attributes; empty for anything else."""
    attributes: list[str] = []
    while isinstance(tree, ast.Attribute):
        attributes.append(tree.attr)
        tree = tree.value
    return ".".join([tree.id, *reversed(attributes)]) if isinstance(tree, ast.Name) else ""


def is_fixed(tree: ast.AST) -> bool:
    """Return whether a value is a literal, such as a number, a text or a list of them."""
    for node in ast.walk(tree):  # without recursion, since 390 signs before a number are a value too
        if not isinstance(node, _WRITTEN_OUT) or (isinstance(node, ast.Dict) and None in node.keys):
            return False
    return True


def _unparsed(tree: ast.expr) -> str:
    setting = _setting(tree)
    return setting or ast.unparse(tree)


def _setting(tree: ast.expr) -> str | None:
    """Return a call of `setattr` with a fixed name as an assignment."""
    if (
        isinstance(tree, ast.Call)
        and dotted_name(tree.func) in ("setattr", "object.__setattr__")
        and len(tree.args) == 3
    ):
        target, name, value = tree.args
        if isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value.isidentifier():
            return f"{ast.unparse(target)}.{name.value} = {ast.unparse(value)}"
    return None


class _Folder(ast.NodeTransformer):
    """Folds from the inside out; every method returns the node unchanged where nothing is known."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._bound: list[frozenset[str]] = []
        self.has_changed = False

    def _made(self, tree: ast.expr) -> ast.expr:
        self.has_changed = True
        return tree

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or any(node.id in names for names in self._bound):
            return node
        value = self._lookup(node.id)
        return node if value is None else self._made(value)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            value = self._lookup(f"{node.value.id}.{node.attr}")
            if value is not None:
                return self._made(value)
        self.generic_visit(node)
        return self._made(ast.Name(node.attr, ast.Load())) if dotted_name(node.value) in _BUILT_IN else node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        arguments = node.args
        parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        return self._within(node, frozenset(argument.arg for argument in parameters))

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.expr:
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        return self._comprehension(node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> ast.expr:
        targets = (target_node for part in node.generators for target_node in ast.walk(part.target))
        return self._within(
            node, frozenset(target_node.id for target_node in targets if isinstance(target_node, ast.Name))
        )

    def _within(self, node: ast.expr, names: frozenset[str]) -> ast.expr:
        self._bound.append(names)
        self.generic_visit(node)
        self._bound.pop()
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        left, right = _settled(node.left), _settled(node.right)
        if isinstance(node.op, ast.Add) and left is not None and type(left) is type(right):
            return self._text(node, lambda: left + right)  # ty: ignore[unsupported-operator]
        if isinstance(node.op, ast.Mod) and isinstance(left, str):
            values = (
                [_settled(element) for element in node.right.elts] if isinstance(node.right, ast.Tuple) else [right]
            )
            if values is not None and None not in values:
                return self._text(node, lambda: left % tuple(values)) if not _WIDTH.search(left) else node
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        self.generic_visit(node)
        parts = [_part(value) for value in node.values]
        if None not in parts:
            return self._text(node, lambda: "".join(filter(None, parts)))
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        key = _fixed(node.slice)
        if isinstance(key, str):
            return self._member(node, key)
        text = _fixed(node.value)
        if isinstance(node.slice, ast.Slice) and isinstance(text, str | bytes):
            bounds = [_bound(bound) for bound in (node.slice.lower, node.slice.upper, node.slice.step)]
            if "?" not in bounds:
                return self._text(node, lambda: text[slice(*bounds)])  # ty: ignore[invalid-argument-type]
        if isinstance(key, int) and isinstance(node.value, ast.List | ast.Tuple) and not _is_starred(node.value.elts):
            parts = node.value.elts
            return self._made(parts[key]) if -len(parts) <= key < len(parts) else node
        return node

    def _member(self, node: ast.Subscript, key: str) -> ast.expr:
        """Return the member for a fixed key: an entry of a literal, a global, a module, an attribute."""
        if isinstance(node.value, ast.Dict):
            entries = [
                value
                for entry_key, value in zip(node.value.keys, node.value.values, strict=True)
                if _fixed(entry_key) == key
            ]
            return self._made(entries[-1]) if entries else node
        name = dotted_name(node.value)
        if not key.replace(".", "").isidentifier():
            return node
        if name in (*_BUILT_IN, "__builtins__.__dict__", "builtins.__dict__", "__dict__", "sys.modules"):
            return self._made(dotted(key))
        if isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__":
            return self._made(ast.Attribute(node.value.value, key, ast.Load()))
        if isinstance(node.value, ast.Call) and dotted_name(node.value.func) in _SPACES:
            space = node.value.args
            if _is_starred(space):
                return node
            return self._made(ast.Attribute(space[0], key, ast.Load()) if space else dotted(key))
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        self._spread(node)
        name = dotted_name(node.func)
        fixed = [_fixed(argument) for argument in node.args]
        first, second = [*fixed, None, None][:2]
        if name in _IMPORTERS and isinstance(first, str) and first.replace(".", "").isidentifier():
            return self._made(dotted(first))
        if name == "getattr" and isinstance(second, str) and second.isidentifier() and not _is_starred(node.args):
            owner = node.args[0]
            is_own = dotted_name(owner) in _BUILT_IN
            return self._made(dotted(second) if is_own else ast.Attribute(owner, second, ast.Load()))
        if isinstance(node.func, ast.Call):
            return self._prepared(node, node.func)
        if isinstance(node.func, ast.Lambda) and not node.func.args.args:
            return self._made(node.func.body)
        return self._converted(node, name, fixed)

    def _spread(self, node: ast.Call) -> None:
        """Replace `**{"shell": True}` by a keyword."""
        keywords_left: list[ast.keyword] = []
        for argument in node.keywords:
            table = argument.value
            if isinstance(table, ast.Call) and dotted_name(table.func) == "dict" and not table.args:
                pairs = [(keyword.arg, keyword.value) for keyword in table.keywords]
            else:
                pairs = [(_fixed(key), value) for key, value in _entries(table)]
            names = [name for name, _ in pairs if isinstance(name, str)]
            if (
                argument.arg is not None
                or not names
                or len(names) < len(pairs)
                or not all(map(str.isidentifier, names))
            ):
                keywords_left.append(argument)
                continue
            self.has_changed = True
            keywords_left += [ast.keyword(name, value) for name, (_, value) in zip(names, pairs, strict=True)]
        node.keywords = keywords_left

    def _prepared(self, node: ast.Call, maker: ast.Call) -> ast.expr:
        """Write out the call of the result of `partial`, `methodcaller` or `attrgetter`."""
        name = dotted_name(maker.func).rpartition(".")[2]
        if _is_starred(maker.args[:1]):
            return node
        if name == "partial" and maker.args:
            inner = ast.Call(maker.args[0], [*maker.args[1:], *node.args], [*maker.keywords, *node.keywords])
            return self._made(inner)
        member_name = _fixed(maker.args[0]) if maker.args else None
        if (
            isinstance(member_name, str)
            and member_name.isidentifier()
            and len(node.args) == 1
            and not _is_starred(node.args)
        ):
            member = ast.Attribute(node.args[0], member_name, ast.Load())
            if name == "attrgetter":
                return self._made(member)
            if name == "methodcaller":
                return self._made(ast.Call(member, maker.args[1:], maker.keywords))
        return node

    def _converted(self, node: ast.Call, name: str, fixed: list[Fixed | None]) -> ast.expr:
        """Evaluate a call that makes a text from fixed parts."""
        first = fixed[0] if fixed else None
        last = name.rpartition(".")[2]
        if isinstance(node.func, ast.Attribute):
            owner, last = _fixed(node.func.value), node.func.attr
            if isinstance(owner, str | bytes):
                return self._method(node, owner, last, fixed)
        if last == "chr" and isinstance(first, int) and 0 <= first < 0x110000:
            return self._text(node, lambda: chr(first))
        if last == "reversed" and isinstance(first, str):
            return self._text(node, lambda: first[::-1])
        if last == "bytes" and node.args and (numbers := _fixed_list(node.args[0])):
            return self._text(node, lambda: bytes(numbers))  # ty: ignore[invalid-argument-type]
        if last in ("b64decode", "urlsafe_b64decode") and isinstance(first, str | bytes):
            return self._text(node, lambda: base64.b64decode(first))
        if last in ("fromhex", "unhexlify") and isinstance(first, str | bytes):
            return self._text(node, lambda: binascii.unhexlify(first))
        if name == "codecs.decode" and isinstance(first, str) and fixed[1:] == ["rot13"]:
            return self._text(node, lambda: codecs.decode(first, "rot13"))
        return node

    def _method(self, node: ast.Call, owner: str | bytes, name: str, fixed: list[Fixed | None]) -> ast.expr:
        if name == "join" and isinstance(owner, str) and len(node.args) == 1:
            return self._joined(node, owner)
        if None in fixed or node.keywords:
            return node
        if name in ("encode", "decode") and len(fixed) <= 1:
            encoding = fixed[0] if fixed else "utf-8"
            return self._text(node, lambda: getattr(owner, name)(encoding)) if encoding in _ENCODINGS else node
        if name == "format" and isinstance(owner, str):
            return self._text(node, lambda: owner.format(*fixed)) if ":" not in owner else node
        if name in _TEXT_METHODS:
            return self._text(node, lambda: getattr(owner, name)(*fixed))
        return node

    def _joined(self, node: ast.Call, separator: str) -> ast.expr:
        """Write out a join of a list: as one text where all parts are fixed, else as an f-string."""
        parts = node.args[0]
        characters = _fixed(parts)
        if isinstance(characters, str):
            return self._text(node, lambda: separator.join(characters))
        texts = _characters(parts)
        if texts is not None:
            return self._text(node, lambda: separator.join(texts))
        if not isinstance(parts, ast.List | ast.Tuple) or _is_starred(parts.elts):
            return node
        fixed = [_fixed(element) for element in parts.elts]
        if all(isinstance(element, str) for element in fixed):
            return self._text(node, lambda: separator.join(map(str, fixed)))
        pieces: list[ast.expr] = []
        for index, element in enumerate(parts.elts):
            pieces += [ast.Constant(separator)] if index and separator else []
            is_text = isinstance(element, ast.Constant) and isinstance(element.value, str)
            pieces.append(element if is_text else ast.FormattedValue(element, -1, None))
        return self._made(ast.JoinedStr(pieces))

    def _text(self, node: ast.expr, make: Callable[[], object]) -> ast.expr:
        """Return the result of `make` as a constant where it is short; the unchanged node where it fails."""
        try:
            result = make()
        except (ValueError, TypeError, LookupError, UnicodeError, OverflowError, AttributeError):
            return node
        if not isinstance(result, str | bytes) or len(result) > TEXT_LENGTH:
            return node
        return self._made(ast.Constant(result))


_ENCODINGS = frozenset({"utf-8", "utf8", "ascii", "latin-1", "latin1", "UTF-8"})


def _fixed(tree: ast.AST | None) -> Fixed | None:
    """Return a short text, bytes or a whole number that is a literal."""
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        inner = _fixed(tree.operand)
        return -inner if isinstance(inner, int) else None
    if (
        isinstance(tree, ast.Constant)
        and isinstance(tree.value, str | bytes | int)
        and not isinstance(tree.value, bool)
    ):
        is_long = not isinstance(tree.value, int) and len(tree.value) > TEXT_LENGTH
        return None if is_long else tree.value
    return None


def _settled(tree: ast.expr) -> Fixed | None:
    """Return a literal; SETTLED for a number, a quoted word or one of several fixed texts."""
    if isinstance(tree, ast.Call):
        is_settled = dotted_name(tree.func).rpartition(".")[2] in _SETTLING or _is_looked_up(tree)
        return SETTLED if is_settled else None
    if isinstance(tree, ast.IfExp):
        return SETTLED if None not in (_settled(tree.body), _settled(tree.orelse)) else None
    is_entry = isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Dict) and is_fixed(tree.value)
    return SETTLED if is_entry else _fixed(tree)


def _is_looked_up(tree: ast.Call) -> bool:
    """Return whether a call takes an entry of a fixed table, with a default that is fixed too."""
    if not (isinstance(tree.func, ast.Attribute) and tree.func.attr == "get" and isinstance(tree.func.value, ast.Dict)):
        return False
    return is_fixed(tree.func.value) and len(tree.args) == 2 and _settled(tree.args[1]) is not None


def _is_starred(parts: Iterable[ast.expr]) -> bool:
    """Return whether one of the parts is unpacked with a star."""
    return any(isinstance(part, ast.Starred) for part in parts)


def _fixed_list(tree: ast.AST) -> list[Fixed] | None:
    if not isinstance(tree, ast.List | ast.Tuple) or len(tree.elts) > TEXT_LENGTH:
        return None
    values = [value for element in tree.elts if (value := _fixed(element)) is not None]
    return values if len(values) == len(tree.elts) else None


def _characters(tree: ast.AST) -> Iterable[str] | None:
    """Return the characters of `map(chr, [111, 115])` and `(chr(c) for c in [111, 115])`."""
    numbers: list[Fixed] | None = None
    if isinstance(tree, ast.Call) and dotted_name(tree.func) == "map" and len(tree.args) == 2:
        numbers = _fixed_list(tree.args[1]) if dotted_name(tree.args[0]) == "chr" else None
    elif isinstance(tree, ast.GeneratorExp | ast.ListComp) and len(tree.generators) == 1:
        element = tree.elt
        is_call = isinstance(element, ast.Call) and dotted_name(element.func) == "chr"
        if is_call and len(element.args) == 1 and isinstance(element.args[0], ast.Name):
            numbers = _fixed_list(tree.generators[0].iter)
    if not numbers or not all(isinstance(number, int) and 0 <= number < 0x110000 for number in numbers):
        return None
    return [chr(number) for number in numbers if isinstance(number, int)]


def _part(tree: ast.expr) -> str | None:
    """Return the text of a fixed part of an f-string."""
    if isinstance(tree, ast.FormattedValue):
        value = _settled(tree.value)
        return (
            str(value) if isinstance(value, str | int) and tree.format_spec is None and tree.conversion == -1 else None
        )
    value = _fixed(tree)
    return value if isinstance(value, str) else None


def _bound(tree: ast.expr | None) -> object:
    """Return a bound of a slice, "?" for one that is not fixed."""
    if tree is None:
        return None
    value = _fixed(tree)
    return value if isinstance(value, int) else "?"


def _entries(tree: ast.expr) -> list[tuple[ast.expr | None, ast.expr]]:
    return list(zip(tree.keys, tree.values, strict=True)) if isinstance(tree, ast.Dict) else []
