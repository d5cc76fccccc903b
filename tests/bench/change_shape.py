"""The shape of a change for measuring: kinds of syntax that come minus kinds that go, and never a word.

Both sides of each hunk are parsed and their leaves counted by kind on the changed lines of code files: keywords,
operators and brackets, one string or number or name like any other. Comments, docstrings and lines of prose count
nothing. Every figure is odd: the reversed change has it with the other sign.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import sqrt

from ast_grep_py import SgNode, SgRoot

from scoring.diff.change import Change, FileChange, Hunk, Kind, Line, Mark
from scoring.review.prose_mask import masked_hunks
from scoring.scanners import weakened
from scoring.scanners._text import GRAMMARS, code_files, fragment_of, is_too_deep, language_of_file
from scoring.scanners.submission import Submission

FILES, ROWS = 100, 2_000  # of a change, and of one side of a hunk
_KINDS = {
    "condition": "if elif unless case when switch ? match",
    "otherwise": "else",
    "logic": "and or not && || !",
    "equal": "== === != !== is instanceof",
    "ordered": "< > <= >=",
    "member": "in not_in",
    "nothing": "none null nil undefined nullptr",
    "truth": "true false",
    "return": "return",
    "refusal": "raise throw panic assert",
    "handling": "try except catch rescue finally ensure with",
    "import": "import from",
    "definition": "def function func fn fun class struct lambda =>",
    "loop": "for while until loop",
    "jump": "break continue pass yield await",
    "set": "= :=",
    "change": "+= -= *= /= |= &=",
    "bracket": "( [ {",
    "access": ". :: -> ?.",
    "comma": ",",
    "arithmetic": "+ - * / % ** // | & ^ ~ << >>",
}
KIND_OF = {token: kind for kind, tokens in _KINDS.items() for token in tokens.replace("not_in", "not in").split(" ")}
FEATURES = (*_KINDS, "string", "number", "name", "tokens", "growing_hunks", "lines", "more_lines", "checks")
_REVERSED: dict[Mark, Mark] = {"+": "-", "-": "+", " ": " "}
_REVERSED_KINDS: dict[Kind, Kind] = {"added": "deleted", "deleted": "added"}


def shape_of(change: Change) -> dict[str, float]:
    """Return each feature of a change, 0 without any; large changes weigh less than their counts."""
    counts: Counter[str] = Counter()
    for file in code_files(change)[:FILES]:
        grammar = GRAMMARS.get(language_of_file(file))
        for hunk in masked_file(file).hunks if grammar else ():
            new, old = (_count_leaves(side, grammar or "") for side in (hunk, reversed_hunk(hunk)))
            counts["gross"] += new.total() + old.total()
            counts["growing_hunks"] += (new.total() > old.total()) - (new.total() < old.total())
            counts["tokens"] += new.total() - old.total()
            counts.update(new)
            counts.subtract(old)
    lines = _lines_more(change)
    features = {name: counts[name] / sqrt(5 + counts["gross"]) for name in FEATURES}
    features["lines"] = lines / sqrt(5 + abs(lines))
    features["more_lines"] = float((lines > 0) - (lines < 0))
    features["checks"] = float(_removes_checks(reversed_change(change)) - _removes_checks(change))
    return features


def masked_file(file: FileChange) -> FileChange:
    """Return a file whose comments, docstrings and sentences are x, as the first pass of a model is given it."""
    masked = (replace(hunk, section=section, lines=tuple(lines)) for hunk, section, lines in masked_hunks(file))
    return replace(file, hunks=tuple(masked))


def reversed_change(change: Change) -> Change:
    """Return the change that takes this one back."""
    return replace(change, files=tuple(_reversed_file(file) for file in change.files))


def reversed_hunk(hunk: Hunk) -> Hunk:
    """Return the hunk that takes this one back; removed lines stay before added ones."""
    lines: list[Line] = []
    added: list[Line] = []
    for line in hunk.lines:
        turned = replace(line, mark=_REVERSED[line.mark], old=line.new, new=line.old)
        if turned.mark == "+":
            added.append(turned)
            continue
        if turned.mark == " ":
            lines += added
            added = []
        lines.append(turned)
    return replace(hunk, old_start=hunk.new_start, new_start=hunk.old_start, lines=(*lines, *added))


def _reversed_file(file: FileChange) -> FileChange:
    return replace(
        file,
        kind=_REVERSED_KINDS.get(file.kind, file.kind),
        old_mode=file.new_mode,
        new_mode=file.old_mode,
        hunks=tuple(map(reversed_hunk, file.hunks)),
    )


def _lines_more(change: Change) -> int:
    marks = Counter(line.mark for file in change.files for hunk in file.hunks for line in hunk.lines)
    return marks["+"] - marks["-"]


def _removes_checks(change: Change) -> bool:
    return any(True for _ in weakened.scan(Submission(change)))


def _count_leaves(hunk: Hunk, grammar: str) -> Counter[str]:
    """Count leaves on the added lines of a hunk by kind; lines with words beside each other are prose."""
    side = fragment_of(hunk, next(language for language, name in GRAMMARS.items() if name == grammar))
    rows = {row for row, line in enumerate(side.lines[:ROWS]) if line is not None and line.mark == "+"}
    by_row: dict[int, list[str]] = {}
    if rows and not is_too_deep(side.text):
        for leaf in _leaves(SgRoot(side.text, grammar).root()):
            row = leaf.range().start.line
            if row in rows:
                by_row.setdefault(row, []).append(_kind_of(leaf))
    return Counter(kind for kinds in by_row.values() if not _is_prose(kinds) for kind in kinds if kind)


def _leaves(root: SgNode) -> Iterator[SgNode]:
    """Yield the leaves of a tree in order, a string as one and comments as none; a tree may be deep."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        kind, children = node.kind(), node.children()
        if "comment" in kind or (kind == "expression_statement" and [child.kind() for child in children] == ["string"]):
            continue
        if children and not kind.endswith("string"):
            waiting += reversed(children)
        else:
            yield node


def _kind_of(leaf: SgNode) -> str:
    kind = leaf.kind()
    if "string" in kind or "char" in kind:
        return "string"
    if kind in ("integer", "float", "number") or kind.endswith("_literal"):
        return "number"
    return "name" if kind.endswith("identifier") else KIND_OF.get(kind, "")


def _is_prose(kinds: list[str]) -> bool:
    return any(pair == ("name", "name") for pair in pairwise(kinds))
