"""Conditions that a change turns round or shifts by one, and lowered numbers that protect secrets."""

import re
from collections.abc import Iterator

from scoring.content.change import FileChange, Hunk, Line
from scoring.content.finding import Finding, FlagType, Severity
from scoring.content.submission import Submission
from scoring.evidence._code_lines import code_files
from scoring.evidence._weight import quoted, worst_first

SCANNER = "flipped"
LINE_LENGTH = 1_000
TOLD = 10  # findings in one file

_TOKEN = re.compile(r"\w+|[<>=!]=?=?|&&|\|\||[+-]|\S")
_PROTECTED = re.compile(
    r"auth|permission|admin|owner|staff|superuser|token|csrf|secret|password|signature|verif|allowed|denied|forbidden|valid",
    re.IGNORECASE,
)
# Rounds of a derivation and lengths of keys: they make guessing expensive.
_STRENGTH = re.compile(
    r"iteration|rounds|pbkdf2|bcrypt|scrypt|argon|salt|key_?(size|length|bits|len)|modulus|\bcost\b|_cost|[a-z]cost|"
    r"entropy|min_?(password|length)|nonce|token_?(bytes|length|size)|random_?bytes|token_(hex|urlsafe)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d[\d_]{0,18}")
_OPPOSITES = (
    {"==", "!="},
    {"===", "!=="},
    {"is", "is not"},
    {"True", "False"},
    {"true", "false"},
    {"and", "or"},
    {"&&", "||"},
)
_SHIFTS = ({"<", "<="}, {">", ">="})
_TURNED = ({"<", ">"}, {"<=", ">="}, {"<", ">="}, {">", "<="})


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield a med finding for a reversed condition about rights or a weaker number, low for a bound moved by one."""
    found = [finding for file in code_files(submission.change) for finding in _scan_file(file)]
    yield from worst_first(found)


def _scan_file(file: FileChange) -> Iterator[Finding]:
    told = 0
    for hunk in file.hunks:
        for old, new in _pairs(hunk):
            how = _difference(_tokens(old.text), _tokens(new.text)) if told < TOLD else None
            if how:
                told += 1
                yield _finding(file, new, how)


def _pairs(hunk: Hunk) -> Iterator[tuple[Line, Line]]:
    """Yield removed lines and the added ones in their place, where there are as many of both."""
    gone: list[Line] = []
    come: list[Line] = []
    for line in (*hunk.lines, None):
        if line is not None and line.mark == "-" and not come:
            gone.append(line)
        elif line is not None and line.mark == "+":
            come.append(line)
        else:
            yield from zip(gone, come, strict=False) if len(gone) == len(come) else ()
            gone, come = ([line] if line is not None and line.mark == "-" else []), []


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text[:LINE_LENGTH])


def _difference(old: list[str], new: list[str]) -> str | None:
    """Return how a line changes: opposite, shifted, turned or lowered; None for any other difference."""
    if len(old) == len(new):
        changed = [(one, other) for one, other in zip(old, new, strict=True) if one != other]
        if len(changed) != 1:
            return None
        return "lowered" if _is_lower(*changed[0]) and _STRENGTH.search(" ".join(new)) else _exchange(set(changed[0]))
    longer, shorter = (old, new) if len(old) > len(new) else (new, old)
    if len(longer) - len(shorter) != 1:
        return None
    place = next((i for i, token in enumerate(shorter) if token != longer[i]), len(shorter))
    is_negation = longer[place] in ("not", "!") and longer[place + 1 :] == shorter[place:]
    return "opposite" if is_negation and {"if", "elif", "while", "return", "assert"} & set(shorter) else None


def _is_lower(old: str, new: str) -> bool:
    """Return whether a number takes the place of one that is at least twice as large."""
    if not (_NUMBER.fullmatch(old) and _NUMBER.fullmatch(new)):
        return False
    return int(new.replace("_", "")) * 2 <= int(old.replace("_", ""))


def _exchange(pair: set[str]) -> str | None:
    if pair in _SHIFTS:
        return "shifted"
    if pair in _TURNED:
        return "turned"
    return "opposite" if pair in _OPPOSITES else None


def _finding(file: FileChange, line: Line, how: str) -> Finding:
    is_protected = how == "lowered" or (how == "opposite" and _PROTECTED.search(line.text[:LINE_LENGTH]) is not None)
    kind: FlagType = "security" if is_protected else "subtle_bug"
    severity = Severity.MED if is_protected else Severity.LOW
    messages = {
        "opposite": "A condition or a switch says the opposite of what it said, and nothing else on the line changes.",
        "shifted": "A limit moves by one, and nothing else on the line changes.",
        "lowered": "A number that makes a password, key or token hard to guess is at most half of what it was.",
        "turned": "A comparison is turned round, and nothing else on the line changes.",
    }
    return Finding(SCANNER, how, kind, severity, messages[how], file=file.path, line=line.new, quote=quoted(line.text))
