"""The text of a change for scanners: its languages, its lines of code, joined texts with the way back to lines.

`AddedText` holds all that a change adds, so that a pattern reads it in one call. `fragment_of` turns the new side of a
hunk into a text that a tolerant parser can read. A file's language follows from its name or first line; code is
separated from comments and prose line by line and cautiously, since hunks begin anywhere. Pure.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

import re2

from scoring.diff.budget import spend
from scoring.diff.change import Change, FileChange, Hunk, Line
from scoring.diff.globs import clean_path, first_match
from scoring.diff.paths import role
from scoring.scanners._finding_helpers import cut
from scoring.scanners.submission import Submission
from scoring.scanners.whole_files import NewSide, removed_lines


@dataclass(frozen=True, slots=True)
class Place:
    """The origin of a line of the text; without file and line it comes from a text beside the change."""

    file: FileChange | None
    line: Line | None


@dataclass(frozen=True, slots=True)
class AddedText:
    """Lines joined by a line feed. `starts[i]` is the offset at which the line of `places[i]` begins."""

    text: str
    starts: tuple[int, ...]
    places: tuple[Place, ...]

    def index(self, offset: int) -> int:
        """Return the number of the line, from 0, at this offset."""
        return bisect_right(self.starts, offset) - 1

    def line(self, index: int) -> str:
        """Return the text of one line."""
        start = self.starts[index]
        end = self.starts[index + 1] - 1 if index + 1 < len(self.starts) else len(self.text)
        return self.text[start:end]


def added_text(submission: Submission) -> AddedText:
    """Join every added line of the change, then title, description, discussion and the messages of its mails."""
    places, lines = [], []
    for file in submission.change.files:
        spend()
        for line in file.added():
            places.append(Place(file, line))
            lines.append(line.text.replace("\n", " "))
    for text in said(submission):
        for line in text.split("\n"):
            places.append(Place(None, None))
            lines.append(line)
    starts, offset = [], 0
    for line in lines:
        starts.append(offset)
        offset += len(line) + 1
    return AddedText("\n".join(lines), tuple(starts), tuple(places))


def removed_text(submission: Submission) -> str:
    """Join every removed line of the change by line feeds."""
    return "\n".join(line.text for file in submission.change.files for line in file.removed())


def said(submission: Submission) -> Iterator[str]:
    """Yield the non-empty texts beside the change: title, description, discussion, commit messages."""
    yield from filter(None, (submission.title, submission.description, *(text for _, text in submission.discussion)))
    for mail in submission.change.mails:
        yield from filter(None, (mail.subject, mail.message))


Language = Literal[
    "python",
    "javascript",
    "go",
    "rust",
    "php",
    "ruby",
    "java",
    "c",
    "csharp",
    "kotlin",
    "lua",
    "shell",
    "powershell",
    "perl",
    "sql",
    "template",
    "config",
    "other",
]

# The names of ast-grep. TypeScript is read as TSX, in which its old type assertions `<T>value` are elements. C is read
# as C++, which includes its expressions.
GRAMMARS = {
    "python": "python",
    "javascript": "tsx",
    "go": "go",
    "rust": "rust",
    "php": "php",
    "ruby": "ruby",
    "java": "java",
    "c": "cpp",
    "csharp": "csharp",
    "kotlin": "kotlin",
    "lua": "lua",
}
NAMES: dict[Language, tuple[str, ...]] = {
    "python": ("*.py", "*.pyi", "*.pyw", "*.pyx", "sconstruct", "wscript"),
    "javascript": ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.ts", "*.tsx", "*.mts", "*.cts"),
    "go": ("*.go",),
    "rust": ("*.rs",),
    # Blade's templates come first: their markup is not PHP code.
    "template": (
        *("*.blade.php", "*.html", "*.htm", "*.xhtml", "*.jinja", "*.jinja2", "*.j2", "*.erb", "*.rhtml", "*.ejs"),
        *(
            "*.vue",
            "*.svelte",
            "*.hbs",
            "*.handlebars",
            "*.mustache",
            "*.njk",
            "*.twig",
            "*.liquid",
            "*.haml",
            "*.slim",
        ),
        *(
            "*.pug",
            "*.jade",
            "*.jsp",
            "*.jspx",
            "*.ftl",
            "*.cshtml",
            "*.razor",
            "*.tmpl",
            "*.gohtml",
            "*.astro",
            "*.svg",
        ),
    ),
    "php": ("*.php", "*.php3", "*.php4", "*.php5", "*.php7", "*.phtml", "*.phar", "*.inc", "*.module"),
    "ruby": ("*.rb", "*.rake", "*.gemspec", "*.ru", "rakefile", "gemfile", "vagrantfile", "fastfile", "podfile"),
    "java": ("*.java",),
    "c": ("*.c", "*.h", "*.cc", "*.cpp", "*.cxx", "*.hpp", "*.hh", "*.hxx", "*.ino"),
    "csharp": ("*.cs", "*.csx"),
    "kotlin": ("*.kt", "*.kts"),
    "lua": ("*.lua",),
    "shell": (
        *("*.sh", "*.bash", "*.zsh", "*.ksh", "*.bats", "*.command", ".bashrc", ".bash_profile", ".zshrc", ".profile"),
        *(".envrc", "/debian/*inst", "/debian/*rm", "/.husky/*", "/.githooks/*", "/githooks/*"),
    ),
    "powershell": ("*.ps1", "*.psm1", "*.psd1", "*.bat", "*.cmd"),
    "perl": ("*.pl", "*.pm", "*.t", "*.cgi"),
    "sql": ("*.sql", "*.pgsql", "*.psql", "*.ddl"),
    "config": (
        *(
            "dockerfile*",
            "*.dockerfile",
            "containerfile*",
            "makefile*",
            "gnumakefile",
            "*.mk",
            "justfile",
            "jenkinsfile*",
            "*.yml",
        ),
        *("*.yaml", "*.toml", "*.cfg", "*.ini", "*.conf", "*.json", "procfile", "*.service", "*.tf", "*.gradle"),
        *("*.npmrc", "*.yarnrc", ".cargo/config", "go.mod", "pom.xml", "*.csproj", "*.targets", "*.props"),
        *("cmakelists.txt", "*.cmake", "*.properties"),
    ),
}


def language_of(path: str) -> Language:
    """Return the language whose rules apply; "other" for text in a language without its own rules."""
    clean = clean_path(path).lower()
    return next((language for language, names in NAMES.items() if first_match(names, clean)), "other")


_INTERPRETER = re.compile(
    r"#!\s{0,4}\S{0,200}?(?:/|\benv\s+(?:-\S+\s+)?)(python|node|deno|bun|sh|bash|zsh|dash|ksh|perl|ruby|php|lua|pwsh)[\d.]{0,8}(?:\s|$)"
)
_INTERPRETED: dict[str, Language] = {
    "python": "python",
    "node": "javascript",
    "deno": "javascript",
    "bun": "javascript",
    "perl": "perl",
    "ruby": "ruby",
    "php": "php",
    "lua": "lua",
    "pwsh": "powershell",
}


def language_of_file(file: FileChange) -> Language:
    """Return the language by the file's name, else by the interpreter in its first line, else shell for a program."""
    by_name = language_of(file.path)
    if by_name != "other":
        return by_name
    first_line = next((line.text for hunk in file.hunks for line in hunk.lines if line.new == 1), "")
    interpreter = _INTERPRETER.match(first_line[:300])
    if interpreter:
        return _INTERPRETED.get(interpreter[1], "shell")
    is_program = "100755" in (file.old_mode, file.new_mode) and "." not in file.path.rpartition("/")[2]
    return "shell" if is_program else "other"


