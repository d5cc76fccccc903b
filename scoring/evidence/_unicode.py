"""Characters that a reader does not see or mistakes for others."""

import re
import unicodedata
from functools import cache

BIDI = "\u202a-\u202e\u2066-\u2069"  # embeddings, overrides and isolates: they reorder what a reader sees
MARKS = "\u061c\u200e\u200f"  # single marks of direction
ZERO_WIDTH = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0"
)
TAGS = "\U000e0000-\U000e007f"
SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
LINE_BREAKS = "\x0b\x1c-\x1e\x85\u2028\u2029"  # what some readers break a line at, and compilers do not
CONTROLS = "\x00-\x08\x0d\x0e-\x1b\x1f\x7f\x80-\x84\x86-\x9f"

HIDDEN = re.compile(f"[{BIDI}{MARKS}{ZERO_WIDTH}{TAGS}{SELECTORS}{LINE_BREAKS}{CONTROLS}]")
_STRIPPED = re.compile(f"[{BIDI}{MARKS}{ZERO_WIDTH}{SELECTORS}\x00-\x08\x0e-\x1f\x7f]")
_SELECTED = re.compile(f"[{SELECTORS}]{{4,}}")
_TAGGED = re.compile(f"[{TAGS}]+")
_NAMES = {"\x0d": "CARRIAGE RETURN", "\x1b": "ESCAPE", "\x08": "BACKSPACE", "\x00": "NULL", "\x7f": "DELETE"}
# Letters of other scripts that look like a Latin one in most typefaces, from the confusables of Unicode TR 39.
_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "OSMANYA", "GEORGIAN")


def name(character: str) -> str:
    """Return the number and the Unicode name of a character."""
    known = _NAMES.get(character) or unicodedata.name(character, "unnamed character")
    return f"{known} (U+{ord(character):04X})"


def shown(text: str) -> str:
    """Write every hidden character as <U+…>, so that a quote changes the direction of no other text."""
    return HIDDEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


def revealed(text: str) -> str:
    """Return the text as a model reads it: tag characters as ASCII, characters without width left out."""
    plain = _TAGGED.sub(lambda run: "".join([" ", *(chr(ord(tag) - 0xE0000) for tag in run[0]), " "]), text)
    plain = _SELECTED.sub(_spelled, plain)
    return _STRIPPED.sub("", plain)


def _spelled(run: re.Match[str]) -> str:
    """Decode a run of variation selectors, one byte each: the known way to hide text in them."""
    numbers = (ord(selector) for selector in run[0])
    data = bytes(number - 0xFE00 if number < 0x10000 else number - 0xE0100 + 16 for number in numbers)
    return f" {data.decode('utf-8', 'replace')} "


@cache
def confusables() -> dict[int, str]:
    """Return the letters that look like one ASCII letter, for `str.translate`. Takes 40 ms once."""
    from confusable_homoglyphs.confusables import confusables_data

    table = {}
    for character, likes in confusables_data.items():
        letters = [like["c"] for like in likes if like["c"].isascii() and like["c"].isalpha()]
        if len(character) == 1 and letters and character.isalpha() and not character.isascii():
            table[ord(character)] = letters[0]
    return table


def is_foreign_letter(character: str) -> bool:
    """Return whether a letter of another script looks like a Latin one."""
    return ord(character) in confusables() and unicodedata.name(character, "").startswith(_SCRIPTS)
