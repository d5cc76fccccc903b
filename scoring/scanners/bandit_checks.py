"""Bandit's checks of Python, through its own API, on whole files and on hunks that parse by themselves.

No settings of a site or a stranger are read: no configuration file, no `# nosec`, and only Bandit's own plugins. Checks
that found mostly honest code in 2,000 real diffs are omitted: requests without a timeout (in 8 of them), SHA-1 for file
names (5), imports and assertions. Also omitted are three that read no names, and so mistake fixed values for variable
ones, where our rules read them: SQL from text (B608), `mark_safe` (B308), and text run by exec (B102). A command made
only of fixed texts is given to Bandit as one text.
"""

import ast
import copy
import io
import logging
import re
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from scoring.diff.budget import spend
from scoring.diff.change import FileChange
from scoring.diff.paths import role
from scoring.scanners._escaped_markup import bound_names, escaped_markup
from scoring.scanners._finding_helpers import lowered, quoted, worst_first
from scoring.scanners._holes import holes, is_bounded
from scoring.scanners._python_folding import dotted_name, substituted
from scoring.scanners._rules import safe_in_shell
from scoring.scanners._statements import rows_near
from scoring.scanners._text import cleaned, fragment_of, is_too_deep, language_of_file
from scoring.scanners._unconditional import is_unconditional
from scoring.scanners.submission import Submission
from scoring.scanners.whole_files import NewSide
from scoring.types import Finding, Severity

if TYPE_CHECKING:
    from bandit.core.issue import Issue
    from bandit.core.node_visitor import BanditNodeVisitor
    from bandit.core.test_set import BanditTestSet

SCANNER = "bandit"
DEEP = 200  # levels of a tree: checks that climb from each text to its statement take quadratic time
ALL_CHARACTERS = 2_000_000  # of one change
FILE_CHARACTERS = 200_000  # of one file: Python's parser takes up to .8 s for it
READ_CHARACTERS = 60_000  # of its changed statements: up to 1.3 s; the rest is left to the rules
HUNK_ROWS, HUNK_CHARACTERS = 200, 20_000  # of a hunk, which is parsed up to 16 times
# Rows of context that are cut off above and below a hunk until it parses.
_CUTS = tuple((above, below) for above in range(4) for below in range(4))
ONCE = 20  # findings of one check in one file
NAME = "./change.py"  # our own path: Bandit looks for packages around the given one


class _Check(NamedTuple):
    message: str
    runs: bool = False  # code that runs weighs as much in tests, examples and vendored code