CODE_LINE_LENGTH = 2_000
COMMENT = re2.compile(r"^\s*(#|//|/\*|\*|<!--|--\s|;|\"\"\"|''')")
# Matches statements and hardly any sentence of a docstring. Rather than match a sentence it misses a statement.
STATEMENT = re2.compile(
    r"^\s*(async def |def |class \w+[(:{]|import [\w.{*]|from [\w.]+ import |return\b[^.]*$|raise [\w.]+\b|"
    r"(if|elif|for|while|with|except|else|try)\b.*:\s*$|(if|for|while|switch)\s*\(.*[{;]\s*$|const \w|let \w|var \w|"
    r"func [\w(]|pub |fn \w|use [\w:]+;|[\w.\[\]'\"]+(: [\w\[\], |]+)?\s*(=|\+=|-=|:=)\s*\S|[\w.]+\(.*[):,{(]?\s*;?$|"
    r"[})\]]+;?$|@\w)"
)


def is_code_file(file: FileChange) -> bool:
    """Return whether a file is the project's own code, in a language with rules."""
    return language_of_file(file) not in ("other", "config", "template", "sql") and role(file.path) == "code"


def code_files(change: Change) -> list[FileChange]:
    """Return the files of a change that are the project's own code."""
    return [file for file in change.files if is_code_file(file)]


