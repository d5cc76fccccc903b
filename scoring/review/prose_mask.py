"""Masks the words in code for the first pass of a model, so that no sentence of the author can persuade it.

Letters and digits of comments, docstrings, strings of prose and prose files become MASK; lines, columns, punctuation
and code stay. A hunk may begin inside a comment or a string, so its text is parsed once for each possible beginning
and masked where all parses agree: a forged beginning cannot hide code. Runs of words that no line of code has are
masked everywhere.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import re2

from scoring.diff.change import FileChange, Hunk, Line
from scoring.diff.globs import clean_path, first_match
from scoring.diff.paths import Rank, has_role, is_language, rank
from scoring.scanners._text import GRAMMARS as RULE_GRAMMARS
from scoring.scanners._text import NAMES, Language, is_too_deep

if TYPE_CHECKING:
    from ast_grep_py import SgNode

MASK = "x"
PARSED_CHARACTERS = 200_000  # of one side of a hunk: more than a model is given of all files together
NESTED = 30  # depth of strings within strings that are examined: the cost grows with it
STRING_WORDS = 3  # in a string of prose
WORD_LENGTH = 3  # mean letters of a word in a name that is a sentence
NAME_WORDS = 6  # in an identifier or a part of a path that is a sentence
# Words beside each other that no line of code has, by grammar; keywords do not count.
RUN_WORDS = {"python": 2, "tsx": 2, "json": 2, "bash": 5, "ruby": 5, "elixir": 5, "html": 3, "yaml": 3}
SECTION_WORDS = 3  # in the text behind @@, which git does not check
RUN, RUN_UNKNOWN = 3, 5  # of any other grammar, and of a file without one
_AS_RULES: tuple[Language, ...] = ("python", "javascript", "go", "rust", "java", "kotlin", "csharp", "ruby", "lua")
GRAMMARS: dict[str, tuple[str, ...]] = {
    **{RULE_GRAMMARS[language]: NAMES[language] for language in _AS_RULES},
    "c": ("*.c", "*.h"),
    "cpp": ("*.cc", "*.cpp", "*.cxx", "*.hpp", "*.hh"),
    "swift": ("*.swift",),
    "php": ("*.php",),
    "bash": ("*.sh", "*.bash", "*.bats"),
    "html": ("*.html", "*.htm", "*.vue", "*.svelte"),
    "css": ("*.css",),
    "json": ("*.json",),
    "yaml": ("*.yml", "*.yaml"),
    "elixir": ("*.ex", "*.exs"),
    "dart": ("*.dart",),
    "hcl": ("*.tf", "*.hcl"),
}
# Not parsed but read line by line: the YAML parser ends the process at 300 nested lists in a line, the Swift parser
# takes 28 s for 1,500 nested comments.
LINE_BY_LINE = frozenset({"yaml", "swift"})
# Openers of comments and strings that a hunk may begin inside; put before a fragment that holds only the end.
OPENERS: dict[str, tuple[str, ...]] = {
    "python": ('"""', "'''"),
    "tsx": ("/*", "`"),
    "html": ("<!--",),
    "go": ("/*", "`"),
    **dict.fromkeys(("rust", "java", "kotlin", "c", "cpp", "csharp", "swift", "css", "dart", "php"), ("/*",)),
}
CLOSERS = {"/*": "*/", "<!--": "-->"}
_HIDDEN = re.compile(r"[^\W_]|[^\x00-\x7f]")
_UNPRINTED = re.compile(r"[^\x00-\x7f]")
# RE2 where a backtracking engine could start at each letter of a run; the input is ASCII only.
_WORD = re2.compile(r"(?:[a-zA-Z]{0,2}[\"'`(]+)?[A-Za-z]+(?:['-][A-Za-z]+)*[\"'`).,;:!?]*")
_JOINED = re2.compile(r"[A-Za-z]{2,}(?:[-_.+,][A-Za-z]{2,}){5,}")
_ESCAPES = re.compile(
    r"(?:\\(?:u\{?[0-9a-fA-F]{2,8}\}?|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2})|&#?\w{1,8};|%[0-9a-fA-F]{2}){4}"
)
_NAME = re.compile(r"\w{18,}")
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]{2,}")
_ANSWER = re.compile(r"\w\W{0,3}[\"']\s{0,9}:\s{0,9}(?:\d|true|false|null|\W{0,3}[\"'\[{])")  # JSON within a string
_RUN = re2.compile(r"[A-Za-z][A-Za-z']+(?:[ \t]+[A-Za-z][A-Za-z']*)+")
_COMMENT_LINE = re.compile(r"\s*(?:#|//|--|;|%|'|\"|\*|/\*|<!--|rem\s|dnl\s)", re.IGNORECASE)
_TRAILING = re.compile(r"\s(?:#|//|--|;|%)\s.*$")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
# Words beside names in some language, without words common in sentences: "this", "by", "then".
_WORDS_OF_LANGUAGES = """
    abstract and as assert async await begin bool break case catch char class const constructor continue declare def
    default defer del delete do double elif else elsif end ensure enum except explicit export extends extern final
    finally float fn for foreach from func function global go goto if impl implements import in include inline inner int
    interface internal into is keyof lambda let long loop match mod module mut namespace new nil none nonlocal not null
    of open operator or override package print private protected protocol pub public raise readonly ref require rescue
    return satisfies short signed sizeof static string struct switch template throw throws trait true false try type
    typedef typename typeof union unless unsigned unsafe use using values var virtual void volatile when where while
    with yield
"""
_KEYWORDS = frozenset(_WORDS_OF_LANGUAGES.split())
# Not the text below <<EOF in a shell or after a bar in YAML: both are mostly commands.
_HOLDS_TEXT = re.compile(r"string|template|quoted|quote_scalar|line_str_text|jsx_text|^text$|attribute_value")
_CODE_WITHIN = re.compile(r"interpol|substitution|expansion|variable|expression|string_start")


