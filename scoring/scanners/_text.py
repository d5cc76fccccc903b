"""The text of a change as scanners read it: its languages, its lines of code, joined texts with a way back to lines.

`AddedText` holds all that a change adds, so that a pattern reads it in one call. `fragment_of` makes of the new side of
a hunk a text that a tolerant parser can read. A file's language follows from its name or first line; what runs is told
from comments and prose line by line and cautiously, since hunks begin anywhere. Pure.
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
    """The origin of a line of the text. Without file and line: something said beside the change."""

    file: FileChange | None
    line: Line | None


@dataclass(frozen=True, slots=True)
class AddedText:
    """Lines joined by a line feed. `starts[i]` is the offset at which the line of `places[i]` begins."""

    text: str
    starts: tuple[int, ...]
    places: tuple[Place, ...]

    def index(self, offset: int) -> int:
        """Return the number of the line, from 0, that holds this offset."""
        return bisect_right(self.starts, offset) - 1

    def line(self, index: int) -> str:
        """The text of one line."""
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
    """Join every line that the change removes by line feeds."""
    return "\n".join(line.text for file in submission.change.files for line in file.removed())


def said(submission: Submission) -> Iterator[str]:
    """Yield the texts beside the change that are not empty: title, description, discussion, commit messages."""
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

# As ast-grep names them. TypeScript is read as TSX: its old type assertions `<T>value` are read as an element. C is
# read as C++, which has its expressions.
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
    # Blade's templates first: their markup is no code of PHP.
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
    """Return the language whose rules apply; "other" for text in a language without rules of its own."""
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
    named = language_of(file.path)
    if named != "other":
        return named
    first = next((line.text for hunk in file.hunks for line in hunk.lines if line.new == 1), "")
    told = _INTERPRETER.match(first[:300])
    if told:
        return _INTERPRETED.get(told[1], "shell")
    is_program = "100755" in (file.old_mode, file.new_mode) and "." not in file.path.rpartition("/")[2]
    return "shell" if is_program else "other"


CODE_LINE_LENGTH = 2_000
COMMENT = re2.compile(r"^\s*(#|//|/\*|\*|<!--|--\s|;|\"\"\"|''')")
# Matches statements and hardly a sentence of a docstring. It rather misses a statement than takes a sentence for one.
STATEMENT = re2.compile(
    r"^\s*(async def |def |class \w+[(:{]|import [\w.{*]|from [\w.]+ import |return\b[^.]*$|raise [\w.]+\b|"
    r"(if|elif|for|while|with|except|else|try)\b.*:\s*$|(if|for|while|switch)\s*\(.*[{;]\s*$|const \w|let \w|var \w|"
    r"func [\w(]|pub |fn \w|use [\w:]+;|[\w.\[\]'\"]+(: [\w\[\], |]+)?\s*(=|\+=|-=|:=)\s*\S|[\w.]+\(.*[):,{(]?\s*;?$|"
    r"[})\]]+;?$|@\w)"
)


def is_code_file(file: FileChange) -> bool:
    """Return whether a file is code of the project itself, in a language that has rules."""
    return language_of_file(file) not in ("other", "config", "template", "sql") and role(file.path) == "code"


def code_files(change: Change) -> list[FileChange]:
    """Return the files of a change that are code of the project itself."""
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


LINE_LENGTH = 4_000  # characters: what is longer is no line that a person wrote, and is left out of the parse
DEPTH = 200  # of brackets: rules that look upwards and downwards take time in its square (.4 s at 2,000)
CONTINUED = frozenset({"shell", "config"})  # languages in which a command goes on behind a backslash or an operator
# Not behind the sign by which YAML begins a text of several lines.
GOES_ON = re.compile(r"(?:\\|&&|[^:\s]\s*\|)\s*$")
CONTINUED_LINES = 50  # of one command
BRACED = frozenset({"javascript", "go", "rust", "php", "java", "c", "csharp", "kotlin"})
BRACE_BELOW = frozenset({"c", "php", "csharp"})  # a function's brace often stands on a line of its own
TOLD_ROWS, TOLD_CHARACTERS = 30, 300  # of imports and constants that a hunk is given of others
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


def fragment_of(hunk: Hunk, language: str, told: Sequence[str] = ()) -> NewSide:
    """Return context and added lines in order, below what is `told` elsewhere in the file and the open blocks."""
    kept: list[Line | None] = [line for line in hunk.lines if line.mark != "-"]
    texts = [_clean(line.text) if line is not None else "" for line in kept]
    opened = [*_opened(texts, _clean(hunk.section), language)]
    tags = 1 if opened[:1] == ["<?php"] else 0
    opened = [*opened[:tags], *told, *opened[tags:]]
    closed = [_missing_brackets("\n".join([*opened, *texts]))] if language in BRACED else []
    lines = (*(None for _ in opened), *kept, *(None for _ in closed))
    return NewSide("\n".join([*opened, *texts, *closed, ""]), lines, removed_lines([hunk]))


def told_elsewhere(hunks: Sequence[Hunk], hunk: Hunk) -> list[str]:
    """Return the imports and constants of one line that other hunks of a file hold and this one names."""
    words = {word for line in hunk.lines if line.mark != "-" for word in _WORD.findall(line.text[:LINE_LENGTH])}
    lines = (line for one in hunks if one is not hunk for line in one.lines if line.mark != "-")
    short = (line.text for line in lines if len(line.text) <= TOLD_CHARACTERS and _TOLD.match(line.text))
    return [_clean(text).strip() for text in islice((text for text in short if _names(text, words)), TOLD_ROWS)]


def _names(text: str, words: set[str]) -> bool:
    """Return whether an import or a constant gives a name that stands among these words."""
    given = _CONSTANT.findall(text.partition("=")[0]) or _WORD.findall(text)
    return not words.isdisjoint(word for word in given if word not in _IMPORTING)


def _opened(texts: list[str], section: str, language: str) -> list[str]:
    """Return the rows that have to stand above a hunk: tag, function that git names for it, blocks."""
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
    """Return the tag that has to stand above code that begins within a block of PHP."""
    first = _PHP_TAG.search("\n".join(texts))
    return [] if first and first[0] == "<?" else ["<?php"]


def _missing_brackets(text: str) -> str:
    """Return what closes the brackets that a text leaves open, which a parser would else take for an error.

    Brackets in strings and comments count too; one closing bracket too many does no harm.
    """
    stack: list[str] = []
    for bracket in _BRACKET.findall(text):
        if bracket in _CLOSING:
            stack.append(_CLOSING[bracket])
        elif stack and stack[-1] == bracket:
            stack.pop()
    return "".join(reversed(stack[-DEPTH:]))


def cleaned(side: NewSide) -> NewSide:
    """Return the new side of a whole file as the parser takes it, row by row."""
    return replace(side, text="\n".join(_clean(text) for text in side.text.split("\n")))


def continued(lines: list[Line]) -> list[Line]:
    """Join each command that is written over several lines into one, with the number of its first line."""
    commands: list[list[Line]] = []
    is_open = False
    for line in lines:
        if not (is_open and line.new == (commands[-1][-1].new or 0) + 1 and len(commands[-1]) < CONTINUED_LINES):
            commands.append([])
        commands[-1].append(line)
        is_open = GOES_ON.search(line.text[-40:]) is not None
    return [_as_one(command) for command in commands if len(command) > 1]


def _as_one(command: list[Line]) -> Line:
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
    """Return heads of the blocks around the first line, outermost first: one for each depth that later lines return to.

    `section` is the function that git names for the hunk: it stands above where the first line is deeper than it.
    """
    found: list[str] = []
    lowest = first = None
    for text in texts:
        bare = text.lstrip()
        if not bare or bare.startswith("#"):
            continue
        indent = len(text) - len(bare)
        first = indent if first is None else first
        if lowest is not None and indent < lowest:
            found.append(" " * indent + _head(bare))
        lowest = indent if lowest is None else min(lowest, indent)
    if lowest:
        found.append("if True:")
    return _below(found[::-1], section, first or 0)


def _below(heads: list[str], section: str, first: int) -> list[str]:
    """Put the head of the function around the first line among those of the blocks."""
    named = _SECTION.match(section)
    if named is None or len(named[1]) >= first:
        return heads
    indent = len(named[1])
    head = section if section.rstrip().endswith(":") else f"{named[1]}{named[2]} {named[3]}():"
    above = [one for one in heads if len(one) - len(one.lstrip()) < indent]
    deeper = [one for one in heads if len(one) - len(one.lstrip()) > indent]
    same = [one for one in heads if len(one) - len(one.lstrip()) == indent and one.strip() != "if True:"]
    return [*above, *(["if True:"] if indent and not above else []), *same, *([] if same else [head]), *deeper]


def _head(line: str) -> str:
    """Return the head that a line needs above it: `except` follows a `try`, `else` an `if`."""
    return "try:" if line.startswith(("except", "finally")) else "if True:"
