"""Sign-in at a real data server: the whole flow, and every way in which it ends without a session."""

import time
from dataclasses import replace

import msgspec
import pytest

from ingest.errors import OAuthRefused
from ingest.oauth.client import Client, make_loopback_client
from ingest.oauth.flow import Begun, Grant, discover, refresh, revoke
from ingest.oauth.proofs import make_key
from ingest.oauth.resource import OwnServer
from ingest.oauth.scopes import Act, act_scope, every_scope, missing_scopes
from tests.ingest.oauth.site import OWN, PLC, Site, make_site
from tests.peers.network import Account, RealNetwork

COMMENT = act_scope(Act.COMMENT, OWN)


def join(network: RealNetwork, name: str) -> Account:
    return network.join(f"{name}{time.time_ns() % 1_000_000_000}")


@pytest.fixture(scope="module")
def ana(real_network: RealNetwork) -> Account:
    return join(real_network, "ana")


def is_dead(site: Site, grant: Grant) -> bool:
    """Whether the data server no longer takes the access token."""
    try:
        OwnServer(site.sender, grant).get_session()
    except OAuthRefused as refusal:
        if refusal.stale:
            return True
        raise
    return False


def refusal_of(site: Site, begun: Begun, query: dict[str, str]) -> OAuthRefused:
    with pytest.raises(OAuthRefused) as caught:
        site.redeem(begun, query)
    return caught.value


def test_a_person_signs_in_at_a_confidential_client(site: Site, ana: Account) -> None:
    grant = site.sign_in(ana)
    assert (grant.did, grant.handle, grant.pds) == (ana.did, ana.handle, "https://pds.example.test")
    assert (grant.issuer, grant.scope, grant.kid) == ("https://pds.example.test", "atproto", site.client.kid)
    state = OwnServer(site.sender, grant).get_session()
    assert (state.handle, state.active) == (ana.handle, True)
    shown = repr(grant)
    assert not any(secret in shown for secret in (grant.access_token, grant.refresh_token, grant.key))


def test_a_person_signs_in_at_the_public_client_of_their_own_machine(real_network: RealNetwork, ana: Account) -> None:
    with Site(real_network, make_loopback_client(8123, every_scope(OWN))) as site:
        grant = site.sign_in(ana, COMMENT)
        assert (grant.did, grant.kid, missing_scopes(grant.scope, COMMENT)) == (ana.did, "", [])
        renewed = refresh(site.sender, PLC, site.client, grant)
        assert is_dead(site, grant)
        assert not is_dead(site, renewed)


def test_a_did_with_spaces_around_it_leads_to_the_same_account_as_its_handle(site: Site, ana: Account) -> None:
    by_handle, by_did = (
        discover(site.sender.fetcher, PLC, name) for name in (f"@{ana.handle.upper()}", f" {ana.did} ")
    )
    assert by_handle == by_did
    assert by_did.handle == ana.handle


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nobody.pds.example.test", "leads to no account"),
        ("ana", "neither a handle nor a DID"),
        ("https://ana.example.org/", "neither a handle nor a DID"),
        ("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", "answered 404"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_in_one_sentence(site: Site, name: str, said: str) -> None:
    with pytest.raises(OAuthRefused, match=said) as caught:
        discover(site.sender.fetcher, PLC, name)
    assert "\n" not in str(caught.value)


def test_two_sessions_of_one_person_live_side_by_side_and_each_ends_alone(site: Site, ana: Account) -> None:
    first, second = site.sign_in(ana), site.sign_in(ana)
    assert first.key != second.key
    assert revoke(site.sender, site.client, first)
    assert is_dead(site, first)
    assert not is_dead(site, second)


def test_a_person_who_takes_a_scope_out_is_signed_in_without_it(site: Site, ana: Account) -> None:
    wanted = act_scope(Act.MERGE, OWN)
    begun = site.begin(ana, wanted)
    left_out = next(scope for scope in wanted.split() if scope.startswith("repo:"))
    allowed = " ".join(scope for scope in wanted.split() if scope != left_out)
    grant = site.redeem(begun, site.visit(begun, ana).consent(allowed))
    assert missing_scopes(grant.scope, wanted) == [left_out]


def test_a_person_who_takes_the_sign_in_itself_out_is_not_signed_in(site: Site, ana: Account) -> None:
    begun = site.begin(ana, COMMENT)
    refusal = refusal_of(site, begun, site.visit(begun, ana).consent(COMMENT.removeprefix("atproto ")))
    assert refusal.declined


def test_a_person_who_says_no_is_not_signed_in(site: Site, ana: Account) -> None:
    begun = site.begin(ana)
    refusal = refusal_of(site, begun, site.visit(begun, ana).reject())
    assert (refusal.declined, str(refusal)) == (True, "you said no at your own server, so nothing was granted")


def test_who_signs_in_with_another_account_is_refused_and_that_session_is_ended(
    real_network: RealNetwork, site: Site, ana: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    ben, bodies, post = join(real_network, "ben"), [], site.sender.post_form

    def post_and_note(*sent: object) -> object:
        answer = post(*sent)  # ty: ignore[invalid-argument-type]
        bodies.append(answer.body)
        return answer

    begun = site.begin(ana)
    query = site.visit(begun, ben).consent()
    monkeypatch.setattr(site.sender, "post_form", post_and_note)
    assert str(refusal_of(site, begun, query)).startswith(f"you signed in with another account than {ana.handle}")
    tokens = msgspec.json.decode(bodies[0])
    assert tokens["sub"] == ben.did
    template = site.sign_in(ana)
    assert is_dead(site, replace(template, did=ben.did, access_token=tokens["access_token"], key=begun.key))


def test_a_code_that_is_redeemed_twice_ends_the_session(site: Site, ana: Account) -> None:
    begun = site.begin(ana)
    query = site.visit(begun, ana).consent()
    grant = site.redeem(begun, query)
    assert not is_dead(site, grant)
    assert "was used already or took too long" in str(refusal_of(site, begun, query))
    assert is_dead(site, grant)
    with pytest.raises(OAuthRefused, match="sign in again") as caught:
        refresh(site.sender, PLC, site.client, grant)
    assert caught.value.ended


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"state": "another"}, "belongs to another sign-in"),
        ({"state": ""}, "belongs to another sign-in"),
        ({"iss": "https://evil.example.org"}, "another server answered"),
        ({"iss": ""}, "another server answered"),
        ({"code": ""}, "holds no code"),
        ({"code": "x" * 10_000}, "holds no code"),
        ({"error": "server_error\n<b>"}, "ended the sign-in"),
    ],
)
def test_a_callback_that_is_not_of_this_sign_in_sends_no_code_anywhere(
    site: Site, ana: Account, change: dict[str, str], said: str
) -> None:
    begun = site.begin(ana)
    query = {"state": begun.state, "iss": begun.issuer, "code": "never sent"} | change
    network_closed = replace_fetcher(site)
    with pytest.raises(OAuthRefused, match=said) as caught:
        network_closed.redeem(begun, query)
    assert "\n" not in str(caught.value)


