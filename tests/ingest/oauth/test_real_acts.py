"""Each act at a real data server, with the scope that it asks for, and its refusal without."""

import base64
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ingest.atproto.identity import resolve
from ingest.atproto.record_proof import read_key
from ingest.atproto.syntax import NAMESPACE
from ingest.clock import wall_now
from ingest.errors import FetchProblem, OAuthRefused
from ingest.oauth.flow import Grant
from ingest.oauth.proofs import load_key
from ingest.oauth.resource import OwnServer
from ingest.oauth.scopes import Act, act_scope, missing_scopes, scope_to_ask
from tests.ingest.oauth.site import OWN, PLC, Site
from tests.peers.network import Account, RealNetwork

NAMES = ("repo.pull.status", "graph.vouch", "feed.comment", "label.op")
STATUS, VOUCH, COMMENT, LABEL = (f"{NAMESPACE}{name}" for name in NAMES)
APPROVAL, MERGE = f"{OWN}.approval", f"{NAMESPACE}repo.merge"
KNOT = "did:web:knot.example.org"
SUBJECT = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"
OTHER_CID = "bafyreih4mavb4tnqh3bugxk4u3rcayd7qw3dgf2jzp5u7qmbhvlnm2mw4y"
SAID = {"createdAt": f"{wall_now().isoformat()}Z"}


@pytest.fixture(scope="module")
def ana(real_network: RealNetwork) -> Account:
    return real_network.join(f"act{time.time_ns() % 1_000_000_000}")


def create(collection: str) -> Callable[[OwnServer, Account], None]:
    def act(server: OwnServer, person: Account) -> None:
        written = server.create_record(collection, SAID)
        stored = server.read_record(collection, written.uri.rsplit("/", 1)[1])
        assert stored is not None
        assert (stored.cid, stored.value) == (written.cid, {"$type": collection, **SAID})
        person.delete(written.uri)

    return act


def delete(collection: str) -> Callable[[OwnServer, Account], None]:
    def act(server: OwnServer, person: Account) -> None:
        rkey = person.create(collection, SAID).rsplit("/", 1)[1]
        stored = server.read_record(collection, rkey)
        assert stored is not None
        with pytest.raises(OAuthRefused) as caught:
            server.delete_record(collection, rkey, OTHER_CID)
        if caught.value.missing_scope:
            raise caught.value
        assert caught.value.moved_on
        server.delete_record(collection, rkey, stored.cid)
        assert server.read_record(collection, rkey) is None

    return act


def merge(server: OwnServer, person: Account) -> None:
    token = server.service_token(KNOT, MERGE)
    header, claims, signature = (base64.urlsafe_b64decode(f"{part}==") for part in token.split("."))
    told = msgspec.json.decode(claims)
    key = resolve(server.sender.fetcher, PLC, person.did).signing_key
    assert key is not None
    assert read_key(key).signed(token.rpartition(".")[0].encode(), signature), "the directory's key signed it"
    assert msgspec.json.decode(header)["alg"] == "ES256K"
    assert (told["iss"], told["aud"], told["lxm"]) == (person.did, KNOT, MERGE)
    assert told["exp"] - told["iat"] <= 60
    create(STATUS)(server, person)


def vouch(server: OwnServer, person: Account) -> None:
    first = server.put_record(VOUCH, SUBJECT, SAID, None)
    second = server.put_record(VOUCH, SUBJECT, {**SAID, "kind": "vouch"}, first.cid)
    for replaces in (None, first.cid):
        with pytest.raises(OAuthRefused) as caught:
            server.put_record(VOUCH, SUBJECT, {**SAID, "kind": "late"}, replaces)
        assert caught.value.moved_on, str(caught.value)
    stored = server.read_record(VOUCH, SUBJECT)
    assert stored is not None
    assert (stored.cid, stored.value["kind"]) == (second.cid, "vouch")
    person.delete(second.uri)