CHECKS: dict[str, _Check] = {
    "B103": _Check("A file is made writable or runnable for everybody."),
    "B108": _Check("A file in a folder that everybody writes to has a name that others can guess."),
    "B201": _Check("The debugger of Flask lets visitors run code."),
    "B202": _Check("An archive is unpacked without a look at where its files would land."),
    "B301": _Check("Unpickling runs any code that the data names.", runs=True),
    "B302": _Check("Unmarshalling trusts the data fully.", runs=True),
    "B304": _Check("This cipher is broken."),
    "B305": _Check("This mode of a cipher leaves patterns of the text visible."),
    "B306": _Check("Between the choice of a temporary name and its use somebody else can take it."),
    "B307": _Check("Text is run as code by eval.", runs=True),
    "B312": _Check("Telnet sends everything in the clear."),
    "B321": _Check("FTP sends passwords in the clear."),
    "B323": _Check("The certificate of the other side is not checked."),
    "B501": _Check("The certificate of the other side is not checked."),
    "B502": _Check("This version of TLS is broken."),
    "B503": _Check("The default is a version of TLS that is broken."),
    "B505": _Check("The key is small enough to be broken."),
    "B506": _Check("This YAML loader builds any Python object that the text names.", runs=True),
    "B507": _Check("The key of an SSH host is not checked."),
    "B508": _Check("This version of SNMP sends everything in the clear."),
    "B509": _Check("SNMP is used without encryption."),
    "B601": _Check("A command is run on another machine, through a shell there.", runs=True),
    "B602": _Check("A command goes through a shell.", runs=True),
    "B605": _Check("A command goes through a shell.", runs=True),
    "B609": _Check("A shell fills in file names, which can be options of the command.", runs=True),
    "B610": _Check("A piece of SQL is handed to the database as it is."),
    "B611": _Check("A piece of SQL is handed to the database as it is."),
    "B612": _Check("Anybody who reaches this port can configure the log, and so run code.", runs=True),
    "B614": _Check("The file is loaded as a pickle, which can run any code.", runs=True),
    "B701": _Check("The template engine escapes nothing."),
    "B702": _Check("Templates of Mako escape nothing by default."),
    "B703": _Check("Text that is not fixed is declared to be safe HTML."),
    "B704": _Check("Text that is not fixed is declared to be safe HTML."),
}
# A function that passes its first argument to a shell, or does so with `shell=True`.
_COMMAND = re.compile(r"\b(?:system|popen|getoutput|getstatusoutput|run|call|check_call|check_output|Popen)\b")
# The parts of a composed command; a call must be `format` or `join`.
_PARTS = (ast.Constant, ast.Name, ast.BinOp, ast.JoinedStr, ast.FormattedValue, ast.Tuple, ast.List, ast.Call)
_PARTS += (ast.Attribute, ast.Add, ast.Mod, ast.expr_context)
_SETS_BY_TEXT = re.compile(r"\b(?:globals|vars|locals|exec|eval|setattr|__dict__|sys\.modules|import\s*\*)")
VALUES = 40  # examined values of one command
_SHELL_CHECKS = frozenset({"B602", "B605"})
_MARKUP_CHECKS = frozenset({"B703", "B704"})
_LOADED = re.compile(r"\bloads?\(\s*((?:c?[Pp]ickle|_pickle|cloudpickle|dill|marshal)\.dumps\()?")
_OPERATOR = re.compile(r"[|&;<>()$`\n]")  # of a shell
# Bandit's severity and confidence. Findings of low severity or in doubt are not reported.
SEVERITIES = {
    ("HIGH", "HIGH"): Severity.HIGH,
    ("HIGH", "MEDIUM"): Severity.MED,
    ("MEDIUM", "HIGH"): Severity.MED,
    ("MEDIUM", "MEDIUM"): Severity.MED,
    ("HIGH", "LOW"): Severity.LOW,
    ("MEDIUM", "LOW"): Severity.LOW,
}


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield findings on added lines; text that does not parse is left to the rules on single hunks."""
    yield from worst_first(_all_findings(submission))


def _all_findings(submission: Submission) -> Iterator[Finding]:
    left = ALL_CHARACTERS
    for file, whole in submission.files():
        if language_of_file(file) != "python" or not any(file.added()):
            continue
        for side in _sides(file, whole):
            left -= len(side.text)
            if left >= 0 and len(side.text) <= FILE_CHARACTERS:
                yield from _findings(file, side)


def _sides(file: FileChange, whole: NewSide | None) -> Iterator[NewSide]:
    if whole is not None:
        yield cleaned(whole)
        return
    for hunk in file.hunks:
        if any(line.mark == "+" for line in hunk.lines):
            yield fragment_of(hunk, "python")


def _findings(file: FileChange, side: NewSide) -> Iterator[Finding]:
    part = role(file.path)
    reported: dict[str, set[int]] = {}
    written = side.text.split("\n")
    for issue in _issues(side):
        check, severity = CHECKS[issue.test_id], SEVERITIES.get((issue.severity, issue.confidence))
        if severity and part != "code" and not check.runs:
            severity = Severity.LOW if part == "tests" else lowered(severity)  # tests talk to servers of their own
        rows = [row - 1 for row in issue.linerange] or [(issue.lineno or 1) - 1]
        if severity is Severity.HIGH and issue.test_id == "B501" and not is_unconditional(written, min(rows)):
            severity = Severity.MED  # as our own rule weighs it
        if issue.test_id in _SHELL_CHECKS and _is_safe_command(written, min(rows), max(rows)):
            continue
        if issue.test_id == "B301" and _is_copy(written[min(rows) : max(rows) + 1]):
            continue
        line = side.added(min(rows), max(rows))
        lines = reported.setdefault(issue.test_id, set())
        if line is None or line.new is None or not severity or line.new in lines or len(lines) >= ONCE:
            continue
        lines.add(line.new)
        yield Finding(
            SCANNER, issue.test_id, "security", severity, check.message, file.path, line.new, quoted(line.text)
        )


def _is_safe_command(rows: list[str], first: int, last: int) -> bool:
    """Return whether every value in a command is a number, quoted, or from a list of allowed ones."""
    safe, near = safe_in_shell(), rows_near(rows, first, last)
    values = [value.strip() for value in holes(" ".join(rows[first : last + 1]), safe)][:VALUES]
    return bool(values) and all(safe.search(value) or is_bounded(value, safe, near) for value in values)


def _is_copy(rows: list[str]) -> bool:
    """Return whether all that is unpickled was pickled in the same expression."""
    loaded = _LOADED.findall(" ".join(rows))
    return bool(loaded) and all(loaded)


def _issues(side: NewSide) -> Iterable["Issue"]:
    """Return Bandit's issues in a text; none where it is not Python, or nested too deeply."""
    if is_too_deep(side.text):
        return []
    tree = _parsed(side)
    if tree is None:
        return []
    changed = {row + 1 for row, line in enumerate(side.lines) if line is not None and line.mark == "+"}
    checks, escaped = _checks(), escaped_markup(tree)
    from bandit.core.metrics import Metrics

    visitor = _visitor()(NAME, io.BytesIO(side.text.encode()), None, checks, False, {}, Metrics())
    try:
        bounded_tree = _bounded(_near(tree, changed), side.text)
        if _COMMAND.search(side.text):
            _write_commands_out(bounded_tree, {} if _SETS_BY_TEXT.search(side.text) else _fixed_names(tree))
        visitor.generic_visit(bounded_tree)
    except RecursionError:
        return []
    return [
        issue
        for issue in visitor.tester.results
        if issue.test_id not in _MARKUP_CHECKS or (issue.lineno, issue.col_offset) not in escaped
    ]


