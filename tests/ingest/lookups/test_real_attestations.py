"""Attestations on a real data server and PLC directory: their own proofs, keys and refusals."""

import time
from datetime import timedelta

import pytest

from ingest.atproto.identity import resolve
from ingest.atproto.record_proof import ProofProblem, prove_record
from ingest.clock import wall_now
from ingest.http.fetcher import Fetcher
from ingest.lookups.attestations import Checked, check_attestation
from tests.peers.network import Account, RealNetwork

OWN = "org.sunstead"
PLC = "https://plc.directory"
SINCE, UNTIL = (f"{(wall_now() + timedelta(days=days)).isoformat()}Z" for days in (-1, 30))
SAID = {"statement": "Works in CH", "validFrom": SINCE, "validUntil": UNTIL, "createdAt": SINCE}


@pytest.fixture
def people(real_network: RealNetwork) -> tuple[Account, Account]:
    """Two new accounts, an issuer and a contributor."""
    number = time.time_ns() % 1_000_000_000
    return real_network.join(f"iss{number}"), real_network.join(f"att{number}")


def checked(network: RealNetwork, person: Account, uri: str) -> Checked:
    fetcher = Fetcher(network.origin)
    try:
        return check_attestation(fetcher, PLC, person.did, uri)
    finally:
        fetcher.close()


def test_an_attestation_is_proven_until_its_issuer_revokes_or_deletes_it(
    real_network: RealNetwork, people: tuple[Account, Account]
) -> None:
    issuer, person = people
    told = {**SAID, "subject": person.did, "issuer": issuer.did}
    uri = person.create(f"{OWN}.jurisdictionAttestation", told, "acme")
    assert checked(real_network, person, uri).proof == "revoked", "its issuer never said so"
    said = issuer.create(f"{OWN}.jurisdictionStatement", {**SAID, "subject": person.did}, person.did)
    found = checked(real_network, person, uri)
    assert (found.proof, found.issuer, found.statement, found.reason) == ("proven", issuer.did, "Works in CH", None)
    issuer.put(said, {**SAID, "subject": person.did, "revoked": True})
    assert checked(real_network, person, uri).proof == "revoked"
    issuer.put(said, {**SAID, "subject": person.did})
    assert checked(real_network, person, uri).proof == "proven"
    issuer.delete(said)
    assert checked(real_network, person, uri).proof == "revoked"
    person.delete(uri)
    assert checked(real_network, person, uri).proof == "unverifiable"


def test_a_copied_record_and_one_among_hundreds_of_others(
    real_network: RealNetwork, people: tuple[Account, Account]
) -> None:
    issuer, person = people
    issuer.create(f"{OWN}.jurisdictionStatement", {**SAID, "subject": issuer.did}, issuer.did)
    copied = person.create(f"{OWN}.jurisdictionAttestation", {**SAID, "subject": issuer.did, "issuer": issuer.did})
    assert checked(real_network, person, copied).reason == "the record is about somebody else"
    for _ in range(60):
        person.create("sh.tangled.graph.follow", {"subject": issuer.did, "createdAt": SINCE})
    issuer.create(f"{OWN}.jurisdictionStatement", {**SAID, "subject": person.did}, person.did)
    told = {**SAID, "subject": person.did, "issuer": issuer.did}
    assert checked(real_network, person, person.create(f"{OWN}.jurisdictionAttestation", told)).proof == "proven"


def test_a_proof_of_a_real_server_holds_for_its_own_account_and_key_only(
    real_network: RealNetwork, people: tuple[Account, Account]
) -> None:
    issuer, person = people
    person.create(f"{OWN}.jurisdictionAttestation", {**SAID, "subject": person.did, "issuer": issuer.did}, "acme")
    fetcher = Fetcher(real_network.origin)
    keys = {one.did: resolve(fetcher, PLC, one.did).signing_key or "" for one in people}
    collection = f"{OWN}.jurisdictionAttestation"
    asked = f"did={person.did}&collection={collection}&rkey="
    proof, none = (
        fetcher.get(f"https://pds.example.test/xrpc/com.atproto.sync.getRecord?{asked}{rkey}")
        for rkey in ("acme", "no")
    )
    fetcher.close()
    found = prove_record(proof, person.did, collection, "acme", keys[person.did])
    assert found.record is not None
    assert found.record["issuer"] == issuer.did
    assert prove_record(none, person.did, collection, "no", keys[person.did]).record is None
    for did, key in ((person.did, keys[issuer.did]), (issuer.did, keys[person.did])):
        with pytest.raises(ProofProblem):
            prove_record(proof, did, collection, "acme", key)
