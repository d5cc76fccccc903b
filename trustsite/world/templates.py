"""Material for the patches of the simulated people: words, languages, and the shape of a change.

A change rewrites one function; «noun», «verb», «Noun», «number» and «more» are filled in for each patch.
"""

from dataclasses import dataclass
from textwrap import dedent
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


def change(title: str, before: str, after: str) -> Change:
    """A change whose functions are written with the indentation of the page around them."""
    return Change(title, dedent(before).lstrip("\n"), dedent(after).lstrip("\n"))
