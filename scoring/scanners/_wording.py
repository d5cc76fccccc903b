"""Words for lines, and for names that strangers chose; shared by scanners."""

from scoring.diff.change import Line
from scoring.types import QUOTE_LENGTH

SHOWN = 80  # characters of a name


def shown(name: str) -> str:
    """Format a name from a change for a sentence: printable ASCII, everything else as escapes, cut to SHOWN."""
    plain = name.encode("ascii", "backslashreplace").decode()
    plain = "".join(character if character.isprintable() else repr(character)[1:-1] for character in plain)
    return plain if len(plain) <= SHOWN else f"{plain[:SHOWN]}…"


def quoted(line: Line) -> str:
    """Return the line as a finding quotes it."""
    return line.text.strip()[:QUOTE_LENGTH]


def number_of(line: Line) -> int | None:
    """Return the line's number in the new file, or in the old one where it is removed."""
    return line.old if line.mark == "-" else line.new