def masked_hunks(file: FileChange) -> Iterator[tuple[Hunk, str, Iterator[Line]]]:
    """Yield each hunk with its masked section and lines; lazy, since a reader may stop before the end."""
    hide_all, grammar = is_prose(file.path), grammar_of(file.path)
    for hunk in file.hunks:
        section = mask_text(hunk.section) if hide_all else _without_runs(_without_comments(hunk.section), SECTION_WORDS)
        yield hunk, section, _masked_lines(hunk, grammar, hide_all)


def is_prose(path: str) -> bool:
    """Return whether the path is documentation for people rather than code."""
    return has_role(path, "docs") and rank(path) is Rank.PROSE and not is_language(path)


def grammar_of(path: str) -> str | None:
    """Return the grammar to parse a file with; None: its words are found line by line."""
    clean = clean_path(path).lower()
    return next((grammar for grammar, names in GRAMMARS.items() if first_match(names, clean)), None)


def masked_path(path: str) -> str:
    """Mask each part of the path that is a sentence, except its extension."""
    return "/".join(_masked_part(part) for part in path.split("/"))


def mask_text(text: str) -> str:
    """Mask every letter, digit and non-ASCII character."""
    return _HIDDEN.sub(MASK, text)


def _masked_part(part: str) -> str:
    stem, dot, extension = part.rpartition(".")
    name = stem if dot else part
    if not _is_sentence(name):
        return _UNPRINTED.sub(MASK, part)
    return mask_text(name) + (dot + _UNPRINTED.sub(MASK, extension[:8]) if dot else "")


def _masked_lines(hunk: Hunk, grammar: str | None, hide_all: bool) -> Iterator[Line]:
    """Yield the masked lines of a hunk; a removed line is parsed in the old text, any other in the new one."""
    if hide_all:
        yield from (replace(line, text=mask_text(line.text)) for line in hunk.lines)
        return
    new_texts = _masked_texts([line.text for line in hunk.lines if line.mark != "-"], grammar)
    old_texts = _masked_texts([line.text for line in hunk.lines if line.mark != "+"], grammar)
    for line in hunk.lines:
        texts = [next(side) for side, marks in ((new_texts, " +"), (old_texts, " -")) if line.mark in marks]
        yield line if texts[0] == line.text else replace(line, text=texts[0])


def _masked_texts(texts: Sequence[str], grammar: str | None) -> Iterator[str]:
    text = "\n".join(line_text.replace("\n", " ").replace("\0", " ") for line_text in texts)
    is_parsed = grammar is not None and grammar not in LINE_BY_LINE
    if grammar is not None and is_parsed and len(text) <= PARSED_CHARACTERS and not is_too_deep(text):
        text = _without_words(text, grammar)
    words = RUN_UNKNOWN if grammar is None else RUN_WORDS.get(grammar, RUN)
    for line in text.split("\n"):
        yield _without_runs(line if is_parsed else _without_comments(line), words)


def _without_comments(line: str) -> str:
    """Mask what looks like a comment or a quoted sentence in a line that is not parsed."""
    if _COMMENT_LINE.match(line):
        return mask_text(line)
    line = _QUOTED.sub(lambda match: mask_text(match[0]) if is_prose_text(match[0]) else match[0], line)
    return _TRAILING.sub(lambda match: mask_text(match[0]), line)


