"""Signing what is sent, as the Standard Webhooks specification says: symmetric, version 1. Pure.

The receiver computes the same over the headers and the body as it came, compares in constant time, and refuses a
timestamp that is more than five minutes off: so nobody else can send in our name, and nothing sent can be sent again.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping

PREFIX = "whsec_"


def secret_of(key: str) -> str:
    """What the receiver is given, from the key's 64 hex digits."""
    return PREFIX + base64.b64encode(bytes.fromhex(key)).decode()


def signed_headers(key: str, message_id: str, seconds: int, body: bytes) -> Mapping[str, str]:
    """The three headers of one try of a message at `seconds` (Unix time)."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": signature(key, message_id, seconds, body),
    }


def signature(key: str, message_id: str, seconds: int, body: bytes) -> str:
    """`v1,` and the base64 of HMAC-SHA256 over "id.timestamp.body"."""
    signed = f"{message_id}.{seconds}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(bytes.fromhex(key), signed, hashlib.sha256)).decode()
