"""Guards of a value: whether the code around a statement lets only known values through to it, in any language.

A guard is a row that restricts the value, or one derived from it, to a list, a host, an anchored pattern, harmless
letters, a type, or a folder. It is in the same function, above or below, in the function's annotations, or in a helper
of the same text that gets the value. A row that only checks whether something exists, how it begins or what it contains
is not a guard. Pure and bounded.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Literal

import re2

from scoring.diff.budget import spend
from scoring.scanners._rules import with_patterns
from scoring.scanners._statements import HEAD, NOT_A_HEAD, is_comment

GuardKind = Literal["value", "place"]
ROWS = 60  # of a function, above and below
HELPER_ROWS, HELPERS = 14, 24  # rows of one helper, and number of helpers that are read
ROUNDS = 3  # steps from values to values derived from them
ROW_CHARACTERS = 500
_WORD = re.compile(r"[A-Za-z_]\w*")
_TEXT = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`$]*`")
_KEY = re.compile(r"[\"':]([A-Za-z_]\w{1,30})[\"']?\s*[\])]")  # as in `params[:name]` and `args.get("name")`
_IN_TEMPLATE = re.compile(r"[$#]?\{([^{}]*)\}|\$(\w+)")
_CALLEE = re.compile(r"\b[A-Za-z_]\w*!?(?=\()")
_CALL = re.compile(r"(?:\bnew\s+)?([A-Za-z_]\w*)[!?]?(?:\(|\s+(?=[a-z_@]\w*\s*(?:$|,)))([^;]*)")
_ASSIGNED = re2.compile(
    r"^\s*(?:(?:const|let|var|val|my|auto|final|mut|if|&&|\w[\w<>\[\]?.]*)\s+)*"
    r"[({\[]?\s*([$@]?[A-Za-z_]\w*(?:\s*(?::\s*[$@]?\w+)?(?:\s*=\s*[^,}()=]*)?\s*,\s*[$@]?\w+)*)\s*[})\]]?"
    r"(?:\s*:\s*[\w<>\[\]|.&? ]+)?\s*:?=\s*([^=>\s].*)$"
)
_WRITTEN_TO = re2.compile(r"\b(?:sn?printf|realpath|strl?cpy|strn?cpy)\(\s*(\w+)\s*,(.*)|(.*)\bout (?:var )?(\w+)")
# Results of reading a place, and properties that do not locate it: these do not guard the value that named the place.
_RESULT = re.compile(
    r"(?i)\b(?:fetch|urlopen|urlretrieve|file_get_contents|readfile|popen|exec\w*|read_?(?:file|text|bytes|all|to)\w*)\(|"
    r"(?<![\w.])open\(|\b(?:client|requests|httpx|session|http|https|axios|got|reqwest|rest\w*|conn)(?:\.|::)\w+\(|\.suffix\b|"
    r"splitext|extname|extension|mime|content_?type|\blen\(|\.(?:size|length)\b|\.(?:scheme|protocol)\b|\.status\b[^(]|status_code"
)
_ELSEWHERE = re.compile(
    r"(?i)scheme|protocol|suffix|ext(?:ension|name)?\b|mime|content_?type|\.status\b[^(]|status_code"
)
_PLACE = re.compile(r"(?i)host|netloc|origin|authority")
_TYPED = re.compile(
    r"(\w+)\??\s*:\s*&?(?:Uuid|UUID|uuid\.UUID|Guid|int|Int|Long|u\d\d|i\d\d|usize|number)\b|<(?:int|uuid):(\w+)>|"
    r"\{(\w+):(?:int|guid|regex|alpha)|\b(?:UUID|Guid|int|long|Long|Integer)\s+\$?(\w+)\s*[,)]"
)
_MODULE = re.compile(
    r"\b(?:os|fs|filepath|path(?=\.(?:[jJ]oin|resolve|relative|normalize|\w+name|isAbsolute|Clean|Base)\())\."
)
_ITERATED = re2.compile(r"\bfor\s*(?:my\s+)?\(?(?:const |let |var |final \w+ )?\$?(\w+)\s+(?:in|of)\s+(.*)")
_CLASS = re.compile(r"\s*(?:\w+\s+)*(?:class|struct|impl|trait|interface|module|resource|object|enum|namespace)\b")
_ANNOTATION = re.compile(r"\s*(?:@|#?\[|\*)")
# Words that are not values: common names of requests and frameworks, and folders below which values are put.
_COMMON = re.compile(
    r"(?i)(?:self|this|super|req|request|res|reply|response|resp|ctx|context|params?|args|query|form|body|headers?|cookies|"
    r"values|get|post|data|json|input|call|c|r|w|e|t|q|os|fs|io|http|https|requests|httpx|client|session|"
    r"str|string|bool|boolean|int|err|error|ok|true|false|null|nil|none|not|and|or|in|is|if|else|elif|unless|new|return|raise|"
    r"throw|throws|await|async|const|let|var|val|def|func|fn|fun|function|public|private|protected|static|final|my|for|of|"
    r"pub|open|read|write|include|require|app|router|server|config|settings|utf8|"
    r"timeout|encoding|type|text|content|\w*(?:root|folder|dir|directory|base|prefix|storage|uploads?|target_?dir))"
)
_HELPER_NAME = re.compile(
    r"^_*(?:is|are|in|assert|ensure|check|checked|validate|validated|verify|verified|require|must|guard|guarded|permit|"
    r"safe|safely|clean|sanitize|sanitise|within|inside|confine|contain|contained|allow|allowed|known|legal|valid|resolve_?"
    r"(?:within|inside|under|below))(?:$|(?=[A-Z_]))"
)
_NO_HELPER = re.compile(
    r"(?i)^(?:is_?(?:file|dir\w*|empty\w*|instance|set|string|str|null|none|array|error|abs\w*|readable|writable|link|exist\w*|"
    r"blank|present|numeric\w*|https?|url)|check_?(?:output|call|not_?null\w*|exist\w*|len\w*|size\w*)|require_?(?:non_?null"
    r"\w*|once)|require|in_?(?:put|stall|clude|it|dex)\w*|is|in|are)$"
)


@cache
def _expressions(kind: GuardKind) -> "re2._Regexp":
    options = re2.Options()
    options.log_errors = False
    return re2.compile(with_patterns("{guards-value}" if kind == "value" else "{guards-value}|{guards-place}"), options)


@cache
def _held_in_folder() -> "re2._Regexp":
    return re2.compile(with_patterns("{held-in-folder}"))


@cache
def _no_guards() -> "re2._Regexp":
    return re2.compile(with_patterns("{no-guard}"))


def is_guarded(kind: GuardKind, text: str, rows: Sequence[str], first: int, last: int) -> bool:
    """Return whether the rows around a statement `text`, at these rows, restrict a value in it to known values."""
    spend()
    scope = _scope(rows, first, last)
    words = _related(_words("\n".join((text, *rows[first : last + 1]))), scope)
    if _holds(kind, scope, words):
        return True
    return any(_helps(kind, name, rows) for name, _ in _helpers(scope, words))


def _holds(kind: GuardKind, scope: Iterable[str], words: frozenset[str]) -> bool:
    """Return whether a row restricts one of these values to known ones."""
    if kind == "place" and any(_held_in_folder().search(row) for row in scope):
        return True
    return any(
        (_is_guard(kind, row) and not words.isdisjoint(_words(row))) or not words.isdisjoint(_typed(row))
        for row in scope
    )


@lru_cache(maxsize=4_096)
def _is_guard(kind: GuardKind, row: str) -> bool:
    return _expressions(kind).search(row) is not None and not _is_weak(row)


def _is_weak(row: str) -> bool:
    return _no_guards().search(row) is not None or (_ELSEWHERE.search(row) is not None and not _PLACE.search(row))


def _scope(rows: Sequence[str], first: int, last: int) -> list[str]:
    """Return the rows of the function around a statement, with its annotations and without comments."""
    indent = top = _indent(rows[first])
    start, head = first, None
    for row in range(first - 1, max(first - ROWS, 0) - 1, -1):
        if not rows[row].strip():
            continue
        row_indent = _indent(rows[row])
        is_head = HEAD.match(rows[row]) and not NOT_A_HEAD.match(rows[row])
        if is_head and (row_indent < indent or (row_indent == indent and row < first)):
            if row_indent == indent or _CLASS.match(rows[row]):
                break
            head, start, indent = row, row, row_indent
        elif head is None or row_indent <= indent:
            start = row
            indent = min(indent, row_indent)
        if row_indent < top and head is None and is_head:
            break
    if HEAD.match(rows[first]) and not NOT_A_HEAD.match(rows[first]):
        head, start = first, first
        indent = _indent(rows[first])
    end = last + 1
    while end < min(last + ROWS, len(rows)) and not _ends(rows[end], indent, is_function=head is not None):
        end += 1
    while start > 0 and head is not None and _ANNOTATION.match(rows[start - 1]):
        start -= 1
    return [row[:ROW_CHARACTERS] for row in rows[start:end] if row.strip() and not is_comment(row)]


def _ends(row: str, indent: int, *, is_function: bool) -> bool:
    """Return whether a function whose head has this indentation has ended before the row."""
    if not row.strip() or row.lstrip()[0] in "})]":
        return False
    if is_function:
        return _indent(row) <= indent and row.strip() != "{"
    return HEAD.match(row) is not None and not NOT_A_HEAD.match(row)


def _indent(row: str) -> int:
    return len(row) - len(row.lstrip())


@lru_cache(maxsize=4_096)
def _words(text: str) -> frozenset[str]:
    """Return the names of values in an expression, without constants, functions, texts and framework words."""
    keys = set(_KEY.findall(text))
    inner = " ".join(braced or dollar for braced, dollar in _IN_TEMPLATE.findall(text))
    bare = _CALLEE.sub(" ", _MODULE.sub(" ", f"{_TEXT.sub(' ', text)} {inner}"))
    names = {name for name in _WORD.findall(bare) if not name.isupper()} | keys
    return frozenset(name for name in names if not _COMMON.fullmatch(name))


def _related(words: frozenset[str], scope: Sequence[str]) -> frozenset[str]:
    """Return the values with those that they are derived from and those derived from them."""
    assignments = [assignment for row in scope for assignment in _assigned(row)]
    results = {name for left, _, is_result in assignments if is_result for name in left}
    for _ in range(ROUNDS):
        words = words.union(*(right for left, right, _ in assignments if words & left)) - results
        words = words.union(*(left for left, right, is_result in assignments if words & right and not is_result))
    return words


@lru_cache(maxsize=4_096)
def _assigned(row: str) -> tuple[tuple[frozenset[str], frozenset[str], bool], ...]:
    """Return a row's assignments: names, the values in the expression, and whether it reads from a place."""
    pairs = []
    if match := _ITERATED.search(row) or _ASSIGNED.match(row):
        pairs.append((match[1], match[2]))
    if match := _WRITTEN_TO.search(row):
        pairs.append((match[1], match[2]) if match[1] else (match[4], match[3]))
    return tuple((_words(left), _words(right), _RESULT.search(right) is not None) for left, right in pairs)


