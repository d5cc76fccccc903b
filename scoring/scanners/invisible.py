"""Find characters that show a reader something other than what a machine reads: hidden, reordering, imitating.

Legitimate uses in writing systems are allowed: joiners between letters and emoji that use them, direction marks beside
right-to-left text, one selector after a sign, a byte order mark at the start of a file.
"""

import re
import unicodedata
from collections.abc import Iterator

from scoring.diff.change import FileChange, Line
from scoring.diff.paths import has_role, is_language, is_translation
from scoring.scanners import _normalise
from scoring.scanners._text import said
from scoring.scanners.submission import Submission
from scoring.types import QUOTE_LENGTH, Finding, Severity

SCANNER = "invisible"
RUN = 4  # zero-width characters in a row: enough to carry hidden text

_SOFT_HYPHEN = "\u00ad"  # legitimate in prose, and no name can differ by it in any language that compiles
_BIDI = re.compile(f"[{_normalise.BIDI}]")
_MARK = re.compile(f"[{_normalise.MARKS}]")
_ZERO_WIDTH = re.compile(f"[{_normalise.ZERO_WIDTH}]")
_RUN = re.compile(f"[{_normalise.ZERO_WIDTH}{_normalise.MARKS}]{{{RUN},}}")
_TAG = re.compile(f"[{_normalise.TAGS}]")
_FLAG = re.compile("\U0001f3f4[\U000e0061-\U000e007a\U000e0030-\U000e0039]{2,6}\U000e007f")
_SELECTORS = re.compile(f"[{_normalise.SELECTORS}]{{2,}}")
_BREAK = re.compile(f"[{_normalise.LINE_BREAKS}]")
_CONTROL = re.compile(f"[{_normalise.CONTROLS}](?!$)")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_JOINER = re.compile("[\u200c\u200d]")
# Scripts whose spelling uses joiners: Arabic, Syriac, N'Ko, those of India and South East Asia, Mongolian.
_JOINED = re.compile("[\u0600-\u07ff\u0840-\u08ff\u0900-\u109f\u1700-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc]")
_WORD = re.compile(r"[^\W\d_]+")
_STRINGS = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|`[^`]*+`|(?:#|//|/\*|--|<!--|^\s*\*).*$")
_CHECKS = (
    "bidi",
    "tag-characters",
    "hidden-run",
    "zero-width",
    "selector-run",
    "direction-mark",
    "control",
    "line-break",
)
_MEANING = {
    "bidi": "reorders what a reader sees, so that the line reads otherwise than it runs",
    "tag-characters": "belongs to a set that shows nothing and can spell hidden text",
    "hidden-run": "begins a run of characters without width, which can carry hidden text",
    "zero-width": "has no width: two names that look alike may differ by it",
    "selector-run": "begins a run of selectors, which can carry hidden bytes",
    "direction-mark": "changes the direction of text and shows nothing",
    "control": "moves a terminal's cursor or hides text in it",
    "line-break": "breaks the line for some readers and not for others",
}


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield a finding for each line and kind of character, in the change, then in the texts beside it."""
    for file in submission.change.files:
        yield from _in_name(file)
        for line in file.added():
            if not line.text.isascii() or _CONTROL.search(line.text):
                yield from _in_line(file, line)
    for text in said(submission):
        if not text.isascii():
            yield from _in_talk(text)


def _in_name(file: FileChange) -> Iterator[Finding]:
    unseen = _UNSEEN.search(file.path)
    if unseen:
        message = f"The name of this file holds {_normalise.name(unseen[0])}, which a reader does not see."
        yield _finding("file-name", Severity.HIGH, message, file.path, file)
    elif _imitation(file.path) is not None:
        message = "The name of this file mixes Latin letters with letters of another script that look like them."
        yield _finding("file-name", Severity.MED, message, file.path, file)


def _in_line(file: FileChange, line: Line) -> Iterator[Finding]:
    text = line.text.removeprefix("\ufeff") if line.new == 1 else line.text
    for rule, character in _hidden(text) if _normalise.HIDDEN.search(text) else ():
        severity = Severity.LOW if character == _SOFT_HYPHEN else _severity(rule, text, file.path)
        yield _finding(rule, severity, f"{_normalise.name(character)} {_MEANING[rule]}.", line.text, file, line)
    if is_language(file.path) and not is_translation(file.path):
        yield from _imitations(file, line, text)


def _imitations(file: FileChange, line: Line, text: str) -> Iterator[Finding]:
    character = _imitation(text)
    if character is None:
        return
    outside = _imitation(_STRINGS.sub(" ", text)) is not None
    message = f"A word mixes Latin letters with {_normalise.name(character)}, which looks like one of them."
    yield _finding("mixed-script", Severity.MED if outside else Severity.LOW, message, line.text, file, line)


def _in_talk(text: str) -> Iterator[Finding]:
    """Read title, description, discussion and commit messages: hidden text there is meant for a machine."""
    for rule, character in _hidden(text.replace("\r\n", "\n")):
        if rule in ("bidi", "tag-characters", "hidden-run", "selector-run"):
            quote = next(line for line in text.split("\n") if character in line)
            severity = Severity.LOW if rule == "bidi" and _RIGHT_TO_LEFT.search(text) else Severity.HIGH
            yield _finding(rule, severity, f"{_normalise.name(character)} {_MEANING[rule]}.", quote)


def _hidden(text: str) -> Iterator[tuple[str, str]]:
    """Yield each kind of hidden character in the text once, with its first character."""
    first = {
        "bidi": _BIDI.search(text),
        "tag-characters": _TAG.search(_FLAG.sub("", text)),
        "hidden-run": _RUN.search(text),
        "selector-run": _SELECTORS.search(text),
        "direction-mark": _MARK.search(text),
        "control": _CONTROL.search(text),
        "line-break": _BREAK.search(text),
    }
    if first["hidden-run"] is None:
        zero_width = next((match for match in _ZERO_WIDTH.finditer(text) if not _is_joiner(text, match.start())), None)
        first["zero-width"] = zero_width
    for rule in _CHECKS:
        match = first.get(rule)
        if match is not None:
            yield rule, match[0][0]


def _is_joiner(text: str, index: int) -> bool:
    """Return whether a joiner is between emoji, or beside a letter whose script uses joiners."""
    if not _JOINER.match(text[index]):
        return False
    before, after = text[max(index - 1, 0) : index], text[index + 1 : index + 2]
    if _JOINED.match(before) or _JOINED.match(after):
        return True
    return bool(before and after) and all(_is_emoji(character) for character in (before, after))


def _is_emoji(character: str) -> bool:
    return unicodedata.category(character) in ("So", "Sk", "Mn") and ord(character) > 0x2000


def _severity(rule: str, text: str, path: str) -> Severity:
    """Weigh a hidden character.

    Translations and right-to-left prose use marks, but nobody needs tags or hidden runs.
    """
    if rule in ("tag-characters", "hidden-run", "selector-run"):
        return Severity.HIGH
    honest = is_translation(path) or bool(_RIGHT_TO_LEFT.search(text))
    if rule == "bidi":
        closed = honest and not (is_language(path) and not is_translation(path))
        return Severity.LOW if closed else Severity.HIGH
    if honest or has_role(path, "docs") or rule == "line-break":
        return Severity.LOW
    return Severity.MED


def _imitation(text: str) -> str | None:
    """Return the first letter that only looks Latin in a word with Latin letters; None where there is none."""
    for word in _WORD.findall(text):
        if word.isascii() or not any(character.isascii() for character in word):
            continue
        foreign = next((character for character in word if _normalise.is_foreign_letter(character)), None)
        if foreign is not None:
            return foreign
    return None


_UNSEEN = re.compile(
    f"[{_normalise.BIDI}{_normalise.MARKS}{_normalise.ZERO_WIDTH}{_normalise.TAGS}{_normalise.CONTROLS}\n]"
)


def _finding(
    rule: str, severity: Severity, message: str, quote: str, file: FileChange | None = None, line: Line | None = None
) -> Finding:
    return Finding(
        scanner=SCANNER,
        rule=rule,
        type="security",
        severity=severity,
        explanation=message,
        file=file.path if file else None,
        line=line.new if line else None,
        quote=_normalise.shown(quote)[:QUOTE_LENGTH],
    )
