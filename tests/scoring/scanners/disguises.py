"""Ways to write a text so that a filter does not see it and a model still reads it."""

from collections.abc import Callable

# Code points, since the letters themselves look like the Latin ones that they stand for.
CYRILLIC = dict(
    zip(
        map(ord, "aceopxyiAEOPCTX"),
        "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0456\u0410\u0415\u041e\u0420\u0421\u0422\u0425",
        strict=True,
    )
)


def tags(text: str) -> str:
    """Behind a harmless start in tag characters, which show nothing."""
    return "Tide table" + "".join(chr(0xE0000 + ord(letter)) for letter in text)


def selectors(text: str) -> str:
    """Behind a harmless sign as variation selectors, one a byte."""
    return "\u2705" + "".join(chr(0xE0100 + byte - 16) for byte in text.encode())


def spread(text: str) -> str:
    """A space without width behind every second letter."""
    return "".join(letter + ("\u200b" if place % 2 else "") for place, letter in enumerate(text))


def hyphens(text: str) -> str:
    """A soft hyphen, which shows only at the end of a line, behind every third letter."""
    return "".join(letter + ("\u00ad" if place % 3 == 2 else "") for place, letter in enumerate(text))


def lookalike(text: str) -> str:
    """The same to the eye, in Cyrillic where there is a twin."""
    return text.translate(CYRILLIC)


def mathematical(text: str) -> str:
    """In the bold letters of formulas."""
    return "".join(chr(0x1D41A + ord(letter) - ord("a")) if letter.islower() else letter for letter in text)


def spaced(text: str) -> str:
    """Letters apart, words further apart."""
    return "   ".join(" ".join(word) for word in text.split())


DISGUISES: dict[str, Callable[[str], str]] = {
    function.__name__: function for function in (tags, selectors, spread, hyphens, lookalike, mathematical, spaced)
}