def changed_code(file: FileChange) -> Iterator[Line]:
    """Yield the added and removed lines that look like statements, without comments and blank lines."""
    for hunk in file.hunks:
        spend()
        for line in hunk.lines:
            if line.mark != " " and is_statement(line.text):
                yield line


def is_statement(text: str) -> bool:
    """Return whether a line looks like code that runs."""
    return STATEMENT.search(cut(text, CODE_LINE_LENGTH)) is not None and not is_comment(text)


def is_comment(text: str) -> bool:
    """Return whether a line is a comment, or begins or ends one."""
    return COMMENT.search(cut(text, CODE_LINE_LENGTH)) is not None


LINE_LENGTH = 4_000  # characters: a longer line was not written by a person, and is left out of the parse
DEPTH = 200  # of brackets: rules that look upwards and downwards take quadratic time (.4 s at 2,000)
CONTINUED = frozenset({"shell", "config"})  # languages in which a command continues after a backslash or an operator
# Not after the sign with which YAML begins a text of several lines.
GOES_ON = re.compile(r"(?:\\|&&|[^:\s]\s*\|)\s*$")
CONTINUED_LINES = 50  # of one command
BRACED = frozenset({"javascript", "go", "rust", "php", "java", "c", "csharp", "kotlin"})
BRACE_BELOW = frozenset({"c", "php", "csharp"})  # a function's brace often has its own line
TOLD_ROWS, TOLD_CHARACTERS = 30, 300  # limits of the imports and constants that a hunk gets from other hunks
_TOLD = re.compile(
    r"(?:from [\w.]+ import [\w, ]+$|import [\w., ]+;?$|import\b.*\bfrom\s+[\"']|const\s.*=\s*require\(|"
    r"\s*(?:(?:export|private|public|protected|internal|static|final|readonly|const|val|let|var|local|our|my|pub)\s+)*"
    r"(?:[\w<>\[\]&']+\s+)?\$?[A-Z][A-Z0-9_]{2,}\s*(?::[^=]+)?:?=\s*(?:[a-z]\w*\()?[\"'`{(\[\d].*[\"'`})\]\d]\s*[;,]?\s*$)"
)
_WORD = re.compile(r"\w+")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_IMPORTING = frozenset({"import", "from", "as", "const", "let", "var", "require"})
_BRACKET = re.compile(r"[()\[\]{}]")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_PHP_TAG = re.compile(r"<\?|\?>")
_SECTION = re.compile(r"(\s*)(async def|def|class)\s+(\w+)")
_BRACKETS = b"()[]{}"
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in _BRACKETS)


def fragment_of(hunk: Hunk, language: str, context: Sequence[str] = ()) -> NewSide:
    """Return context and added lines in order, below the file's `context` from other hunks and the open blocks."""
    new_lines: list[Line | None] = [line for line in hunk.lines if line.mark != "-"]
    texts = [_clean(line.text) if line is not None else "" for line in new_lines]
    heads = [*_opening_rows(texts, _clean(hunk.section), language)]
    tags = 1 if heads[:1] == ["<?php"] else 0
    heads = [*heads[:tags], *context, *heads[tags:]]
    closed = [_missing_brackets("\n".join([*heads, *texts]))] if language in BRACED else []
    lines = (*(None for _ in heads), *new_lines, *(None for _ in closed))
    return NewSide("\n".join([*heads, *texts, *closed, ""]), lines, removed_lines([hunk]))


def told_elsewhere(hunks: Sequence[Hunk], hunk: Hunk) -> list[str]:
    """Return one-line imports and constants from a file's other hunks whose names this hunk uses."""
    words = {word for line in hunk.lines if line.mark != "-" for word in _WORD.findall(line.text[:LINE_LENGTH])}
    lines = (line for other in hunks if other is not hunk for line in other.lines if line.mark != "-")
    short = (line.text for line in lines if len(line.text) <= TOLD_CHARACTERS and _TOLD.match(line.text))
    return [_clean(text).strip() for text in islice((text for text in short if _defines(text, words)), TOLD_ROWS)]


def _defines(text: str, words: set[str]) -> bool:
    """Return whether an import or a constant defines one of these words."""
    defined = _CONSTANT.findall(text.partition("=")[0]) or _WORD.findall(text)
    return not words.isdisjoint(word for word in defined if word not in _IMPORTING)


