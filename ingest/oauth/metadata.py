"""Read what a data server and its authorization server say of themselves, and check all of it.

Sources: atproto.com/specs/oauth ("Server Metadata"), RFC 8414 and RFC 9728. A server that lacks one of the demanded
abilities could only be signed in at with less protection, so nobody signs in there.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from ingest.atproto.identity import origin
from ingest.errors import OAuthRefused
from ingest.http.fetcher import Fetcher
from ingest.json_decoding import decode_json
from ingest.oauth.proofs import ALGORITHM

DOCUMENT_LIMIT = 100_000  # bytes; the reference server's have 2,300 and 300

T = TypeVar("T")
_ENDPOINT = re.compile(r"(?P<origin>https://[a-z0-9.-]{1,253})/[A-Za-z0-9._~/-]{1,500}")


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """The addresses of a server that passed every check. `issuer` is its origin."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    pushed_request_endpoint: str
    revocation_endpoint: str | None

    @property
    def host(self) -> str:
        return self.issuer.removeprefix("https://")


class _Resource(msgspec.Struct):
    """RFC 9728."""

    resource: str = ""
    authorization_servers: list[str] = []


class _Server(msgspec.Struct):
    """RFC 8414, with the fields of RFC 9126 (pushed requests), RFC 9207 (`iss`) and RFC 9449 (DPoP)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    pushed_authorization_request_endpoint: str
    revocation_endpoint: str | None = None
    scopes_supported: list[str] = []
    response_types_supported: list[str] = []
    grant_types_supported: list[str] = []
    code_challenge_methods_supported: list[str] = []
    token_endpoint_auth_methods_supported: list[str] = []
    token_endpoint_auth_signing_alg_values_supported: list[str] = []
    dpop_signing_alg_values_supported: list[str] = []
    authorization_response_iss_parameter_supported: bool = False
    require_pushed_authorization_requests: bool = False
    require_request_uri_registration: bool = True
    client_id_metadata_document_supported: bool = False


def find_authorization_server(fetcher: Fetcher, pds: str) -> AuthorizationServer:
    """Return the one authorization server that a data server (an https origin) names. Raises FetchProblem."""
    resource = _read_document(fetcher, f"{pds}/.well-known/oauth-protected-resource", _Resource)
    host = pds.removeprefix("https://")
    if resource.resource != pds:
        raise OAuthRefused(f"{host} describes another server than itself, so nobody can sign in there")
    if len(resource.authorization_servers) != 1:
        raise OAuthRefused(f"{host} does not name exactly one server to sign in at, so nobody can sign in there")
    issuer = resource.authorization_servers[0]
    if origin(issuer) != issuer:
        raise OAuthRefused(f"{host} names a server to sign in at that is not an https origin")
    return read_authorization_server(fetcher, issuer)


def read_authorization_server(fetcher: Fetcher, issuer: str) -> AuthorizationServer:
    """Return the checked metadata of the server at an https origin. Raises FetchProblem."""
    server = _read_document(fetcher, f"{issuer}/.well-known/oauth-authorization-server", _Server)
    host = issuer.removeprefix("https://")
    if server.issuer != issuer:
        raise OAuthRefused(f"{host} speaks for another server than itself, so nobody can sign in there")
    if lacking := _list_lacking(server):
        raise OAuthRefused(f"{host} lacks what a safe sign-in needs ({lacking[0]}), so nobody can sign in there")
    endpoints = [
        server.authorization_endpoint,
        server.token_endpoint,
        server.pushed_authorization_request_endpoint,
        *([server.revocation_endpoint] if server.revocation_endpoint is not None else []),
    ]
    for endpoint in endpoints:
        parts = _ENDPOINT.fullmatch(endpoint)
        if parts is None or origin(parts["origin"]) is None:
            raise OAuthRefused(f"{host} names an address that may not be asked, so nobody can sign in there")
    return AuthorizationServer(issuer, *endpoints[:3], server.revocation_endpoint)


def _list_lacking(server: _Server) -> list[str]:
    """Return the demanded abilities that the server does not say it has."""
    demanded: list[tuple[str, Sequence[str], Sequence[str]]] = [
        ("response_types", server.response_types_supported, ["code"]),
        ("grant_types", server.grant_types_supported, ["authorization_code", "refresh_token"]),
        ("code_challenge_methods", server.code_challenge_methods_supported, ["S256"]),
        ("token_endpoint_auth_methods", server.token_endpoint_auth_methods_supported, ["none", "private_key_jwt"]),
        ("token_endpoint_auth_signing_alg", server.token_endpoint_auth_signing_alg_values_supported, [ALGORITHM]),
        ("dpop_signing_alg", server.dpop_signing_alg_values_supported, [ALGORITHM]),
        ("scopes", server.scopes_supported, ["atproto"]),
    ]
    lacking = [name for name, given, needed in demanded if not set(needed) <= set(given)]
    flags = {
        "authorization_response_iss_parameter": server.authorization_response_iss_parameter_supported,
        "pushed_authorization_requests": server.require_pushed_authorization_requests,
        "request_uri_registration": server.require_request_uri_registration,
        "client_id_metadata_document": server.client_id_metadata_document_supported,
    }
    return lacking + [name for name, is_given in flags.items() if not is_given]


def _read_document(fetcher: Fetcher, url: str, shape: type[T]) -> T:
    """Return a document that was answered with 200 and as JSON. Raises FetchProblem."""
    answer = fetcher.exchange("GET", url, {"Accept": "application/json"}, limit=DOCUMENT_LIMIT)
    host = url.removeprefix("https://").partition("/")[0]
    if answer.status != 200:
        raise OAuthRefused(f"{host} offers no sign-in to other sites (it answered {answer.status})")
    if answer.headers["content-type"].partition(";")[0].strip().lower() != "application/json":
        raise OAuthRefused(f"{host} describes its sign-in in something that is not JSON")
    try:
        return decode_json(answer.body, shape)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise OAuthRefused(f"{host} describes its sign-in in JSON that cannot be used") from None