ACTS: dict[Act, Callable[[OwnServer, Account], None]] = {
    Act.MERGE: merge,
    Act.CLOSE: create(STATUS),
    Act.TAKE_BACK_CLOSE: delete(STATUS),
    Act.VOUCH: vouch,
    Act.TAKE_BACK_VOUCH: delete(VOUCH),
    Act.COMMENT: create(COMMENT),
    Act.TAKE_BACK_COMMENT: delete(COMMENT),
    Act.APPROVE: create(APPROVAL),
    Act.TAKE_BACK_APPROVAL: delete(APPROVAL),
    Act.LABEL: create(LABEL),
    Act.TAKE_BACK_LABEL: delete(LABEL),
}


def attempt(site: Site, grant: Grant, person: Account, act: Act) -> bool:
    """Whether the server let it be done; a refusal names a scope that is missing by our own reading too."""
    try:
        ACTS[act](OwnServer(site.sender, grant), person)
    except OAuthRefused as refusal:
        if not refusal.missing_scope:
            raise
        assert missing_scopes(grant.scope, refusal.missing_scope) == [refusal.missing_scope]  # noqa: PT017
        return False
    return True


@pytest.mark.parametrize("granted", Act, ids=lambda act: act.replace(" ", "-"))
def test_the_scope_of_an_act_lets_that_act_be_done_and_no_other(site: Site, ana: Account, granted: Act) -> None:
    grant = site.sign_in(ana, act_scope(granted, OWN))
    done = {act for act in Act if attempt(site, grant, ana, act)}
    assert done == {act for act in Act if not missing_scopes(grant.scope, act_scope(act, OWN))}
    assert done == ({Act.MERGE, Act.CLOSE} if granted is Act.MERGE else {granted})


def test_who_only_signed_in_can_do_nothing(site: Site, ana: Account) -> None:
    grant = site.sign_in(ana)
    assert not [act for act in Act if attempt(site, grant, ana, act)]


def test_what_was_granted_before_is_asked_for_again_with_one_act_more(site: Site, ana: Account) -> None:
    first = site.sign_in(ana, scope_to_ask("atproto", Act.VOUCH, OWN))
    second = site.sign_in(ana, scope_to_ask(first.scope, Act.COMMENT, OWN))
    done = {act for act in Act if attempt(site, second, ana, act)}
    assert done == {Act.VOUCH, Act.COMMENT}


@pytest.mark.parametrize("method", [f"{NAMESPACE}repo.mergeCheck", f"{NAMESPACE}repo.delete", "com.atproto.x.y"])
def test_a_service_token_is_given_for_merging_alone(site: Site, ana: Account, method: str) -> None:
    server = OwnServer(site.sender, site.sign_in(ana, act_scope(Act.MERGE, OWN)))
    with pytest.raises(OAuthRefused) as caught:
        server.service_token(KNOT, method)
    assert method in caught.value.missing_scope


def test_a_record_of_anybody_elses_is_not_written(site: Site, ana: Account, real_network: RealNetwork) -> None:
    ben = real_network.join(f"ben{time.time_ns() % 1_000_000_000}")
    grant = site.sign_in(ana, act_scope(Act.COMMENT, OWN))
    answer = site.sender.ask(
        "POST",
        f"{grant.pds}/xrpc/com.atproto.repo.createRecord",
        load_key(grant.key),
        grant.access_token,
        msgspec.json.encode({"repo": ben.did, "collection": COMMENT, "record": {"$type": COMMENT, **SAID}}),
    )
    assert answer.status in (400, 401, 403)
    assert not real_network.query("com.atproto.repo.listRecords", repo=ben.did, collection=COMMENT)["records"]


def test_what_a_record_may_not_hold_is_told_in_one_sentence(site: Site, ana: Account) -> None:
    server = OwnServer(site.sender, site.sign_in(ana, act_scope(Act.COMMENT, OWN)))
    bad: dict[str, Any] = {"createdAt": 0.5}
    with pytest.raises(FetchProblem, match=r"pds\.example\.test refused \(InvalidRequest\); nothing was done"):
        server.create_record(COMMENT, bad)
