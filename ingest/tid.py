"""Timestamp identifiers, the sortable record keys of AT Protocol (atproto.com/specs/tid)."""

import re
from collections.abc import Sequence
from datetime import datetime

from ingest.clock import from_microseconds

ALPHABET = "234567abcdefghijklmnopqrstuvwxyz"
PATTERN = re.compile(r"[234567abcdefghij][234567abcdefghijklmnopqrstuvwxyz]{12}")
IS_TID = f"regexp_full_match(rev, '{PATTERN.pattern}')"  # in SQL, of the column `rev`


def tid_time(key: str) -> datetime | None:
    """The moment a TID names, naive UTC; None where the key is no TID.

    The author chooses it, so it proves nothing: clamp it before use.
    """
    if not PATTERN.fullmatch(key):
        return None
    number = 0
    for letter in key:
        number = number * 32 + ALPHABET.index(letter)
    return from_microseconds(number >> 10)


def ordered(texts: Sequence[str | None]) -> Sequence[str | None]:
    """The texts that are TIDs, in their places; None for the others, which tell no order."""
    told = [text for text in texts if text]
    if len(told) == len(texts) and _are_tids(told):
        return texts
    return [text if text and PATTERN.fullmatch(text) else None for text in texts]


def _are_tids(texts: Sequence[str]) -> bool:
    """As `PATTERN` for each text, in a few passes over them all."""
    others = "".join(texts).encode().translate(None, ALPHABET.encode())
    return set(map(len, texts)) <= {13} and not others and max(texts, default="") < "k"
