"""How scanners make findings of lines, and how they write names that strangers chose."""

from scoring.content.change import Line
from scoring.content.finding import QUOTE_LENGTH

SHOWN = 80  # characters of a name


def shown(name: str) -> str:
    """A name from a change, fit to stand in a sentence: printable ASCII only, what else it holds as escapes, cut."""
    plain = name.encode("ascii", "backslashreplace").decode()
    plain = "".join(character if character.isprintable() else repr(character)[1:-1] for character in plain)
    return plain if len(plain) <= SHOWN else f"{plain[:SHOWN]}…"


def quoted(line: Line) -> str:
    """The line as a finding quotes it."""
    return line.text.strip()[:QUOTE_LENGTH]


def number_of(line: Line) -> int | None:
    """The line's number in the new file, in the old one where it is removed."""
    return line.old if line.mark == "-" else line.new
