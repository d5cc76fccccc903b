"""Servers that lie, flood, drip, redirect and point elsewhere: none signs anybody in, each ends with one sentence."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.clock import wall_now
from ingest.errors import OAuthRefused
from ingest.oauth.flow import redeem, refresh, revoke
from ingest.oauth.resource import OwnServer
from tests.ingest.oauth.hostile_server import (
    DID,
    DOCUMENTS,
    METADATA,
    ORIGIN,
    OTHER,
    PLACES,
    PRIVATE,
    PUSH,
    RESOURCE,
    REVOKE,
    SERVER,
    TOKEN,
    HostileServer,
    Twist,
    as_json,
    changed,
    dripping,
)
from tests.ingest.peer import Request, response
from tests.waiting import ends_by_itself

HTML = b"<html><script>alert(1)</script>\x1b[31m</html>"
FLOOD = b'{"error": "' + b"x" * 2_000_000 + b'"}'


def refusal(server: HostileServer, **query: str) -> OAuthRefused:
    """The refusal of a whole flow, which is one bounded line."""
    with ends_by_itself(), pytest.raises(OAuthRefused) as caught:
        server.sign_in(**query)
    sentence = str(caught.value)
    assert sentence.isprintable()
    assert 20 < len(sentence) < 300, sentence
    assert not sentence.endswith("."), "pages and other sentences end it"
    return caught.value


def refused(certificate: Path, twists: dict[str, Twist], **query: str) -> str:
    with HostileServer(certificate, twists) as server:
        return str(refusal(server, **query))


def test_the_same_server_without_a_twist_signs_in(tls: Path) -> None:
    with HostileServer(tls) as server:
        grant = server.sign_in()
    assert (grant.did, grant.scope, grant.handle, grant.issuer) == (DID, "atproto", None, ORIGIN)


@pytest.mark.parametrize(
    ("twist", "said"),
    [
        (changed(SERVER, issuer="https://bank.example.org"), "speaks for another server"),
        (changed(SERVER, issuer=f"{ORIGIN}/"), "speaks for another server"),
        (changed(RESOURCE, resource="https://bank.example.org"), "describes another server"),
        (changed(RESOURCE, authorization_servers=[ORIGIN, "https://bank.example.org"]), "exactly one server"),
        (changed(RESOURCE, authorization_servers=[]), "exactly one server"),
        (changed(RESOURCE, authorization_servers=["http://pds.example.test"]), "not an https origin"),
        (changed(RESOURCE, authorization_servers=[f"{ORIGIN}/path"]), "not an https origin"),
        (changed(RESOURCE, authorization_servers=[f"{ORIGIN}:8443"]), "not an https origin"),
        (changed(RESOURCE, authorization_servers=["https://10.0.0.7"]), "not an https origin"),
        (changed(RESOURCE, authorization_servers=[f"https://{PRIVATE}"]), "not a public address"),
    ],
)
def test_a_server_that_names_another_or_several_or_a_private_one(tls: Path, twist: Twist, said: str) -> None:
    place = SERVER if said.startswith("speaks") else RESOURCE
    assert said in refused(tls, {place: twist})


@pytest.mark.parametrize(
    "name", [name for name in METADATA if name.endswith("supported") or name.startswith("require")]
)
def test_a_server_that_lacks_one_demanded_ability(tls: Path, name: str) -> None:
    assert "lacks what a safe sign-in needs" in refused(tls, {SERVER: changed(SERVER, **{name: None})})


def test_a_server_that_wants_request_addresses_of_its_own_choice(tls: Path) -> None:
    twist = changed(SERVER, require_request_uri_registration=False)
    assert "request_uri_registration" in refused(tls, {SERVER: twist})


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "http://pds.example.test/token",
        f"{ORIGIN}:8443/token",
        "https://user@pds.example.test/token",
        f"{ORIGIN}/token?next=https://bank.example.org",
        f"{ORIGIN}/token#fragment",
        "https://10.0.0.7/token",
        "https://localhost/token",
        f"{ORIGIN}/{'x' * 3000}",
        f'{ORIGIN}/"><script>',
        "",
        7,
    ],
)
@pytest.mark.parametrize("name", [name for name in METADATA if name.endswith("endpoint")])
def test_an_address_that_may_not_be_asked_or_visited(tls: Path, name: str, address: object) -> None:
    said = refused(tls, {SERVER: changed(SERVER, **{name: address})})
    assert ("an address that may not be asked" if address != 7 else "cannot be used") in said


@pytest.mark.parametrize("name", ["token_endpoint", "pushed_authorization_request_endpoint"])
def test_an_address_inside_the_sites_own_network_is_not_connected_to(tls: Path, name: str) -> None:
    said = refused(tls, {SERVER: changed(SERVER, **{name: f"https://{PRIVATE}/x"})})
    assert "10.0.0.7, which is not a public address" in said


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(tls: Path, place: str, status: int) -> None:
    twist: dict[str, Twist] = {place: lambda _: response(b"", status, Location="https://bank.example.org/x")}
    with HostileServer(tls, twist) as server:
        assert "a redirect to https://bank.example.org/x" in str(refusal(server))
        assert set(server.peer.names) == {ORIGIN.removeprefix("https://")}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("status", [200, 400])
def test_two_megabytes_are_not_read(tls: Path, place: str, status: int) -> None:
    twist: dict[str, Twist] = {place: lambda _: response(FLOOD, status, Content_Type="application/json")}
    assert "sent more than" in refused(tls, twist)


@pytest.mark.parametrize("place", PLACES)
def test_a_slow_server_ends_with_the_deadline(tls: Path, place: str) -> None:
    with HostileServer(tls, {place: dripping}, timeout=0.6) as server:
        assert "took too long to answer; try again in a minute" in str(refusal(server))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("status", [200, 400, 404, 500])
@pytest.mark.parametrize("kind", ["text/html", "application/json"])
def test_a_page_in_place_of_json(tls: Path, place: str, status: int, kind: str) -> None:
    said = refused(tls, {place: lambda _: response(HTML, status, Content_Type=kind)})
    assert "script" not in said


@pytest.mark.parametrize("place", [RESOURCE, SERVER])
def test_json_that_is_not_called_json(tls: Path, place: str) -> None:
    def twist(_: Request) -> bytes:
        return as_json(DOCUMENTS[place][1]).replace(b"application/json", b"text/plain")

    assert "not JSON" in refused(tls, {place: twist})


@pytest.mark.parametrize("place", [RESOURCE, SERVER])
@pytest.mark.parametrize("status", [201, 404])
def test_the_right_document_under_a_wrong_status(tls: Path, place: str, status: int) -> None:
    assert "offers no sign-in" in refused(tls, {place: lambda _: as_json(DOCUMENTS[place][1], status)})


def test_an_account_that_moves_between_the_two_halves_of_a_sign_in(tls: Path) -> None:
    with HostileServer(tls) as server:
        begun = replace(server.begin(), issuer="https://old.example.org")
        query = {"state": begun.state, "iss": begun.issuer, "code": "code-1"}
        with pytest.raises(OAuthRefused, match="moved to another server while you signed in"):
            redeem(server.sender, ORIGIN, server.client, begun, query)
        assert not server.forms(TOKEN), "no code left this site"


def test_an_answer_of_another_server_at_the_callback(tls: Path) -> None:
    with HostileServer(tls) as server:
        assert "another server answered" in str(refusal(server, iss="https://bank.example.org"))
        assert not server.forms(TOKEN), "no code left this site"


def test_tokens_of_another_account_sign_nobody_in_and_are_given_back(tls: Path) -> None:
    with HostileServer(tls, {TOKEN: changed(TOKEN, sub=OTHER)}) as server:
        assert "another account than" in str(refusal(server))
        assert [form["token"] for form in server.forms(REVOKE)] == [["refresh"]]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"token_type": "Bearer"}, "did not grant"),
        ({"scope": "transition:generic"}, "did not grant"),
        ({"scope": "notatproto"}, "did not grant"),
        ({"scope": None}, "cannot be used"),
        ({"sub": None}, "cannot be used"),
        ({"access_token": "a\r\nX-Injected: 1"}, "cannot be used"),
        ({"access_token": "a b"}, "cannot be used"),
        ({"access_token": "x" * 9_000}, "cannot be used"),
        ({"refresh_token": "\u0000"}, "cannot be used"),
        ({"expires_in": "soon"}, "cannot be used"),
    ],
)
def test_tokens_that_are_not_of_the_kind_asked_for(tls: Path, fields: dict[str, Any], said: str) -> None:
    assert said in refused(tls, {TOKEN: changed(TOKEN, **fields)})


@pytest.mark.parametrize(("seconds", "kept"), [(-5, 0), (0, 0), (10**18, 86_400), (60, 60)])
def test_a_lifetime_is_held_within_a_day(tls: Path, seconds: int, kept: int) -> None:
    with HostileServer(tls, {TOKEN: changed(TOKEN, expires_in=seconds)}) as server:
        began = wall_now()
        expires = server.sign_in().expires_at
        ended = wall_now()
    assert began.timestamp() + kept <= expires.timestamp() <= ended.timestamp() + kept


@pytest.mark.parametrize("uri", ["javascript:alert(1)\n", "urn:x&redirect_uri=https://bank.example.org", "", 3, "<x>"])
def test_a_request_address_that_would_change_the_link(tls: Path, uri: object) -> None:
    assert "cannot be used" in refused(tls, {PUSH: changed(PUSH, request_uri=uri)})


@pytest.mark.parametrize("place", [PUSH, TOKEN])
def test_a_server_that_wants_a_nonce_and_names_none_is_asked_once(tls: Path, place: str) -> None:
    twist: dict[str, Twist] = {place: lambda _: as_json({"error": "use_dpop_nonce"}, 400)}
    with HostileServer(tls, twist) as server:
        assert "refused the request of this site (use_dpop_nonce)" in str(refusal(server))
        assert len(server.forms(place)) == 1


@pytest.mark.parametrize("place", [PUSH, TOKEN])
def test_a_server_that_never_has_enough_of_nonces_is_asked_twice(tls: Path, place: str) -> None:
    nonces = iter(f"nonce-{number}" for number in range(100))
    twist: dict[str, Twist] = {place: lambda _: as_json({"error": "use_dpop_nonce"}, 400, DPoP_Nonce=next(nonces))}
    with HostileServer(tls, twist) as server:
        assert "(use_dpop_nonce)" in str(refusal(server))
        forms = server.forms(place)
        assert len(forms) == 2
        assert forms[0]["client_assertion"] != forms[1]["client_assertion"]


def test_a_nonce_that_is_no_nonce_is_dropped(tls: Path) -> None:
    twist: dict[str, Twist] = {PUSH: lambda _: as_json({"error": "use_dpop_nonce"}, 400, DPoP_Nonce="x" * 900)}
    with HostileServer(tls, twist) as server:
        refusal(server)
        assert len(server.forms(PUSH)) == 1


def test_a_data_server_that_answers_for_another_account(tls: Path) -> None:
    path = "/xrpc/com.atproto.server.getSession"
    with HostileServer(tls, {path: lambda _: as_json({"did": OTHER, "handle": "x"})}) as server:
        own = OwnServer(server.sender, server.sign_in())
        with pytest.raises(OAuthRefused, match="answered for another account") as caught:
            own.get_session()
    assert caught.value.ended


def test_a_data_server_that_never_has_enough_of_nonces_gets_a_write_twice_at_most(tls: Path) -> None:
    path = "/xrpc/com.atproto.repo.createRecord"
    nonces = iter(f"nonce-{number}" for number in range(100))

    def twist(_: Request) -> bytes:
        challenge = 'DPoP error="use_dpop_nonce", error_description="more"'
        return as_json({"error": "use_dpop_nonce"}, 401, DPoP_Nonce=next(nonces), WWW_Authenticate=challenge)

    with HostileServer(tls, {path: twist}) as server:
        own = OwnServer(server.sender, server.sign_in())
        with pytest.raises(OAuthRefused, match="use_dpop_nonce"):
            own.create_record("org.sunstead.approval", {})
        assert len([request for request in server.peer.requests if request.path == path]) == 2


def test_a_write_whose_answer_is_lost_is_not_sent_again(tls: Path) -> None:
    path = "/xrpc/com.atproto.repo.createRecord"
    with HostileServer(tls, {path: lambda _: iter(())}) as server:
        own = OwnServer(server.sender, server.sign_in())
        with pytest.raises(Exception, match="the connection to"):
            own.create_record("org.sunstead.approval", {})
        assert len([request for request in server.peer.requests if request.path == path]) == 1


def test_a_refresh_whose_answer_is_lost_is_tried_once_more_with_the_same_token(tls: Path) -> None:
    answers = iter([iter(()), as_json(DOCUMENTS[TOKEN][1] | {"access_token": "second"})])
    with HostileServer(tls) as server:
        grant = server.sign_in()
        server.twists[TOKEN] = lambda _: next(answers)
        assert refresh(server.sender, ORIGIN, server.client, grant).access_token == "second"
        assert [form.get("refresh_token") for form in server.forms(TOKEN)[1:]] == [["refresh"], ["refresh"]]


@pytest.mark.parametrize(("fields", "said"), [({"sub": OTHER}, "another account"), ({"scope": "x"}, "did not grant")])
def test_a_refresh_that_gives_something_else_ends_the_session(tls: Path, fields: dict[str, Any], said: str) -> None:
    with HostileServer(tls) as server:
        grant = server.sign_in()
        server.twists[TOKEN] = changed(TOKEN, **fields)
        with pytest.raises(OAuthRefused, match=said) as caught:
            refresh(server.sender, ORIGIN, server.client, grant)
    assert caught.value.ended


def test_an_account_that_moved_to_another_server_has_to_sign_in_again(tls: Path) -> None:
    with HostileServer(tls) as server:
        grant = server.sign_in()
        moved = replace(grant, issuer="https://old.example.org")
        with pytest.raises(OAuthRefused, match="moved to another server; sign in again") as caught:
            refresh(server.sender, ORIGIN, server.client, moved)
        assert caught.value.ended
        assert len(server.forms(TOKEN)) == 1


def test_a_session_without_a_refresh_token_ends_with_its_access_token(tls: Path) -> None:
    with HostileServer(tls, {TOKEN: changed(TOKEN, refresh_token=None)}) as server:
        grant = server.sign_in()
        with pytest.raises(OAuthRefused, match="sign in again") as caught:
            refresh(server.sender, ORIGIN, server.client, grant)
        assert caught.value.ended
        assert len(server.forms(TOKEN)) == 1


def test_no_answer_or_session_shows_its_secrets(tls: Path) -> None:
    with HostileServer(tls, {TOKEN: changed(TOKEN, access_token="tok-a", refresh_token="tok-r")}) as server:
        begun = server.begin()
        grant = server.sign_in()
        answer = server.sender.fetcher.exchange("POST", f"{ORIGIN}{TOKEN}", {}, b"")
    shown = f"{begun!r} {grant!r} {answer!r} {server.client!r}"
    secrets = ("tok-a", "tok-r", grant.key, begun.key, begun.state, begun.verifier, begun.address)
    assert not [secret for secret in secrets if secret in shown]


def test_a_server_without_a_way_to_revoke_says_so(tls: Path) -> None:
    with HostileServer(tls) as server:
        grant = server.sign_in()
        server.twists[SERVER] = changed(SERVER, revocation_endpoint=None)
        assert not revoke(server.sender, server.client, grant)