def _opening_rows(texts: list[str], section: str, language: str) -> list[str]:
    """Return the rows that are needed above a hunk: tag, the function that git names for it, blocks."""
    if language == "python":
        return _python_blocks(texts, section)
    tag = _php_tag(texts) if language == "php" else []
    if language in BRACED and section.rstrip().endswith("{"):
        return [*tag, section]
    if language in BRACE_BELOW and section.rstrip().endswith(")"):
        is_open = next((text.strip() for text in texts if text.strip()), "") == "{"
        return [*tag, section if is_open else f"{section} {{"]
    return tag


def _php_tag(texts: list[str]) -> list[str]:
    """Return the tag that is needed above code that begins within a block of PHP."""
    first_tag = _PHP_TAG.search("\n".join(texts))
    return [] if first_tag and first_tag[0] == "<?" else ["<?php"]


def _missing_brackets(text: str) -> str:
    """Return the closing brackets that a text lacks, which a parser would report as an error.

    Brackets in strings and comments count too; one closing bracket too many is harmless.
    """
    stack: list[str] = []
    for bracket in _BRACKET.findall(text):
        if bracket in _CLOSING:
            stack.append(_CLOSING[bracket])
        elif stack and stack[-1] == bracket:
            stack.pop()
    return "".join(reversed(stack[-DEPTH:]))


def cleaned(side: NewSide) -> NewSide:
    """Return the new side of a whole file as the parser accepts it, row by row."""
    return replace(side, text="\n".join(_clean(text) for text in side.text.split("\n")))


def continued(lines: list[Line]) -> list[Line]:
    """Join each command over several lines into one, with the number of its first line."""
    commands: list[list[Line]] = []
    is_open = False
    for line in lines:
        if not (is_open and line.new == (commands[-1][-1].new or 0) + 1 and len(commands[-1]) < CONTINUED_LINES):
            commands.append([])
        commands[-1].append(line)
        is_open = GOES_ON.search(line.text[-40:]) is not None
    return [_join_command(command) for command in commands if len(command) > 1]


def _join_command(command: list[Line]) -> Line:
    texts = [line.text.strip().removesuffix("\\") for line in command]
    return replace(command[0], text=" ".join(texts)[:LINE_LENGTH])


def is_too_deep(text: str) -> bool:
    """Return whether brackets nest deeper than DEPTH, counting those in strings and comments too."""
    depth = 0
    for bracket in text.encode("utf-8", "replace").translate(None, _NO_BRACKETS):
        depth = depth + 1 if bracket in b"([{" else max(depth - 1, 0)
        if depth > DEPTH:
            return True
    return False


def _clean(text: str) -> str:
    if len(text) > LINE_LENGTH:
        return ""
    return text.replace("\r", "").encode("utf-8", "replace").decode().replace("\0", " ")


def _python_blocks(texts: list[str], section: str) -> list[str]:
    """Return heads of the blocks around the first line, outermost first, for each depth of later lines.

    `section` is the function that git names for the hunk: it is placed above where the first line is deeper than it.
    """
    heads: list[str] = []
    lowest = first = None
    for text in texts:
        bare = text.lstrip()
        if not bare or bare.startswith("#"):
            continue
        indent = len(text) - len(bare)
        first = indent if first is None else first
        if lowest is not None and indent < lowest:
            heads.append(" " * indent + _head(bare))
        lowest = indent if lowest is None else min(lowest, indent)
    if lowest:
        heads.append("if True:")
    return _insert_function(heads[::-1], section, first or 0)


def _insert_function(heads: list[str], section: str, first: int) -> list[str]:
    """Insert the head of the function around the first line among the heads of the blocks."""
    match = _SECTION.match(section)
    if match is None or len(match[1]) >= first:
        return heads
    indent = len(match[1])
    head = section if section.rstrip().endswith(":") else f"{match[1]}{match[2]} {match[3]}():"
    above = [block_head for block_head in heads if len(block_head) - len(block_head.lstrip()) < indent]
    deeper = [block_head for block_head in heads if len(block_head) - len(block_head.lstrip()) > indent]
    same_depth = [
        block_head
        for block_head in heads
        if len(block_head) - len(block_head.lstrip()) == indent and block_head.strip() != "if True:"
    ]
    return [
        *above,
        *(["if True:"] if indent and not above else []),
        *same_depth,
        *([] if same_depth else [head]),
        *deeper,
    ]


def _head(line: str) -> str:
    """Return the head that a line needs above it: `except` follows a `try`, `else` an `if`."""
    return "try:" if line.startswith(("except", "finally")) else "if True:"
