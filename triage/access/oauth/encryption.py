"""Encrypt the secrets of a row: AES-256-GCM with the key in `keys/oauth`, bound to the row that they belong to."""

import json
import secrets
import uuid
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

NONCE_BYTES = 12  # random: with one key 2^32 encryptions are safe, and a site makes a few thousand a day


class Undecryptable(Exception):
    """The secrets of a row are not readable under the key of this drive, or were sealed for another row."""


def seal(row: uuid.UUID, values: Mapping[str, str]) -> bytes:
    """Return the values encrypted for the row with this id."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + _cipher().encrypt(nonce, json.dumps(dict(values)).encode(), row.bytes)


def unseal(row: uuid.UUID, sealed: bytes) -> dict[str, str]:
    """Return the values that were sealed for the row with this id. Raises Undecryptable."""
    try:
        opened = _cipher().decrypt(bytes(sealed[:NONCE_BYTES]), bytes(sealed[NONCE_BYTES:]), row.bytes)
    except (InvalidTag, ValueError):
        raise Undecryptable("these secrets were encrypted under another key or for another row") from None
    return json.loads(opened)


def _cipher() -> AESGCM:
    return AESGCM(bytes.fromhex(str(settings.OAUTH_KEY)))
