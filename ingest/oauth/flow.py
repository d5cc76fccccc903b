"""From a handle to a session, and on from there: discover, push the request, redeem the code, refresh, revoke.

Every refusal is an OAuthRefused with one sentence. Whoever signs in must be the account that was asked for, and its
DID, resolved anew, must lead to the server that answered: any server can claim any DID.
"""

import hmac
import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, NoReturn
from urllib.parse import urlencode

import msgspec

from ingest.atproto.identity import Identity, handle_is_verified, read_identity, resolve_handle, why_unresolved
from ingest.atproto.syntax import is_did, parse_handle
from ingest.clock import wall_now
from ingest.errors import FetchProblem, OAuthRefused
from ingest.http.fetcher import Exchanged, Fetcher
from ingest.http.sockets import quoted
from ingest.oauth.client import Client
from ingest.oauth.dpop import DpopSender, Token, decode_answer, read_error
from ingest.oauth.metadata import AuthorizationServer, find_authorization_server, read_authorization_server
from ingest.oauth.proofs import dump_key, load_key, make_key, make_pkce

LONGEST_SECONDS = 86_400  # an access token that claims to live longer is refreshed by then
START_AGAIN = "start the sign-in again"

_RequestUri = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._~:%+/=-]+$", max_length=1_000)]


