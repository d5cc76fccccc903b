"""The shape of a change for measuring: kinds of syntax that come minus kinds that go, and never a word.

Both sides of each hunk are parsed and their leaves counted by kind on the changed lines of code files: keywords,
operators and brackets, one string or number or name like any other. Comments, docstrings and lines of prose count
nothing, also where they make a line or a hunk longer: only differences count. Every figure is odd: the reversed change
has it with the other sign. `finding_balance` is not free of words, since scanners read them.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from math import copysign, log1p

from ast_grep_py import SgNode, SgRoot

from scoring.diff.change import Change, FileChange, Hunk, Kind, Line, Mark
from scoring.review.prose_mask import RUN, RUN_WORDS, masked_hunks
from scoring.scanners._text import GRAMMARS, Language, code_files, fragment_of, is_too_deep, language_of_file
from scoring.scanners.run import examine
from scoring.scanners.submission import Submission

FILES, ROWS = 100, 2_000  # of a change, and of one side of a hunk
_KINDS = {
    "condition": "if elif unless case when switch ? match",
    "otherwise": "else",
    "logic": "and or not && || !",
    "equal": "== === != !== is is_not instanceof",
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
KIND_OF = {token.replace("_", " "): kind for kind, tokens in _KINDS.items() for token in tokens.split()}
FEATURES = (*_KINDS, "string", "number", "name", "tokens", "lines", "more_lines", "growing_files")
FINDINGS = ("low", "med", "high", "fewer-checks")
_REVERSED: dict[Mark, Mark] = {"+": "-", "-": "+", " ": " "}
_REVERSED_KINDS: dict[Kind, Kind] = {"added": "deleted", "deleted": "added"}


def shape_of(change: Change) -> dict[str, float]:
    """Return each of FEATURES, 0 without any: the logarithm of a difference of counts with its sign, or a sign."""
    counts: Counter[str] = Counter()
    for file in code_files(change)[:FILES]:
        language = language_of_file(file)
        if language not in GRAMMARS:
            continue
        difference: Counter[str] = Counter()
        for hunk in masked_file(file).hunks:
            difference.update(_count_leaves(hunk, language))
            difference.subtract(_count_leaves(reversed_hunk(hunk), language))
        counts.update(difference)
        counts["growing_files"] += _sign(difference["tokens"])
    features = {name: copysign(log1p(abs(counts[name])), counts[name]) for name in FEATURES}
    return features | {"more_lines": _sign(counts["lines"])}


def finding_counts(change: Change) -> dict[str, float]:
    """Return the number of findings of each severity, and of removed checks among them."""
    counts: Counter[str] = Counter()
    for finding in examine(Submission(change)).findings:
        counts.update({finding.severity.value: 1, "fewer-checks": finding.rule == "fewer-checks"})
    return {name: float(counts[name]) for name in FINDINGS}


def finding_balance(change: Change) -> dict[str, float]:
    """Return how many findings of each kind the change has more than its reversal."""
    own, reversal = finding_counts(change), finding_counts(reversed_change(change))
    return {name: own[name] - reversal[name] for name in FINDINGS}


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


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _count_leaves(hunk: Hunk, language: Language) -> Counter[str]:
    """Count leaves on the added lines of a hunk by kind, all of them and lines with any; none on lines of prose."""
    side = fragment_of(hunk, language)
    rows = {row for row, line in enumerate(side.lines[:ROWS]) if line is not None and line.mark == "+"}
    if not rows or is_too_deep(side.text):
        return Counter()
    kinds: dict[int, list[str]] = {}
    for leaf in _leaves(SgRoot(side.text, GRAMMARS[language]).root()):
        if (row := leaf.range().start.line) in rows:
            kinds.setdefault(row, []).append(_kind_of(leaf))
    words = RUN_WORDS.get(GRAMMARS[language], RUN)
    code = [row_kinds for row_kinds in kinds.values() if not _is_prose(row_kinds, words)]
    counts = Counter(kind for row_kinds in code for kind in row_kinds if kind)
    return counts + Counter(tokens=counts.total(), lines=len(code))


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


def _is_prose(kinds: list[str], words: int) -> bool:
    """Return whether so many names stand beside each other as no line of code has."""
    return any(kind == "name" and len([*run]) >= words for kind, run in groupby(kinds))
