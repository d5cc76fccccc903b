"""The language of a file by its name, as far as rules exist for it. Pure."""

from typing import Literal

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
