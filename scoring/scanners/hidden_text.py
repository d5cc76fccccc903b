"""Find names and commands that a change writes unreadably: in base64, as hexadecimal, as numbers or backwards.

`[101, 118, 97, 108]` and `"ZXZhbA=="` both say `eval`. However they are decoded later, in any language, their text is
in the source. Only words are reported that are never hidden by chance: functions that run something, their modules,
shell commands, and addresses.
"""

import base64
import binascii
import codecs
import html
import re
from collections.abc import Iterator
from contextlib import suppress

import re2

from scoring.diff.budget import spend
from scoring.diff.change import FileChange, Line
from scoring.diff.paths import is_lock_file, role
from scoring.scanners._finding_helpers import cut, lowered, quoted, shown, worst_first
from scoring.scanners._text import is_comment
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity

SCANNER = "hidden_text"
LINE_LENGTH = 4_000
TEXT_LENGTH = 2_000  # decoded characters of one hidden text
TEXTS = 20  # of one line
TOLD = 10  # findings in one file

_QUOTED = re2.compile(r"[\"'`]((?:[A-Za-z0-9+/_-]{4})+(?:={1,2})?|[A-Za-z0-9+/_-]{4,}={0,2}|[\w.:/ -]{4,80})[\"'`]")
_NUMBERS = re2.compile(
    r"((?:0x[0-9a-fA-F]{2}|\d{2,3})(?:_?u8|L|\s*as\s+char)?(?:\s*,\s*(?:0x[0-9a-fA-F]{2}|\d{2,3})){3,})"
)
_NUMBER = re.compile(r"0x[0-9a-fA-F]{2}|\d{2,3}")
_ESCAPED = re2.compile(
    r"[\"'`]((?:[\w./:;,()|&<>=+ \-]|%[0-9a-fA-F]{2}|\\x[0-9a-fA-F]{2}|\\u\{?00[0-9a-fA-F]{2}\}?|\\[01][0-7]{2}|"
    r"&#x?[0-9a-fA-F]{2,3};)+)[\"'`]"
)
_ESCAPE = re.compile(r"%([2-7][0-9a-fA-F])|\\x([2-7][0-9a-fA-F])|\\u\{?00([2-7][0-9a-fA-F])\}?|\\([01][0-7]{2})")
FEWEST_ESCAPES = 2  # letters of one text written as numbers
_PIECES = re2.compile(
    r"[\[(]((?:\s*[\"'][\w./:-]{1,8}[\"']\s*,){1,11}\s*[\"'][\w./:-]{1,8}[\"'])\s*,?\s*[\])]\s*\.?\s*(?:join|reduce|concat)"
)
_LETTERS = re2.compile(r"(?:[\"'][\w./:-][\"']\s*,\s*){3,}[\"'][\w./:-][\"']")
_LETTER = re.compile(r"[\"']([\w./:-])[\"']")
_PIECE = re.compile(r"[\"']([\w./:-]{1,8})[\"']")
_HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2}){4,}")
# Functions and modules that run something, alone or at the end of a path of names.
_RUNS = re2.compile(
    r"(?i)(?:[\w\\]+[.\\/:])*(?:eval|exec|execSync|execFile|spawn|system|shell_exec|passthru|popen|proc_open|create_function|"
    r"call_user_func|child_process|subprocess|__import__|builtins|os\.execute|getRuntime|ProcessBuilder|Runtime|"
    r"System\.Diagnostics\.Process|bash|curl|wget|powershell|loadstring|instance_eval|Function|WScript\.Shell|Invoke-Expression|urlopen|XMLHttpRequest)"
)
_COMMAND = re2.compile(
    r"(?i)(?:^|[\s;&|(\"'`])(?:curl|wget)\s+\S|/bin/(?:ba|z|da)?sh\b|/dev/tcp/|\b(?:ba|z|da)?sh\s+-[ci]\b|powershell(?:\.exe)?\s|cmd(?:\.exe)?\s+/c|"
    r"\b(?:eval|exec|system|fetch|require|import|__import__|popen|urlopen)\s*\(|\bimport\s+(?:os|socket|subprocess)\b|"
    r"\b(?:os\.(?:system|popen|environ)|process\.env|child_process|document\.cookie|subprocess\.\w+)|/etc/(?:passwd|shadow)|"
    r"\.ssh/id_|\.aws/credentials|java\.lang\.(?:Runtime|ProcessBuilder)|System\.Diagnostics\.Process"
)
_ADDRESS = re2.compile(r"(?i)(?:https?|wss?|ftp)://[\w.-]+\.[a-z0-9]{2,}(?:[:/?]\S*)?")
_SHORT = frozenset({"Function", "Runtime"})  # everyday words: reported only where decoded


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield a high finding for a hidden name or command, med for an address; less outside of code."""
    findings = [finding for file in submission.change.files for finding in _scan_file(file)]
    yield from worst_first(findings)


def _scan_file(file: FileChange) -> Iterator[Finding]:
    if is_lock_file(file.path) or role(file.path) in ("docs", "generated"):
        return
    count = 0
    for line in file.added():
        spend()
        hidden = _hidden(cut(line.text, LINE_LENGTH)) if count < TOLD and not is_comment(line.text) else None
        severity = _weight(hidden) if hidden else None
        if hidden and severity and role(file.path) != "code":
            severity = lowered(severity)
        if hidden and severity:
            count += 1
            yield _finding(file, line, hidden, severity)


def _weight(hidden: str) -> Severity:
    return Severity.MED if _ADDRESS.fullmatch(hidden) else Severity.HIGH


def _hidden(text: str) -> str | None:
    """Return the first name, command or address that a line hides."""
    for count, decoded in enumerate(_decoded(text)):
        if count >= TEXTS:
            return None
        plain = decoded.strip("\0 \t\r\n")
        if _RUNS.fullmatch(plain) or _COMMAND.search(plain) or _ADDRESS.fullmatch(plain):
            return plain
    return None


def _decoded(text: str) -> Iterator[str]:
    """Yield the decoded texts and lists of a line, where readable."""
    for match in _NUMBERS.finditer(text):
        yield from _of_numbers([int(item, 0) for item in _NUMBER.findall(match[1][:TEXT_LENGTH])])
    for match in _PIECES.finditer(text):
        yield "".join(_PIECE.findall(match[1]))
    for match in _LETTERS.finditer(text):
        yield "".join(_LETTER.findall(match[0]))
    yield "".join(_ESCAPE.sub(_letter, match[1]) for match in _ESCAPED.finditer(text) if _ESCAPE.search(match[1]))
    for match in _ESCAPED.finditer(text):
        letters = [_letter(item) for item in _ESCAPE.finditer(match[1])]
        if sum(letter.isalpha() for letter in letters) >= FEWEST_ESCAPES:
            yield html.unescape(_ESCAPE.sub(_letter, match[1][:TEXT_LENGTH]))
    for match in _QUOTED.finditer(text):
        yield from _of_text(match[1][:TEXT_LENGTH])


def _of_numbers(numbers: list[int]) -> Iterator[str]:
    if all(9 <= number < 127 for number in numbers):
        yield "".join(map(chr, numbers))


def _letter(escape: re.Match[str]) -> str:
    octal = escape[4]
    return chr(int(octal, 8) if octal else int(escape[1] or escape[2] or escape[3], 16))


def _of_text(text: str) -> Iterator[str]:
    if text[::-1] not in _SHORT and not _RUNS.fullmatch(text):
        yield text[::-1]
    if _HEXADECIMAL.fullmatch(text):
        yield from _readable(bytes.fromhex(text))
    if len(text) >= 6:
        padded = text.rstrip("=").translate(str.maketrans("-_", "+/"))
        with suppress(binascii.Error):  # most texts of four letters are not base64
            yield from _readable(base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True))
    turned = codecs.encode(text, "rot13")
    if _COMMAND.search(turned) or (_RUNS.fullmatch(turned) and turned not in _SHORT):
        yield turned


def _readable(data: bytes) -> Iterator[str]:
    """Yield bytes as text where each is a character that a person types."""
    if len(data) >= 4 and all(32 <= byte < 127 or byte in (9, 10, 13) for byte in data):
        yield data.decode("ascii")


def _finding(file: FileChange, line: Line, hidden: str, severity: Severity) -> Finding:
    message = f"This line says {shown(hidden)} in a form that nobody can read or search for."
    return Finding(
        SCANNER, "hidden-text", "security", severity, message, file=file.path, line=line.new, quote=quoted(line.text)
    )
