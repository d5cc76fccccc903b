"""A text as a reader sees it: without accents, invisible characters and widths, and where each piece came from."""

import re
import unicodedata
from bisect import bisect_right

_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_DROPPED = {"Cf", "Mn", "Me"}


class Skeleton:
    """`text` in small letters without accents and invisible characters; `origin` leads back into the original."""

    def __init__(self, original: str) -> None:
        self._length = len(original)
        self._begins, self._origins = [0], [0]  # where both run side by side again
        pieces, begin, length = [], 0, 0
        for run in _FOREIGN.finditer(original):
            length += self._keep(pieces, original[begin : run.start()].lower())
            for place in range(run.start(), run.end()):
                self._begins.append(length)
                self._origins.append(place)
                length += self._keep(pieces, folded(original[place]))
            begin = run.end()
            self._begins.append(length)
            self._origins.append(begin)
        self._keep(pieces, original[begin:].lower())
        self.text = "".join(pieces)

    @staticmethod
    def _keep(pieces: list[str], piece: str) -> int:
        pieces.append(piece)
        return len(piece)

    def origin(self, place: int) -> int:
        """The place in the original of a place in the text; of its end, the end."""
        if place >= len(self.text):
            return self._length
        run = bisect_right(self._begins, place) - 1
        return self._origins[run] + place - self._begins[run]


def folded(text: str) -> str:
    """A text in small letters, compatible forms as one, without accents and invisible characters."""
    if text.isascii():
        return text.lower()
    text = text.encode("utf-8", "replace").decode()  # RE2 takes no lone surrogate
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(mark for mark in plain if unicodedata.category(mark) not in _DROPPED)
