"""Keys, and what this client proves with them: that it is itself, and that a token is its own (RFC 9449, RFC 7523).

Every key is ES256 (P-256). A private key travels as the text of its JWK; it is never shown, logged or sent.
"""

import base64
import hashlib
import secrets
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

ALGORITHM, CURVE = "ES256", "P-256"
ASSERTION_SECONDS = 60  # the reference server refuses an assertion that is older


@dataclass(frozen=True, slots=True)
class Pkce:
    """A secret of one sign-in, and its hash, which the authorization server is told first (RFC 7636)."""

    verifier: str
    challenge: str


def make_key() -> ECKey:
    return ECKey.generate_key(CURVE, {"alg": ALGORITHM, "use": "sig"}, auto_kid=True)


def dump_key(key: ECKey) -> str:
    """Return a private key as text that `load_key` reads."""
    return msgspec.json.encode(key.as_dict(private=True)).decode()


def load_key(text: str) -> ECKey:
    """Return the private key in a text of `dump_key`. Raises ValueError, whose message does not hold the text."""
    try:
        key = ECKey.import_key(msgspec.json.decode(text, type=dict[str, str | list[str]]))
        if key.is_private and key.curve_name == CURVE and key.kid == key.thumbprint():
            return key
    except (JoseError, msgspec.MsgspecError, ValueError, KeyError, TypeError):
        pass  # their messages may hold the text
    raise ValueError("this is not a private key of P-256 that is named by its thumbprint")


def public_jwk(key: ECKey) -> dict[str, Any]:
    """Return the public half with `kid`, as the key set of a client publishes it."""
    return dict(key.as_dict(private=False))


def make_pkce() -> Pkce:
    verifier = secrets.token_urlsafe(48)
    return Pkce(verifier, _hash_text(verifier))


def prove_possession(key: ECKey, method: str, url: str, nonce: str = "", access_token: str = "") -> str:
    """Return a DPoP proof for one request, with the hash of the access token if the request carries one."""
    parts = urlsplit(url)
    claims: dict[str, str | int] = {
        "jti": secrets.token_urlsafe(24),
        "htm": method,
        "htu": f"{parts.scheme}://{parts.netloc}{parts.path or '/'}",
        "iat": int(time.time()),
    }
    if nonce:
        claims["nonce"] = nonce
    if access_token:
        claims["ath"] = _hash_text(access_token)
    jwk = {name: value for name, value in public_jwk(key).items() if name in ("kty", "crv", "x", "y")}
    return jwt.encode({"typ": "dpop+jwt", "alg": ALGORITHM, "jwk": jwk}, claims, key, [ALGORITHM])


def assert_client(key: ECKey, client_id: str, issuer: str) -> str:
    """Return a new assertion that the sender is the client; its audience is the issuer, not the token endpoint."""
    now = int(time.time())
    claims = {"iss": client_id, "sub": client_id, "aud": issuer, "jti": secrets.token_urlsafe(24)}
    times = {"iat": now, "exp": now + ASSERTION_SECONDS}
    return jwt.encode({"alg": ALGORITHM, "kid": key.kid}, claims | times, key, [ALGORITHM])


def _hash_text(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