def replace_fetcher(site: Site) -> Site:
    """The same site with a fetcher that answers nothing any more."""
    other = Site(site.network, site.client)
    other.sender.fetcher.close()
    return other


def test_a_verifier_of_another_sign_in_redeems_nothing(site: Site, ana: Account) -> None:
    begun, other = site.begin(ana), site.begin(ana)
    query = site.visit(begun, ana).consent()
    refusal_of(site, replace(begun, verifier=other.verifier), query)


def test_a_refresh_gives_new_tokens_and_the_old_ones_end_at_once(site: Site, ana: Account) -> None:
    old = site.sign_in(ana, COMMENT)
    new = refresh(site.sender, PLC, site.client, old)
    assert (new.did, new.scope, new.key, new.kid) == (old.did, old.scope, old.key, old.kid)
    assert is_dead(site, old)
    assert not is_dead(site, new)


def test_a_refresh_token_that_is_used_twice_ends_the_session(site: Site, ana: Account) -> None:
    old = site.sign_in(ana)
    new = refresh(site.sender, PLC, site.client, old)
    with pytest.raises(OAuthRefused, match="sign in again") as caught:
        refresh(site.sender, PLC, site.client, old)
    assert caught.value.ended
    assert is_dead(site, new)


def test_a_revoked_session_is_over(site: Site, ana: Account) -> None:
    grant = site.sign_in(ana)
    assert revoke(site.sender, site.client, grant)
    assert is_dead(site, grant)
    with pytest.raises(OAuthRefused) as caught:
        refresh(site.sender, PLC, site.client, grant)
    assert caught.value.ended


def test_a_token_is_of_no_use_without_its_own_key(site: Site, ana: Account) -> None:
    stolen, own = site.sign_in(ana), site.sign_in(ana)
    thief = replace(stolen, key=own.key)
    with pytest.raises(OAuthRefused):
        OwnServer(site.sender, thief).get_session()
    with pytest.raises(OAuthRefused):
        refresh(site.sender, PLC, site.client, thief)


def test_a_session_is_bound_to_the_key_that_began_it(site: Site, ana: Account) -> None:
    grant = site.sign_in(ana)
    with pytest.raises(OAuthRefused, match="no longer has the key") as caught:
        refresh(site.sender, PLC, site.client.with_key(make_key()), grant)
    assert caught.value.ended
    assert not is_dead(site, grant), "nothing was sent"


def test_a_key_that_the_server_does_not_know_yet_is_refused_with_the_time_to_wait(site: Site, ana: Account) -> None:
    unknown = Site(site.network, site.client.with_key(make_key()))
    with pytest.raises(OAuthRefused, match="within ten minutes"):
        unknown.begin(ana)


def test_a_scope_that_the_metadata_does_not_name_is_refused(real_network: RealNetwork, ana: Account) -> None:
    with make_site(real_network, "atproto") as site, pytest.raises(OAuthRefused, match="invalid_scope"):
        site.begin(ana, COMMENT)


def test_scopes_that_a_server_drops_without_a_word_are_known_to_be_missing(
    real_network: RealNetwork, ana: Account
) -> None:
    dropped = [
        "rpc:sh.tangled.repo.merge?aud=did:web:knot.example.org",
        "rpc:sh.tangled.repo.merge",
        "repo:sh.tangled.*",
        "repo:sh.tangled.graph.vouch?action=read",
    ]
    kept = ["rpc:sh.tangled.repo.merge?aud=*", "repo?collection=sh.tangled.graph.vouch&collection=sh.tangled.string"]
    asked = " ".join(["atproto", *dropped, *kept])
    with make_site(real_network, asked) as site:
        grant = site.sign_in(ana, asked)
    assert missing_scopes(grant.scope, asked) == dropped


def test_a_deactivated_account_signs_in_and_says_that_it_is(real_network: RealNetwork, site: Site) -> None:
    eve = join(real_network, "eve")
    eve.deactivate()
    grant = site.sign_in(eve)
    assert not OwnServer(site.sender, grant).get_session().active


def test_a_client_shows_no_key(site: Site) -> None:
    client: Client = site.client
    assert client.key is not None
    assert str(client.key.as_dict(private=True)["d"]) not in repr(client)
