"""The pages that people read, taken apart: their commands, tables, links and what they name."""

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.sources import PROJECT

PAGES = (
    *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((PROJECT / "docs").glob("*.md")),
)
# A command that no test runs as it stands says what it needs, behind a #.
NEEDS = re.compile(r"needs (the network|a person|a container runtime|systemd|time)$")
_BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_MANAGE = re.compile(r"manage\.py ([a-z_]+)((?: --[a-z-]+)*)")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a ```sh block: the command, and what stands behind its #."""

    page: str
    command: str
    comment: str

    @property
    def is_marked(self) -> bool:
        """Whether it says that it needs what no test has."""
        return NEEDS.search(self.comment) is not None

    def manage(self) -> list[str] | None:
        """Name and arguments of the management command that it is; None for any other."""
        before, found, rest = self.command.partition("manage.py ")
        own, *_ = re.split(r" (?:>|&&|\|) ", rest)  # what the shell does with its output is not its own
        return shlex.split(own) if found and before == '"$DATA_ROOT/venv/bin/python" ' else None

    def make(self) -> str | None:
        """The target, where it is one of make's; None for any other command."""
        words = shlex.split(self.command)
        return words[1] if words[0] == "make" else None


def text_of(page: str) -> str:
    """A page by its path in the project."""
    return (PROJECT / page).read_text()


def block_below(page: str, heading: str) -> str:
    """The first ```sh block of the section with this heading."""
    section = text_of(page).split(f"# {heading}\n", 1)[1]
    found = _BLOCK.search(section)
    assert found is not None, f"{page} has no commands below {heading}"
    return found[1]


def lines_of(block: str, page: str) -> Iterator[Line]:
    """The commands of a block, one a line; a # that stands alone begins the comment."""
    for text in block.splitlines():
        command, _, comment = text.strip().partition(" #")
        if command.strip():
            yield Line(page, command.strip(), comment.strip())


@cache
def commands() -> tuple[Line, ...]:
    """Every command in a ```sh block of any page."""
    return tuple(
        line for page in PAGES for block in _BLOCK.findall(page.read_text()) for line in lines_of(block, name(page))
    )


def mentions() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Page, management command and the options straight behind it, wherever a page speaks of one."""
    for page in PAGES:
        for command, options in _MANAGE.findall(page.read_text()):
            yield name(page), command, tuple(options.split())


def rows_below(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table of a section, without its head."""
    section = text_of(page).split(f"# {heading}\n", 1)[1].split("\n#", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def spans(text: str) -> list[str]:
    """What stands in `code` spans, outside blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def name(page: Path) -> str:
    """The path of a page in the project."""
    return page.relative_to(PROJECT).as_posix()


@cache
def words_of_tests() -> frozenset[str]:
    """Every text that a test hands to a call, such as the name of the command that it runs."""
    found: set[str] = set()
    for path in (PROJECT / "tests").rglob("*.py"):
        text = path.read_text()
        if path.parent.name != "docs" and re.search(r"call_command|manage\(|runs\.|\brun\(|start\(", text):
            calls = (one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call))
            found |= {
                one.value
                for call in calls
                for one in call.args
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
    return frozenset(found)
