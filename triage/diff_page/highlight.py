"""Colours for the lines of a diff: Pygments' tokens as a few classes, within bounds of size and time. Pure.

The text is a stranger's, and a lexer's regular expression may take quadratic time: so only the languages listed here
are read, in short pieces, and once the time is used up the rest stays plain.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from time import thread_time
from typing import Any

LINE = 500  # longest line in characters; a hunk with a longer one stays plain
# The size of a lexer's input, and the longest run of blanks in it. One match of the C++ lexer took 3 s of CPU for
# 12,000 characters that were nearly all blank; within these bounds no hostile piece that was tried exceeded the time
# allowed.
PIECE, BLANK = 4_000, 200
STRIDE = 32  # tokens between two checks of the clock
# Lexers of Pygments by the ending of a file's name, and by the whole name.
LEXERS = {
    **dict.fromkeys(("py", "pyi", "pyw"), "python"),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), "javascript"),
    **dict.fromkeys(("ts", "tsx", "mts", "cts"), "typescript"),
    **dict.fromkeys(("c", "h"), "c"),
    **dict.fromkeys(("cc", "cpp", "cxx", "hpp", "hh"), "cpp"),
    **dict.fromkeys(("sh", "bash", "zsh"), "bash"),
    **dict.fromkeys(("yml", "yaml"), "yaml"),
    **dict.fromkeys(("html", "htm", "svg", "xml"), "xml"),
    **dict.fromkeys(("kt", "kts"), "kotlin"),
    **dict.fromkeys(("ex", "exs"), "elixir"),
    **dict.fromkeys(("ini", "cfg", "conf"), "ini"),
    **dict.fromkeys(("go", "java", "swift", "lua", "sql", "css", "scss", "json", "toml", "nix", "zig"), ""),
    **dict.fromkeys(("rb", "gemfile", "rakefile"), "ruby"),
    **dict.fromkeys(("makefile", "mk"), "make"),
    **dict.fromkeys(("php", "dart"), ""),
    "rs": "rust",
    "cs": "csharp",
    "hs": "haskell",
    "ml": "ocaml",
    "dockerfile": "docker",
}
CLASSES = (  # the first match decides
    ("n", ("Keyword.Constant",)),
    ("k", ("Keyword", "Operator.Word", "Comment.Preproc")),
    ("c", ("Comment", "Literal.String.Doc")),
    ("s", ("Literal.String",)),
    ("n", ("Literal",)),
    ("f", ("Name.Function", "Name.Class", "Name.Decorator", "Name.Tag")),
)
_BLANKS = re.compile(rf"\s{{{BLANK}}}")
Span = tuple[str, str]  # class, "" for none; text
Spans = list[Span]


@dataclass(slots=True)
class Allowance:
    """The remaining characters and CPU seconds of this thread for colouring one page."""

    characters: int = 100_000
    seconds: float = 0.3
    clock: Callable[[], float] = thread_time
    ends: float | None = None

    def over(self) -> bool:
        """Return whether the time is up; it starts with the first call."""
        if self.ends is None:
            self.ends = self.clock() + self.seconds
        return self.clock() > self.ends


def language(path: str) -> str | None:
    """Return the lexer for a file of this name; None where it stays plain."""
    name = path.rpartition("/")[2].lower()
    ending = name.rpartition(".")[2]
    lexer = LEXERS.get(ending)
    return ending if lexer == "" else lexer


def colour(name: str | None, lines: Sequence[str], allowance: Allowance) -> list[Spans]:
    """Return consecutive lines as spans; plain where they are too long or the allowance is used up."""
    if name is None or not lines or max(map(len, lines)) > LINE:
        return [[("", line)] for line in lines]
    return [spans for piece in _pieces(lines) for spans in _piece(name, piece, allowance)]


def _pieces(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the lines in order, in parts of at most PIECE characters; a token across two parts is read as two."""
    start = size = 0
    for index, line in enumerate(lines):
        size += len(line) + 1
        if size > PIECE:
            yield lines[start:index]
            start, size = index, len(line) + 1
    yield lines[start:]


def _piece(name: str, lines: Sequence[str], allowance: Allowance) -> list[Spans]:
    plain, text = [[("", line)] for line in lines], "\n".join(lines)
    if len(text) > allowance.characters or _BLANKS.search(text) or allowance.over():
        return plain
    allowance.characters -= len(text)
    spans = _spans(_lexer(name), text, allowance)
    return spans if spans is not None and _texts(spans) == list(lines) else plain


def _spans(lexer: Any, text: str, allowance: Allowance) -> list[Spans] | None:
    """Return the lexer's spans, line by line; None where the time ran out."""
    lines: list[Spans] = [[]]
    for count, (_, kind, value) in enumerate(lexer.get_tokens_unprocessed(text), 1):
        if count % STRIDE == 0 and allowance.over():
            return None
        first, *others = value.split("\n")
        _add(lines[-1], _class_of(str(kind)), first)
        for line in others:
            lines.append([])
            _add(lines[-1], _class_of(str(kind)), line)
    return lines


def _texts(lines: list[Spans]) -> list[str]:
    """Return the visible text of the spans: a lexer that loses or changes a character is not trusted."""
    return ["".join(text for _, text in line) for line in lines]


def _add(line: Spans, name: str, text: str) -> None:
    if text and line and line[-1][0] == name:
        line[-1] = (name, line[-1][1] + text)
    elif text:
        line.append((name, text))


@lru_cache(maxsize=256)
def _class_of(kind: str) -> str:
    path = kind.removeprefix("Token.") + "."
    return next((name for name, kinds in CLASSES if any(path.startswith(f"{prefix}.") for prefix in kinds)), "")


@lru_cache(maxsize=64)
def _lexer(name: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # .05 s, which the start of the web need not wait for

    return get_lexer_by_name(name)
