"""Conditions that a change turns round or shifts by one, and lowered numbers that protect secrets."""

import re
from collections.abc import Iterator

from scoring.diff.change import FileChange, Hunk, Line
from scoring.scanners._finding_helpers import quoted, worst_first
from scoring.scanners._text import code_files, is_comment
from scoring.scanners.submission import Submission
from scoring.types import Finding, FlagType, Severity

SCANNER = "flipped"
LINE_LENGTH = 1_000
TOLD = 10  # findings in one file

_TOKEN = re.compile(r"\w+|[<>=!]=?=?|&&|\|\||[+-]|\S")
_PROTECTED = re.compile(
    r"auth|permission|admin|owner|staff|superuser|token|csrf|secret|password|signature|verif|allowed|denied|forbidden|valid|"
    r"disabled|locked|banned|blocked|revoked|expired|suspended",
    re.IGNORECASE,
)
# Rounds of a derivation and lengths of keys: they make guessing expensive.
_STRENGTH = re.compile(
    r"iteration|rounds|pbkdf2|bcrypt|scrypt|argon|salt|key_?(size|length|bits|len)|modulus|\bcost\b|_cost|[a-z]cost|"
    r"entropy|min_?(password|length)|nonce|token_?(bytes|length|size)|random_?bytes|token_(hex|urlsafe)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d[\d_]{0,18}")
# A condition that asks for a right, and a look-up among what belongs to somebody.
_ASKS = re.compile(
    r"^\s*(\}?\s*else\s+)?(if|elif|elsif|unless|return|assert|guard|when|raise|throw)\b|&&|\|\||[!?]\s*$|=>"
)
_RIGHT = re.compile(
    r"(?i)admin|\bowner|owner_?id|staff|superuser|\brole|permission|permit|\bcan_?[a-z_]|moderator|authori[sz]|privileg|"
    r"allowed|is_?auth|authenticated|verif|policy|scope|grant|tenant|current_?user|user\.id|== ?user\b|signature|valid"
)
_ROUTE = re.compile(
    r"\b\w+\.(get|post|put|patch|delete|all|use|route|group|handle\w*|Handle\w*|GET|POST|PUT|DELETE)\(\s*[\"'`]/"
)
_GUARD = re.compile(
    r"(?i)own|auth|admin|require|ensure|guard|check|verify|csrf|limit|can_?[A-Z]|permi|role|protect|only|valid|session"
)
_OWN = re.compile(
    r"(?i)(current_?user|request\.user|req\.user|session\.user|\buser|account|tenant|organi[sz]ation|team|workspace|owner|"
    r"auth\(\)->user\(\))\b(\(\))?!?(\.|->|\?\.)\w+(\(\))?(\.|->|\?\.)(find|get|where|filter|first|load|fetch|one|by_?id)"
)
_SCOPE = re.compile(r"(?i)user|owner|account|tenant|org|team|workspace|member|scope|polic|authori[sz]")
_LOOK_UP = re.compile(r"(?i)\b[A-Z]\w*(\.|::|->)(objects\.)?(find|get|where|filter|first|load|fetch|query|one|by_?id)")
_WORD = re.compile(r"\w+")
TOGETHER = 12  # lines of two runs of different lengths that are compared
FEWEST = 3  # words of a line that is compared
ALIKE = 0.6  # of the words of the shorter line that stand in the other
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
            how = _difference(_tokens(old.text), _tokens(new.text)) or _weakening(old, new) if told < TOLD else None
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
            yield from zip(gone, come, strict=False) if len(gone) == len(come) else _alike(gone, come)
            gone, come = ([line] if line is not None and line.mark == "-" else []), []


def _alike(gone: list[Line], come: list[Line]) -> Iterator[tuple[Line, Line]]:
    """Each removed line with the added one that has most of its words, in short runs of different lengths."""
    if not come or len(gone) + len(come) > TOGETHER:
        return
    for old in gone:
        words = set(_WORD.findall(old.text[:LINE_LENGTH]))
        shared = [len(words & set(_WORD.findall(new.text[:LINE_LENGTH]))) for new in come]
        if max(shared) >= ALIKE * max(len(words), FEWEST):
            yield old, come[shared.index(max(shared))]


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


def _weakening(old: Line, new: Line) -> str | None:
    """Return how a line of which most stays no longer asks for a right, or no longer looks among one's own."""
    before, after = old.text[:LINE_LENGTH], new.text[:LINE_LENGTH]
    words, kept = set(_WORD.findall(before)), set(_WORD.findall(after))
    if is_comment(after) or len(words & kept) < ALIKE * min(len(words), len(kept)):
        return None
    rights = len(_RIGHT.findall(before)), len(_RIGHT.findall(after))
    if _ASKS.search(before) and _ASKS.search(after) and rights[0] > rights[1]:
        return "weaker"
    if _ROUTE.search(before) and _ROUTE.search(after) and kept < words and _GUARD.search(" ".join(words - kept)):
        return "weaker"
    return "wider" if _OWN.search(before) and not _SCOPE.search(after) and _LOOK_UP.search(after) else None


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
    is_protected = how in ("lowered", "weaker", "wider") or (
        how == "opposite" and _PROTECTED.search(line.text[:LINE_LENGTH]) is not None
    )
    kind: FlagType = "security" if is_protected else "subtle_bug"
    severity = Severity.MED if is_protected else Severity.LOW
    messages = {
        "opposite": "A condition or a switch says the opposite of what it said, and nothing else on the line changes.",
        "shifted": "A limit moves by one, and nothing else on the line changes.",
        "lowered": "A number that makes a password, key or token hard to guess is at most half of what it was.",
        "weaker": "A condition or an address no longer asks for a right that it asked for; most of the line stays.",
        "wider": "What was looked up among what belongs to one person or group is looked up among everybody's.",
        "turned": "A comparison is turned round, and nothing else on the line changes.",
    }
    return Finding(SCANNER, how, kind, severity, messages[how], file=file.path, line=line.new, quote=quoted(line.text))
