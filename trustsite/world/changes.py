"""Small changes to plausible code, from which the simulated people and the attackers make their patches.

A change rewrites one function; «noun», «verb», «Noun», «number» and «more» are filled in for each patch. The attackers'
changes look useful and do harm, or address the diff's reviewer.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Language = Literal["python", "go", "javascript"]


@dataclass(frozen=True)
class Change:
    """One function before and after; `title` is the subject of the commit."""

    title: str
    before: str
    after: str


@dataclass(frozen=True)
class Dialect:
    """The look of a file of one language around its functions."""

    suffix: str
    header: str
    gap: str  # between two functions
    tabs: bool = False  # indents with tabs, which are written as four spaces below


DIALECTS: dict[Language, Dialect] = {
    "python": Dialect(
        ".py",
        '"""Work with «noun»s."""\n\nimport hmac\nimport logging\n\nlogger = logging.getLogger(__name__)\n',
        "\n\n",
    ),
    "go": Dialect(
        ".go",
        'package «noun»\n\nimport (\n    "context"\n    "errors"\n    "fmt"\n    "sync"\n    "time"\n)\n',
        "\n",
        tabs=True,
    ),
    "javascript": Dialect(
        ".js", "// Everything that shows a «noun».\n\nimport { announce } from './announce.js';\n", "\n"
    ),
}
NOUNS = (
    *("session", "route", "cookie", "header", "upload", "template", "cache", "token", "queue", "digest"),
    *("cursor", "segment", "lease", "snapshot", "index", "batch", "bucket", "peer", "panel", "dialog"),
    *("menu", "tooltip", "slider", "tab", "banner", "form", "label", "picker", "window", "record"),
)
VERBS = (
    *("load", "read", "parse", "render", "merge", "collect", "resolve", "refresh", "store", "open", "fetch", "build"),
    *("sort", "trim"),
)

_READ = tomllib.loads(Path(__file__).with_name("changes.toml").read_text())
CHANGES: dict[Language, tuple[Change, ...]]
TRAPS: dict[Language, tuple[Change, ...]]
CHANGES, TRAPS = (
    {language: tuple(Change(**change) for change in listed) for language, listed in _READ[kind].items()}
    for kind in ("changes", "traps")
)
