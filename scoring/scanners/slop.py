"""Find signs of careless text: leftovers of a chat, placeholders, stubs, echoing comments, copied blocks."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import re2

from scoring.diff.change import FileChange, Line
from scoring.diff.paths import role
from scoring.scanners._finding_helpers import cut, quoted, worst_first
from scoring.scanners._text import is_code_file, is_comment
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity

SCANNER = "slop"


def _any_of(*expressions: str, before: str = "") -> "re2._Regexp":
    """Compile several expressions into one, ignoring case, each after `before`."""
    return re2.compile(f"(?im){before}(?:{'|'.join(expressions)})")


LINE_LENGTH = 2_000
BLOCK = 10  # lines that must be repeated
ECHOES = 4  # comments that repeat the next line
STUBS = 3
TOLD = 5  # findings of one rule in one file

_CODE = "(code|implementation|methods|functions|imports|file)"
CHAT = _any_of(
    r"\bas an? (ai|large) (language )?model\b",
    r"\bi hope this helps[.!]",
    r"^\W*(certainly|sure|of course)[!,] here('s| is| are)\b",
    r"<\|(im_start|im_end|endoftext|assistant)\|>",
    r":?contentReference\[oaicite|\bturn\d+(search|view)\d+\b",
    r"\bmy (knowledge cutoff|last knowledge update)\b",
    rf"^\W*here('s| is) the (updated|complete|full|modified|refactored|corrected) {_CODE}\b",
)
PLACEHOLDER = _any_of(
    r"\b(your|actual|real) (code|logic|implementation) (goes )?here\b",
    r"\badd (your|the actual) (code|logic)\b",
    rf"\.\.\.\s*\(?(rest of|existing|remaining|previous|other) (the )?{_CODE}\b",
    rf"\b(rest of|existing|remaining) (the )?{_CODE} (here|remains?|unchanged|stays?|goes)\b",
    r"\bplaceholder (implementation|logic|for (the )?(actual|real))\b",
    r"\bin a real(-world)? (app|application|implementation|system|scenario)\b",
    r"\b(simplified|mock|dummy) (version|implementation) for (now|demo\w*|simplicity)\b",
    r"\bimplement (this|me|actual logic)( here| later)?\s*$",
    before=r"(#|//|/\*|\*|<!--).*",
)
STUB = _any_of(
    r"(pass|\.\.\.|return None|raise NotImplementedError(\(.*\))?)\s*;?\s*#\s*(todo|fixme|implement)",
    r"(#|//)\s*todo:?\s*implement\b",
    r"(todo|unimplemented)!\(.*\);?$",
    r"panic\(\"(not implemented|todo|implement me)\"\)$",
    before=r"^\s*",
)
WORD = re2.compile(r"[A-Za-z][a-z]+|[A-Z]+")


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield only clear signs, in the project's own code: a sign is a reason to read on, not a verdict."""
    files = [file for file in submission.change.files if is_code_file(file)]
    findings = [finding for file in files for finding in _scan_file(file)]
    yield from worst_first([*findings, *_copied(files)])


def _scan_file(file: FileChange) -> Iterator[Finding]:
    added = [line for line in file.added() if line.text.strip()]
    message = "This is text of a conversation with a model, not code."
    yield from _lines(file, added, CHAT, "chat-leftover", Severity.HIGH, message)
    message = "This says that the real code is still to be written."
    yield from _lines(file, added, PLACEHOLDER, "placeholder", Severity.MED, message)
    stubs = _matching(added, STUB)
    if len(stubs) >= STUBS:
        message = f"{len(stubs)} parts of this file are announced but not written."
        yield _finding(file, stubs[0], "stubs", Severity.LOW, message)
    echoes = [first for first, second in pairwise(added) if _echoes(first, second)]
    if len(echoes) >= ECHOES:
        message = f"{len(echoes)} comments say nothing but what the next line says."
        yield _finding(file, echoes[0], "echoing-comments", Severity.LOW, message)


def _lines(
    file: FileChange, added: list[Line], pattern: "re2._Regexp", rule: str, severity: Severity, message: str
) -> Iterator[Finding]:
    for line in _matching(added, pattern)[:TOLD]:
        yield _finding(file, line, rule, severity, message)


def _matching(added: list[Line], pattern: "re2._Regexp") -> list[Line]:
    """Return lines that match; all are first searched as one text, since few files have a match."""
    texts = [cut(line.text, LINE_LENGTH) for line in added]
    if not pattern.search("\n".join(texts)):
        return []
    return [line for line, text in zip(added, texts, strict=True) if pattern.search(text)]


def _finding(file: FileChange, line: Line, rule: str, severity: Severity, message: str) -> Finding:
    return Finding(SCANNER, rule, "slop", severity, message, file=file.path, line=line.new, quote=quoted(line.text))


def _echoes(comment: Line, code: Line) -> bool:
    """Return whether every word of a comment, of two letters or more, is in the code below it."""
    if not is_comment(comment.text) or is_comment(code.text) or (comment.new or 0) + 1 != code.new:
        return False
    stems = _stems(comment.text)
    return 2 <= len(stems) <= 6 and len(stems - _stems(code.text)) == 0


def _stems(text: str) -> set[str]:
    """Return the beginnings of the words: `counter` and `counts` are equal."""
    words = (word.lower()[:4] for word in WORD.findall(cut(text, LINE_LENGTH)))
    return {word for word in words if len(word) > 2} - {"the", "and", "for", "this", "that", "with"}


def _copied(files: list[FileChange]) -> Iterator[Finding]:
    """Find BLOCK added lines of code that are added twice, unless they are only ends of blocks."""
    seen: Counter[tuple[str, ...]] = Counter()
    for file in files:
        texts = [(line, "".join(cut(line.text, LINE_LENGTH).split())) for line in file.added()]
        long_lines = [(line, text) for line, text in texts if len(text) > 3]
        for start in range(len(long_lines) - BLOCK + 1):
            block = tuple(text for _, text in long_lines[start : start + BLOCK])
            if seen[block] and len(set(block)) > BLOCK // 2 and role(file.path) == "code":
                yield _finding(
                    file, long_lines[start][0], "copied-block", Severity.LOW, "The same block of lines is added twice."
                )
                return
            seen[block] += 1
