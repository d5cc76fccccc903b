"""The language of a file by its name, as far as rules exist for it. Pure."""

import re
from typing import Literal

from scoring.content.change import FileChange
from scoring.content.globs import clean_path, first_match

Language = Literal["python", "javascript", "go", "rust", "shell", "config", "other"]

# As ast-grep names them. TypeScript is read as TSX: its old type assertions `<T>value` are read as an element.
GRAMMARS = {"python": "python", "javascript": "tsx", "go": "go", "rust": "rust"}
NAMES: dict[Language, tuple[str, ...]] = {
    "python": ("*.py", "*.pyi", "*.pyw", "*.pyx", "sconstruct", "wscript"),
    "javascript": ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.ts", "*.tsx", "*.mts", "*.cts"),
    "go": ("*.go",),
    "rust": ("*.rs",),
    "shell": (
        "*.sh",
        "*.bash",
        "*.zsh",
        "*.ksh",
        "*.bats",
        ".bashrc",
        ".profile",
        ".envrc",
        "/debian/*inst",
        "/.husky/*",
    ),
    "config": (
        *("dockerfile*", "*.dockerfile", "containerfile*", "makefile*", "*.mk", "justfile", "jenkinsfile*", "*.yml"),
        *("*.yaml", "*.toml", "*.cfg", "*.ini", "*.conf", "*.json", "procfile", "*.service", "*.tf", "*.gradle"),
    ),
}


def language_of(path: str) -> Language:
    """The language that rules are chosen by; "other" for text of no language that has rules of its own."""
    clean = clean_path(path).lower()
    return next((language for language, names in NAMES.items() if first_match(names, clean)), "other")


_INTERPRETER = re.compile(
    r"#!\s{0,4}\S{0,200}?(?:/|\benv\s+(?:-\S+\s+)?)(python|node|deno|bun|sh|bash|zsh|dash|ksh)[\d.]{0,8}(?:\s|$)"
)
_INTERPRETED: dict[str, Language] = {
    "python": "python",
    "node": "javascript",
    "deno": "javascript",
    "bun": "javascript",
}


def language_of_file(file: FileChange) -> Language:
    """The language by name, else by the interpreter in its first line; a program without either is a shell's."""
    named = language_of(file.path)
    if named != "other":
        return named
    first = next((line.text for hunk in file.hunks for line in hunk.lines if line.new == 1), "")
    told = _INTERPRETER.match(first[:300])
    if told:
        return _INTERPRETED.get(told[1], "shell")
    is_program = "100755" in (file.old_mode, file.new_mode) and "." not in file.path.rpartition("/")[2]
    return "shell" if is_program else "other"
