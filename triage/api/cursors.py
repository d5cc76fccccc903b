"""Where a list goes on: an opaque word that survives what comes and goes between two pages. Pure."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence

import msgspec

LONGEST = 2_048  # characters; an at-uri has 300 or so


class MalformedCursor(ValueError):
    """No cursor of ours; the message is a sentence for who sent it."""


def write_cursor(last: str, told: int) -> str:
    """The word after an item."""
    return urlsafe_b64encode(msgspec.json.encode([last, told])).decode().rstrip("=")


def first_after(items: Sequence[str], cursor: str) -> int:
    """Where in `items` the page after `cursor` begins ("": at the first); MalformedCursor where it is none.

    Where its item stands now, whatever came before it meanwhile; where it is gone, after as many as were told.
    """
    if not cursor:
        return 0
    last, told = _read(cursor)
    try:
        return items.index(last) + 1
    except ValueError:
        return min(told, len(items))


def _read(cursor: str) -> tuple[str, int]:
    try:
        raw = urlsafe_b64decode(cursor[:LONGEST] + "=" * (-len(cursor) % 4))
        last, told = msgspec.json.decode(raw, type=tuple[str, int])
    except (ValueError, RecursionError) as problem:
        raise MalformedCursor("This cursor is not valid. Take it from `next` of the previous page.") from problem
    if told < 0:
        raise MalformedCursor("This cursor is not valid. Take it from `next` of the previous page.")
    return last, told
