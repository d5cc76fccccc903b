"""Timestamp identifiers, the sortable record keys of AT Protocol (atproto.com/specs/tid)."""

import re
from datetime import datetime

from ingest.clock import from_microseconds

ALPHABET = "234567abcdefghijklmnopqrstuvwxyz"
PATTERN = re.compile(r"[234567abcdefghij][234567abcdefghijklmnopqrstuvwxyz]{12}")


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
