"""Code rewritten so that it does the same: Python by its syntax tree, lines of any language by their look."""

import ast
import builtins
import re

from scoring.scanners._python_names import MODULES

# Names that say what a value is: whoever changes them changes what a person reads too.
MEANT = re.compile(
    r"(?i)passw|secret|token|credential|key|nonce|salt|\biv\b|hash|digest|sign|stored|given|user|admin|staff|role|perm|auth|"
    r"request|req$|self|cls|login|name|email|session|log|upload|file|path|place|member|conn|client|cipher|setting|verif|tar|"
    r"cursor|person|app|server|response|context|client|query|text|page|field|pytest|setup|install|ssl|iterations|rounds|sock"
)
_QUOTED = re.compile(r"""("[^"\n]*"|'[^'\n]*'|`[^`\n]*`)""")
_BLANK = re.compile(r"(?<=\S) (?=\S)")
_HOST = re.compile(r"(?<=//)[\w.-]*\bexample(\.\w+)?|(?<=@)example\.\w+")
_ADDRESS = re.compile(r"\b203\.0\.113\.\d+")
KEPT = frozenset(dir(builtins)) | MODULES | {"app", "yaml", "etree", "modes", "algorithms", "Environment", "env", "rsa"}


def with_other_names(code: str) -> str | None:
    """Return the code with every name that says nothing by itself replaced; None where there is none, or no Python."""
    tree = _tree(code)
    if tree is None:
        return None
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    names = {name for name in names - KEPT - called if not MEANT.search(name) and name.islower() and name[0] != "_"}
    return _changed(code, _Names({name: f"zq{place}" for place, name in enumerate(sorted(names))}).visit(tree))


def in_another_order(code: str) -> str | None:
    """Return the code with keywords and the sides of `==`, `or` and `and` turned round."""
    tree = _tree(code)
    return None if tree is None else _changed(code, _Order().visit(tree))


def by_indirection(code: str) -> str | None:
    """Return the code with modules under aliases, and each argument that is worked out assigned to a name before."""
    tree = _tree(code)
    if tree is None:
        return None
    aliases = _Aliases()
    tree = aliases.visit(tree)
    tree.body = [statement for one in tree.body for statement in _hoisted(one, [])]
    imports = [ast.parse(f"import {module} as {alias}").body[0] for module, alias in aliases.found.items()]
    tree.body = [*imports, *tree.body]
    return _changed(code, tree)


def with_wider_spaces(code: str) -> str:
    """Return lines with two blanks for each one outside of quotes, and one more at the end."""
    lines = [_QUOTED.split(line) for line in code.splitlines()]
    wide = ["".join(part if _QUOTED.fullmatch(part) else _BLANK.sub("  ", part) for part in line) for line in lines]
    return "".join(f"{line} \n" for line in wide)


def with_other_hosts(code: str) -> str:
    """Return lines with other names and addresses of machines."""
    return _ADDRESS.sub("198.51.100.23", _HOST.sub("tools.lantern.org", code))


def with_lines_between(code: str) -> str:
    """Return lines with another one before, between and behind them."""
    return "".join(f"zq{number} 1\n{line}\n" for number, line in enumerate(code.splitlines())) + "zq 1\n"


def further_in(code: str) -> str:
    """Return lines with white space before them."""
    return "".join(f"\t  {line}\n" for line in code.splitlines())


def _tree(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except SyntaxError:
        return None


def _changed(code: str, tree: ast.Module) -> str | None:
    text = ast.unparse(ast.fix_missing_locations(tree))
    return None if text == ast.unparse(ast.parse(code)) else text


class _Names(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self._names.get(node.arg, node.arg), node.annotation)


class _Order(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        node.keywords = node.keywords[::-1]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            node.left, node.comparators = node.comparators[0], [node.left]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.BoolOp:
        self.generic_visit(node)
        node.values = node.values[::-1]
        return node


class _Aliases(ast.NodeTransformer):
    """Puts `al0.system` for `os.system`, and notes which module has which alias."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id not in MODULES or not isinstance(node.ctx, ast.Load):
            return node
        return ast.Name(self.found.setdefault(node.id, f"al{len(self.found)}"), node.ctx)


def _hoisted(statement: ast.stmt, names: list[str]) -> list[ast.stmt]:
    """Return a statement behind the assignments of what its calls are given."""
    for field in ("body", "orelse", "finalbody"):
        inner = getattr(statement, field, None)
        if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
            setattr(statement, field, [one for part in inner for one in _hoisted(part, names)])
    made: list[ast.stmt] = []
    if isinstance(statement, ast.Expr | ast.Assign | ast.Return):
        for call in [node for node in ast.walk(statement) if isinstance(node, ast.Call)][:1]:
            call.args = [_named(one, made, names) for one in call.args]
            for keyword in call.keywords:
                keyword.value = _named(keyword.value, made, names)
    return [*made, statement]


def _named(value: ast.expr, made: list[ast.stmt], names: list[str]) -> ast.expr:
    if isinstance(value, ast.Name | ast.Starred):
        return value
    names.append(f"step{len(names)}")
    made.append(ast.Assign([ast.Name(names[-1], ast.Store())], value))
    return ast.Name(names[-1], ast.Load())
