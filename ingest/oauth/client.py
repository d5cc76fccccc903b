"""This site as a client: the two documents that it publishes about itself, and the public client of one's own machine.

A confidential client has a public https address and a key. The loopback client has neither: its name holds what its
document would say (atproto.com/specs/oauth, "Localhost Client Development").
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from joserfc.jwk import ECKey

from ingest.oauth.proofs import ALGORITHM, public_jwk

METADATA_PATH, JWKS_PATH, CALLBACK_PATH = "/oauth/client-metadata.json", "/oauth/jwks.json", "/oauth/callback"
LOOPBACK = "http://localhost"


@dataclass(frozen=True, slots=True)
class Client:
    """A client as servers know it. `scope` is everything that it may ever ask; `key` is None for a public client."""

    client_id: str
    redirect_uri: str
    scope: str
    key: ECKey | None = field(default=None, repr=False)

    @property
    def kid(self) -> str:
        """Return the name of the key that a session is bound to for its life; "" for a public client."""
        return str(self.key.kid) if self.key else ""

    def with_key(self, key: ECKey) -> "Client":
        """Return the same client with the key that began a session."""
        return replace(self, key=key)


def make_site_client(public_origin: str, scope: str, key: ECKey) -> Client:
    """Return the confidential client of a site at an https origin."""
    return Client(f"{public_origin}{METADATA_PATH}", f"{public_origin}{CALLBACK_PATH}", scope, key)


def make_loopback_client(port: int, scope: str) -> Client:
    """Return the public client of a site on the person's own machine. Servers ignore the port of its address."""
    redirect_uri = f"http://127.0.0.1:{port}{CALLBACK_PATH}"
    registered = {"redirect_uri": f"http://127.0.0.1{CALLBACK_PATH}", "scope": scope}
    return Client(f"{LOOPBACK}?{urlencode(registered, quote_via=quote)}", redirect_uri, scope)


def client_metadata(public_origin: str, scope: str, name: str) -> dict[str, Any]:
    """Return the document that stands at the id of the confidential client of a site. Servers show its `name`."""
    return {
        "client_id": f"{public_origin}{METADATA_PATH}",
        "client_name": name,
        "client_uri": public_origin,
        "application_type": "web",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "redirect_uris": [f"{public_origin}{CALLBACK_PATH}"],
        "scope": scope,
        "dpop_bound_access_tokens": True,
        "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_signing_alg": ALGORITHM,
        "jwks_uri": f"{public_origin}{JWKS_PATH}",
    }


def key_set(keys: Iterable[ECKey]) -> dict[str, Any]:
    """Return the public halves of the keys in use, also of those that only older sessions need."""
    return {"keys": [public_jwk(key) for key in keys]}