@dataclass(frozen=True, slots=True)
class Account:
    """An account, and where it signs in. `handle` is None unless its own domain names the DID.

    `claimed_handle` is the one in the account's identity document, unless the handle's domain denies it.
    """

    did: str
    handle: str | None
    pds: str  # https origin
    server: AuthorizationServer
    claimed_handle: str | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that waits for the person. All of it but `address` stays here."""

    address: str = field(repr=False)  # the person visits it
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    key: str = field(repr=False)  # the session's own DPoP key
    did: str
    handle: str | None
    claimed_handle: str | None
    issuer: str
    scope: str


@dataclass(frozen=True, slots=True)
class Grant:
    """A session of a person at their own server. `kid` names the client's key that it is bound to, "" for none.

    `claimed_handle` is known at the sign-in alone, as for an account.
    """

    did: str
    handle: str | None
    pds: str
    issuer: str
    scope: str
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_at: datetime  # naive UTC, of the access token
    key: str = field(repr=False)
    kid: str
    claimed_handle: str | None = None


class _Pushed(msgspec.Struct):
    request_uri: _RequestUri


class _Tokens(msgspec.Struct):
    access_token: Token
    token_type: str
    sub: str
    scope: Annotated[str, msgspec.Meta(max_length=10_000)]
    refresh_token: Token | None = None
    expires_in: int = 300


@contextmanager
def _explained() -> Generator[None]:
    """Turn a problem of the network into a refusal that says what to do."""
    try:
        yield
    except OAuthRefused:
        raise
    except FetchProblem as problem:
        advice = "try again in a minute" if problem.retry else "tell those who run that server"
        raise OAuthRefused(f"{problem}; {advice}", status=problem.status, retry=problem.retry) from None


@_explained()
def discover(fetcher: Fetcher, plc_url: str, name: str) -> Account:
    """Return the account of a handle or DID with its checked server. Nothing is cached. Raises OAuthRefused."""
    text = name.strip()
    handle = None if is_did(text) else parse_handle(text)
    if handle is not None:
        try:
            did = resolve_handle(fetcher, handle)
        except FetchProblem as problem:
            sentence = why_unresolved(fetcher, plc_url, handle, problem).removesuffix(".")
            raise OAuthRefused(sentence, retry=problem.retry) from None
    elif is_did(text):
        did = text
    else:
        raise OAuthRefused("this is neither a handle nor a DID; a handle looks like ana.example.com")
    identity = read_identity(fetcher, plc_url, did)
    if handle is not None and identity.handle != handle:
        raise OAuthRefused(f"{handle} leads to an account that does not call itself so; use its DID, {did}")
    claimed_handle = identity.handle
    if handle is None and claimed_handle is not None:
        with suppress(FetchProblem):  # a DID signs in also while the host of its handle is down
            handle = claimed_handle = claimed_handle if handle_is_verified(fetcher, claimed_handle, did) else None
    return _find_server(fetcher, identity, handle, claimed_handle)


def _find_server(fetcher: Fetcher, identity: Identity, handle: str | None, claimed_handle: str | None) -> Account:
    if identity.pds is None:
        raise OAuthRefused(f"{identity.did} has no data server, so nobody can sign in with it")
    server = find_authorization_server(fetcher, identity.pds)
    return Account(identity.did, handle, identity.pds, server, claimed_handle)


@_explained()
def push_request(sender: DpopSender, client: Client, account: Account, scope: str) -> Begun:
    """Tell the server what will be asked, and return the address that the person visits next. Raises OAuthRefused."""
    key, pkce, state = make_key(), make_pkce(), secrets.token_urlsafe(32)
    fields = {
        "response_type": "code",
        "redirect_uri": client.redirect_uri,
        "scope": scope,
        "state": state,
        "code_challenge": pkce.challenge,
        "code_challenge_method": "S256",
        "login_hint": account.handle or account.did,
    }
    server = account.server
    answer = sender.post_form(client, server.issuer, server.pushed_request_endpoint, fields, key)
    if answer.status not in (200, 201):
        _refuse(server.host, answer)
    pushed = decode_answer(server.host, answer, _Pushed)
    query = urlencode({"client_id": client.client_id, "request_uri": pushed.request_uri})
    address = f"{server.authorization_endpoint}?{query}"
    return Begun(
        address=address,
        state=state,
        verifier=pkce.verifier,
        key=dump_key(key),
        did=account.did,
        handle=account.handle,
        claimed_handle=account.claimed_handle,
        issuer=server.issuer,
        scope=scope,
    )


@_explained()
def redeem(sender: DpopSender, plc_url: str, client: Client, begun: Begun, query: Mapping[str, str]) -> Grant:
    """Return the session that a callback's query leads to. Forget `begun` before: a code asked twice ends the session.

    Raises OAuthRefused.
    """
    code = _read_callback(begun, query)
    identity = read_identity(sender.fetcher, plc_url, begun.did)
    is_same = identity.handle == begun.claimed_handle  # else the account was given another one meanwhile
    handles = (begun.handle, begun.claimed_handle) if is_same else (None, None)
    account = _find_server(sender.fetcher, identity, *handles)
    server = account.server
    if server.issuer != begun.issuer:
        raise OAuthRefused(f"the account moved to another server while you signed in; {START_AGAIN}")
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": client.redirect_uri,
        "code_verifier": begun.verifier,
    }
    answer = sender.post_form(client, server.issuer, server.token_endpoint, fields, load_key(begun.key))
    if answer.status != 200:
        if read_error(answer) == "invalid_grant":
            raise OAuthRefused(f"this sign-in was used already or took too long; {START_AGAIN}", status=answer.status)
        _refuse(server.host, answer)
    return _read_grant(sender, client, account, begun.key, answer)


@_explained()
def refresh(sender: DpopSender, plc_url: str, client: Client, grant: Grant) -> Grant:
    """Return the session with new tokens; store them before their first use, as the old ones are void.

    Raises OAuthRefused; where it is not `ended`, the old tokens may still serve.
    """
    if not grant.refresh_token:
        raise OAuthRefused("your sign-in has ended; sign in again", ended=True)
    if client.kid != grant.kid:
        raise OAuthRefused("this site no longer has the key of your sign-in; sign in again", ended=True)
    identity = read_identity(sender.fetcher, plc_url, grant.did)
    account = _find_server(sender.fetcher, identity, grant.handle, grant.claimed_handle)
    server = account.server
    if server.issuer != grant.issuer:
        raise OAuthRefused("your account moved to another server; sign in again", ended=True)
    fields = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token}
    key = load_key(grant.key)
    try:
        answer = sender.post_form(client, server.issuer, server.token_endpoint, fields, key)
    except FetchProblem as problem:
        if not problem.retry or problem.status is not None:
            raise
        # The answer was lost. If the server made new tokens, it ends the session now; without them it is over anyway.
        answer = sender.post_form(client, server.issuer, server.token_endpoint, fields, key)
    if answer.status != 200:
        if read_error(answer) == "invalid_grant":
            raise OAuthRefused("your sign-in has ended; sign in again", status=answer.status, ended=True)
        _refuse(server.host, answer)
    return _read_grant(sender, client, account, grant.key, answer)


@_explained()
def revoke(sender: DpopSender, client: Client, grant: Grant) -> bool:
    """End the session at the person's server; return False if that server has no way to. Raises OAuthRefused."""
    server = read_authorization_server(sender.fetcher, grant.issuer)
    return _revoke_at(sender, client, server, grant)