def _without_words(text: str, grammar: str) -> str:
    """Mask the characters that are words in every parse of the text."""
    safe = text.encode("utf-8", "replace").decode()  # a lone surrogate is one character either way
    readings = [_flag_words(prefix, safe, grammar) for prefix in _beginnings(safe, grammar)]
    agreed = bytearray(min(flags) for flags in zip(*readings, strict=True)) if len(readings) > 1 else readings[0]
    return "".join(
        MASK if flag and _HIDDEN.match(character) else character for character, flag in zip(text, agreed, strict=True)
    )


def _beginnings(text: str, grammar: str) -> list[str]:
    """Return the possible texts before a fragment; "" for none."""
    if grammar == "php":
        return ["" if "<?php" in text or "<?=" in text else "<?php\n"]
    return ["", *(f"{opener}\n" for opener in OPENERS.get(grammar, ()) if _may_begin_inside(text, opener))]


def _may_begin_inside(text: str, opener: str) -> bool:
    closer = CLOSERS.get(opener)
    if closer is None:
        return text.count(opener) % 2 == 1
    first_opener = text.find(opener)
    return 0 <= text.find(closer) < (first_opener if first_opener >= 0 else len(text))


def _flag_words(prefix: str, text: str, grammar: str) -> bytearray:
    """Return a flag for each character of the text: whether it is in a comment or in a string of prose."""
    from ast_grep_py import SgRoot  # 30 ms, which only a reading by a model has to pay

    flags = bytearray(len(text))
    for start, end in _word_spans(SgRoot(prefix + text, grammar).root()):
        begin, stop = max(start - len(prefix), 0), max(end - len(prefix), 0)
        flags[begin:stop] = b"\1" * (min(stop, len(text)) - min(begin, len(text)))
    return flags


def _word_spans(root: "SgNode") -> Iterator[tuple[int, int]]:
    """Yield start and end of comments and prose in a tree; with a stack, since a tree may be deep."""
    waiting = [(root, 0)]
    while waiting:
        node, nested = waiting.pop()
        kind = node.kind()
        if "comment" in kind:
            yield _node_range(node)
            continue
        children = node.children()
        if kind == "expression_statement" and len(children) == 1 and "string" in children[0].kind():
            yield _node_range(children[0])  # a docstring, however short
            continue
        holds_text = _HOLDS_TEXT.search(kind) is not None
        nested += holds_text
        if holds_text and nested <= NESTED and is_prose_text(node.text()):
            yield from _text_within(node, children)
            children = [child for child in children if _CODE_WITHIN.search(child.kind())]
        waiting += [(child, nested) for child in children]


def _text_within(node: "SgNode", children: Iterable["SgNode"]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a string outside its interpolated code."""
    start, end = _node_range(node)
    for child in children:
        if _CODE_WITHIN.search(child.kind()):
            begin, stop = _node_range(child)
            yield start, begin
            start = stop
    yield start, end


def _node_range(node: "SgNode") -> tuple[int, int]:
    reach = node.range()
    return reach.start.index, reach.end.index


def is_prose_text(text: str) -> bool:
    """Return whether the text is a sentence, not a value: several words, another script, or letters as escapes."""
    if not text.isascii() or _ESCAPES.search(text) or _JOINED.search(text) or _ANSWER.search(text):
        return True
    parts = text.split()
    words = sum(_WORD.fullmatch(part) is not None for part in parts)
    return words >= STRING_WORDS and words > len(parts) / 2


def _without_runs(line: str, run_length: int) -> str:
    """Mask sentences in names, runs of at least `run_length` words, and other scripts."""
    line = _UNPRINTED.sub(MASK, line)
    if len(line) < 12:
        return line
    line = _NAME.sub(lambda match: mask_text(match[0]) if _is_sentence(match[0]) else match[0], line)
    return _RUN.sub(lambda match: mask_text(match[0]) if _longest_run(match[0]) >= run_length else match[0], line)


def _is_sentence(name: str) -> bool:
    """Return whether a name consists of several words; runs of letters in a random token are shorter."""
    words = _NAME_WORD.findall(name)
    return len(words) >= NAME_WORDS and sum(map(len, words)) >= WORD_LENGTH * len(words)


def _longest_run(words: str) -> int:
    """Return the length of the longest run of words without a keyword."""
    most = run = 0
    for word in words.split():
        run = 0 if word in _KEYWORDS else run + 1
        most = max(most, run)
    return most
