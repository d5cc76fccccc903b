"""Encrypt a message for one browser, and sign it for the browser's push service. Pure; times are Unix seconds.

The body is one record of aes128gcm (RFC 8188), under a key that only this browser can derive (RFC 8291). The signature
is a VAPID token (RFC 8292): it proves to the push service that the same site sends as made the subscription.
"""

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey

from ingest.http.sockets import is_fetchable
from ingest.labels.signing import load_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

ALGORITHM = "ES256"
POINT, SECRET, SALT = 65, 16, 16  # bytes of an uncompressed point, of a browser's secret, and of a salt
LONGEST_ENDPOINT = 1_000  # characters; those of real push services have 150 to 500
RECORD_SIZE = 4_096  # bytes, which every push service has to take
PADDED = 512  # bytes of every message, so that its length tells the push service nothing
TOKEN_SECONDS = 12 * 3_600  # services refuse more than a day
_BASE64 = re.compile(r"[A-Za-z0-9_-]{1,100}={0,2}")


class MalformedSubscription(ValueError):
    """What a browser sent is no subscription; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Browser:
    """The address of one browser at its push service, its public point (65 bytes) and the secret that it shares (16).

    Whoever knows the address can send to the browser, so it is a secret too.
    """

    endpoint: str = field(repr=False)
    point: bytes = field(repr=False)
    secret: bytes = field(repr=False)


def read_browser(endpoint: str, p256dh: str, auth: str) -> Browser:
    """Return the subscription in what a browser sent. Raises MalformedSubscription, which repeats none of it."""
    if len(endpoint) > LONGEST_ENDPOINT or not is_fetchable(endpoint):
        raise MalformedSubscription(
            "The address of a push service is https://, a host's name and at most 1,000 letters."
        )
    browser = Browser(endpoint, _decode(p256dh, POINT), _decode(auth, SECRET))
    try:
        _read_point(browser.point)
    except ValueError:
        raise MalformedSubscription("The key of this browser is not a point of P-256.") from None
    return browser


def make_key() -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

    return generate_private_key(SECP256R1())


def private_key(secret: str) -> "EllipticCurvePrivateKey":
    """Return this site's key from 64 hex digits. Raises ValueError, whose message does not hold them."""
    return load_key(secret).private


def public_text(key: "EllipticCurvePrivateKey") -> str:
    """Return the public half as browsers take it: 87 letters of base64url."""
    return encode_text(_point_of(key.public_key()))


def encode_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def encrypt(
    message: bytes, browser: Browser, key: "EllipticCurvePrivateKey", salt: bytes, padded: int = PADDED
) -> bytes:
    """Return the body of a push. `key` and `salt` (16 random bytes) are made for this message alone.

    Raises ValueError for a message that does not fit into one record.
    """
    from cryptography.hazmat.primitives.asymmetric.ec import ECDH
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    own_point = _point_of(key.public_key())
    shared = key.exchange(ECDH(), _read_point(browser.point))
    agreed = _derive(shared, browser.secret, b"WebPush: info\x00" + browser.point + own_point, 32)
    content_key = _derive(agreed, salt, b"Content-Encoding: aes128gcm\x00", 16)
    nonce = _derive(agreed, salt, b"Content-Encoding: nonce\x00", 12)
    content = (message + b"\x02").ljust(padded, b"\x00")  # 2 ends the message of the last record; zeros follow
    header = salt + RECORD_SIZE.to_bytes(4, "big") + bytes([POINT]) + own_point
    if len(header) + len(content) + 16 > RECORD_SIZE:
        raise ValueError("the message does not fit into one record")
    return header + AESGCM(content_key).encrypt(nonce, content, None)


def authorize(key: "EllipticCurvePrivateKey", endpoint: str, contact: str, now: int) -> str:
    """Return the header Authorization of one push; `contact` is a mailto: or https: address of this site's operator."""
    address = urlsplit(endpoint)  # https at its usual port, which an origin does not name (RFC 6454, section 6.2)
    claims = {"aud": f"{address.scheme}://{address.hostname}", "exp": now + TOKEN_SECONDS, "sub": contact}
    token = jwt.encode({"typ": "JWT", "alg": ALGORITHM}, claims, ECKey.import_key(key), [ALGORITHM])
    return f"vapid t={token}, k={public_text(key)}"


def _decode(text: str, length: int) -> bytes:
    try:
        data = base64.urlsafe_b64decode(text.rstrip("=") + "==") if _BASE64.fullmatch(text) else b""
    except (binascii.Error, ValueError):
        data = b""
    if len(data) != length:
        raise MalformedSubscription(f"A key of this browser is not {length} bytes of base64url.")
    return data


def _read_point(point: bytes) -> "EllipticCurvePublicKey":
    """Return the public key. Raises ValueError for what lies not on the curve."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey

    return EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)


def _point_of(key: "EllipticCurvePublicKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length, salt, info).derive(secret)