def _revoke_at(sender: DpopSender, client: Client, server: AuthorizationServer, grant: Grant) -> bool:
    if server.revocation_endpoint is None:
        return False
    fields = {"token": grant.refresh_token or grant.access_token}
    answer = sender.post_form(client, server.issuer, server.revocation_endpoint, fields, load_key(grant.key))
    if answer.status != 200:
        _refuse(server.host, answer)
    return True


def _read_callback(begun: Begun, query: Mapping[str, str]) -> str:
    """Return the code in the query with which the person's browser came back. Raises OAuthRefused."""
    if not hmac.compare_digest(query.get("state", "").encode(errors="replace"), begun.state.encode()):
        raise OAuthRefused(f"this answer belongs to another sign-in; {START_AGAIN}")
    if query.get("iss") != begun.issuer:
        raise OAuthRefused(f"another server answered than the one that was asked; {START_AGAIN}")
    if query.get("error") == "access_denied":
        raise OAuthRefused("you said no at your own server, so nothing was granted", declined=True)
    if error := query.get("error"):
        host = begun.issuer.removeprefix("https://")
        raise OAuthRefused(f"{host} ended the sign-in ({quoted(error, 60)}); {START_AGAIN}")
    code = query.get("code", "")
    if not 0 < len(code) <= 2_000:
        raise OAuthRefused(f"the answer holds no code; {START_AGAIN}")
    return code


def _read_grant(sender: DpopSender, client: Client, account: Account, key: str, answer: Exchanged) -> Grant:
    """Return the session in an answer, if it is of the right account and kind; else end it. Raises OAuthRefused."""
    server = account.server
    tokens = decode_answer(server.host, answer, _Tokens)
    lifetime = timedelta(seconds=max(0, min(tokens.expires_in, LONGEST_SECONDS)))
    grant = Grant(
        did=tokens.sub,
        handle=account.handle,
        pds=account.pds,
        issuer=server.issuer,
        scope=tokens.scope,
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or "",
        expires_at=wall_now() + lifetime,
        key=key,
        kid=client.kid,
        claimed_handle=account.claimed_handle,
    )
    if tokens.sub != account.did:
        sentence = (
            f"you signed in with another account than {account.handle or account.did}; {START_AGAIN} with that one"
        )
    elif tokens.token_type.lower() != "dpop" or "atproto" not in tokens.scope.split():
        sentence = f"{server.host} did not grant a sign-in with an AT Protocol account; {START_AGAIN}"
    else:
        return grant
    with suppress(FetchProblem):  # nobody here will use these tokens
        _revoke_at(sender, client, server, grant)
    raise OAuthRefused(sentence, ended=True)


def _refuse(host: str, answer: Exchanged) -> NoReturn:
    """Raise the refusal for an error of the authorization server."""
    error, advice = read_error(answer) or f"status {answer.status}", START_AGAIN
    if error == "invalid_client":
        advice = "if a key of this site is new, it is known there within ten minutes"
    raise OAuthRefused(f"{host} refused the request of this site ({error}); {advice}", status=answer.status)
