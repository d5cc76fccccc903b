"""Read the cells of a notebook as code: rows of JSON become rows of Python and of shell. Pure and bounded."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import re2

from scoring.diff.budget import spend
from scoring.diff.change import FileChange, Hunk, Line
from scoring.scanners._text import Language, language_of_file

LINE_LENGTH = 20_000  # characters of a row that are read
_KEY = re2.compile(r'^\s*"(cell_type|source|outputs|text|text/\w+|traceback|metadata|data|name)"\s*:\s*(.*)$')
_TEXT = re2.compile(r'^[\s\[]*("(?:[^"\\]|\\.)*"(?:\s*,\s*"(?:[^"\\]|\\.)*")*)[\s\],]*$')
_CELL_BEGINS = re2.compile(r"^\s*\{\s*$")
_PROSE_CELL = re2.compile(r'^"(markdown|raw)"')
_SHELL_CELL = re2.compile(r"^%%(?:bash|sh|system|script\s+(?:ba)?sh)\b")
_SHELL_ROW = re2.compile(r"^\s*(?:\w+\s*=\s*)?(?:!+|%(?:sx|system|sc)\s)\s*(.*)")
_SYSTEM = re2.compile(r"get_ipython\(\)\.(?:system|getoutput)\(\s*(?:\"([^\"]*)\"|'([^']*)')")
_MAGIC = re2.compile(r"^\s*[%?]")

Kind = Literal["python", "shell"]


def read_as(file: FileChange) -> Iterator[tuple[FileChange, Language]]:
    """Yield a file with the language of its rules, and a notebook again in each language of its cells."""
    yield file, language_of_file(file)
    if file.path.lower().endswith(".ipynb"):
        for kind in ("python", "shell"):
            yield replace(file, hunks=tuple(_cells(hunk, kind) for hunk in file.hunks)), kind


def _cells(hunk: Hunk, kind: Kind) -> Hunk:
    """Turn each row of a cell into code of this kind, and every other row into an empty one.

    A cell whose kind is above the hunk or below its source counts as code.
    """
    is_prose = is_output = is_shell = False
    lines: list[Line] = []
    for line in hunk.lines:
        spend()
        text = line.text[:LINE_LENGTH]
        if _CELL_BEGINS.search(text):
            is_prose = is_output = is_shell = False
        if key := _KEY.search(text):
            text, is_shell = key[2], False
            is_output = key[1] not in ("cell_type", "source")
            is_prose = bool(_PROSE_CELL.search(text)) if key[1] == "cell_type" else is_prose
            text = "" if key[1] == "cell_type" else text
        code = "" if is_prose or is_output else _code(text)
        is_shell = is_shell or _SHELL_CELL.search(code) is not None
        lines.append(replace(line, text=_as(kind, code, is_shell=is_shell)))
    return replace(hunk, lines=tuple(lines))


def _as(kind: Kind, code: str, *, is_shell: bool) -> str:
    row, called = _SHELL_ROW.search(code), _SYSTEM.search(code)
    if kind == "shell":
        if is_shell and not _SHELL_CELL.search(code):
            return code
        return row[1] if row else (called[1] or called[2] or "") if called else ""
    return "" if is_shell or row or _MAGIC.search(code) else code


def _code(row: str) -> str:
    """Return the code in a row of JSON, several rows of it as statements in one; "" where there is none."""
    match = _TEXT.search(row)
    if match is None:
        return ""
    try:
        texts = json.loads(f"[{match[1]}]")
    except ValueError:
        return ""
    whole = "".join(texts).encode("utf-8", "replace").decode()  # JSON may contain half a surrogate pair
    return "; ".join(whole.rstrip("\n").split("\n"))