@cache
def _visitor() -> type["BanditNodeVisitor"]:
    """Return Bandit's visitor class, extended to check the clock at each node."""
    from bandit.core.node_visitor import BanditNodeVisitor

    class Visitor(BanditNodeVisitor):
        def visit(self, node: ast.AST) -> None:
            spend()
            super().visit(node)

    return Visitor


def _parsed(side: NewSide) -> ast.Module | None:
    """Return the tree of a text; for a short one, such as a hunk, also without some of the context at its ends."""
    rows = side.text.split("\n")
    first = next((row for row, line in enumerate(side.lines) if line is not None), 0)
    last = len(side.lines)
    is_short = len(rows) <= HUNK_ROWS and len(side.text) <= HUNK_CHARACTERS
    for above, below in _CUTS if is_short else _CUTS[:1]:
        spend()
        cut = [*range(first, first + above), *range(max(last - below, first), last)]
        if any(side.added(row, row) for row in cut):
            continue
        try:
            return ast.parse("\n".join("" if row in cut else text for row, text in enumerate(rows)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _near(tree: ast.Module, changed: set[int]) -> ast.Module:
    """Return the module with its imports and the statements on changed rows: Bandit takes .2 ms a line."""
    body = [
        statement
        for statement in tree.body
        if isinstance(statement, ast.Import | ast.ImportFrom) or _touches(statement, changed)
    ]
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            touched = [part for part in statement.body if _touches(part, changed)]
            statement.body = touched or statement.body[:1]
    return ast.Module(body, [])


def _bounded(tree: ast.Module, text: str) -> ast.Module:
    """Return the module with the statements that fit into READ_CHARACTERS and do not nest deeply."""
    rows, left, statements = text.encode().split(b"\n"), READ_CHARACTERS, list[ast.stmt]()
    for statement in tree.body:
        parts = statement.body if isinstance(statement, ast.ClassDef) else [statement]
        size = sum(_size(part, rows) for part in parts)
        if size <= left and not nests_deeply(statement):
            statements.append(statement)
            left -= size
    return ast.Module(statements, [])


def _write_commands_out(tree: ast.Module, names: dict[str, ast.Constant]) -> None:
    """Replace each command composed of fixed texts by one text; our rules read it."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        spend()
        function = dotted_name(node.func).rpartition(".")[2]
        if _COMMAND.fullmatch(function) and _is_put_together(node.args[0], names):
            command = substituted(copy.deepcopy(node.args[0]), names.get)
            if isinstance(command, ast.Constant):
                node.args[0] = ast.copy_location(ast.Constant(command.value), node.args[0])


def _is_put_together(command: ast.expr, names: dict[str, ast.Constant]) -> bool:
    """Return whether a command consists only of fixed texts and these names."""
    for node in ast.walk(command):
        if isinstance(node, ast.Call):
            is_known = isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "join")
        else:
            is_known = isinstance(node, _PARTS) and (not isinstance(node, ast.Name) or node.id in names)
        if not is_known:
            return False
    return True


def _fixed_names(tree: ast.Module) -> dict[str, ast.Constant]:
    """Return the names that hold only fixed texts anywhere in a file, with the last text of each.

    Our rules read a command with the last text, so where there are several none may hold a shell operator.
    """
    texts: dict[str, list[ast.Constant]] = {}
    others: set[str] = set()
    seen: set[ast.AST] = set()  # targets, which the walk visits after their assignments
    for node in ast.walk(tree):
        target, value = _assignment(node)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str | int):
            texts.setdefault(target.id, []).append(value)
            seen.add(target)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node not in seen:
            others.add(node.id)
        others.update(bound_names(node))
    return {
        name: constants[-1]
        for name, constants in texts.items()
        if name not in others
        and (len(constants) == 1 or not any(_OPERATOR.search(str(constant.value)) for constant in constants))
    }


def _assignment(node: ast.AST) -> tuple[ast.expr | None, ast.expr | None]:
    """Return the only target of an assignment, and its value; None for anything else."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return node.targets[0], node.value
    return (node.target, node.value) if isinstance(node, ast.AnnAssign) else (None, None)


def _size(node: ast.stmt, rows: list[bytes]) -> int:
    """Return the bytes from the first character of a statement to its last."""
    last = node.end_lineno or node.lineno
    behind = len(rows[last - 1]) - (node.end_col_offset or 0)
    return sum(map(len, rows[node.lineno - 1 : last])) - node.col_offset - behind


def _touches(node: ast.stmt, changed: set[int]) -> bool:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    return not changed.isdisjoint(range(first, (node.end_lineno or first) + 1))


@cache
def _checks() -> "BanditTestSet":
    """Return Bandit's own checks from CHECKS."""
    original_format = warnings.formatwarning  # Bandit replaces it for the whole process
    from stevedore import _cache  # Bandit finds its checks by it

    _cache._c._disable_caching = True  # its cache would be in the user's home
    logging.getLogger("stevedore").setLevel(logging.CRITICAL)  # an unused form of report is not installed
    from bandit.core.config import BanditConfig
    from bandit.core.test_set import BanditTestSet

    warnings.formatwarning = original_format
    logging.getLogger("bandit").setLevel(logging.CRITICAL)  # it logs its errors on a stranger's code
    checks = BanditTestSet(BanditConfig(), {"include": sorted(CHECKS)})
    own = {
        kind: [test for test in tests if test.__module__.partition(".")[0] == "bandit"]
        for kind, tests in checks.tests.items()
    }
    checks.tests = own
    return checks


def nests_deeply(tree: ast.AST, levels: int = DEEP) -> bool:
    """Return whether a path from the root of a tree has more nodes than this; without recursion."""
    row: list[ast.AST] = [tree]
    for _ in range(levels):
        row = [child for node in row for child in ast.iter_child_nodes(node)]
        if not row:
            return False
    return True