@lru_cache(maxsize=4_096)
def _typed(row: str) -> frozenset[str]:
    return frozenset(name for names in _TYPED.findall(row) for name in names if name)


@lru_cache(maxsize=4_096)
def _calls(row: str) -> tuple[tuple[str, str], ...]:
    """Return the functions that a row calls, with the text after each, except those that read from a place."""
    calls, offset = [], 0
    while (match := _CALL.search(row, offset)) is not None:
        offset, name = match.start(2), match[1]
        if not (_RESULT.search(match[2]) or _RESULT.match(f"{name}(") or _COMMON.fullmatch(name)):
            calls.append((name, match[2]))
    return tuple(calls)


def _helpers(scope: Iterable[str], words: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the functions that get a value, with their arguments."""
    calls = (
        (name, arguments) for row in scope for name, arguments in _calls(row) if not words.isdisjoint(_words(arguments))
    )
    yield from islice(dict(calls).items(), HELPERS)


def _helps(kind: GuardKind, name: str, rows: Sequence[str]) -> bool:
    """Return whether a function restricts its argument to known values; for one outside the text its name decides."""
    head = re2.compile(
        rf"\s*(?:[\w<>\[\],.?*&@]+\s+)*(?:(?:def|function|func|fn|fun|sub)\s+(?:\([^)]*\)\s*|self\.)?{name}\b|"
        rf"(?:const|let|var)\s+{name}\s*=|(?:[\w<>\[\],.?*&]+\s+)+\*?{name}\s*\([^;]*\)[^;]*\{{?$)"
    )
    for row_number, row in enumerate(rows):
        if name in row and head.match(row) and not re.match(r"\s*(?:return|await|else|throw|yield)\b", row):
            body = _body(rows, row_number)
            return _holds(kind, body[1:], _related(_words(row), body))
    return _HELPER_NAME.match(name) is not None and _NO_HELPER.match(name) is None


def _body(rows: Sequence[str], head: int) -> list[str]:
    body = [rows[head][:ROW_CHARACTERS]]
    for row in rows[head + 1 : head + HELPER_ROWS]:
        if row.strip() and _indent(row) <= _indent(rows[head]) and row.lstrip()[0] not in "{":
            break
        if not is_comment(row):
            body.append(row[:ROW_CHARACTERS])
    return body
