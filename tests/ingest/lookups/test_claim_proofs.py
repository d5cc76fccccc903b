"""A claim of another account is proven only by a signer that the operator names, over exactly what it says."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from ingest.atproto.record_proof import ProofProblem
from ingest.errors import FetchProblem
from ingest.lookups.declared.claims import check_claim
from tests.conftest import count
from tests.ingest.atproto.signed import P256, SignedAccount, SignedNetwork, Signer
from tests.ingest.lookups.asked import NOW, PLC
from tests.ingest.lookups.declaring import (
    CLAIM,
    COVERED,
    DAY,
    GIST,
    KEY,
    KEYS,
    MALLORY,
    OTHER,
    SIGNED_AT,
    SIGNER,
    claim,
    public_text,
    row_of,
    signature,
)

PAYLOAD = {"claimUri": GIST, "did": MALLORY, "identity.subject": "mallory", "type": "github"}


def proven(record: dict[str, Any], key: dict[str, Any] | None = None, rkey: str = "3kclaim") -> str:
    """The account that this claim of mallory proves, and who signed it; the reason where it proves nothing."""
    keys = {"$type": KEYS, "publicJwk": public_text(KEY), **DAY} if key is None else key
    accounts = {
        MALLORY: SignedAccount(MALLORY, Signer("mallory"), {f"{CLAIM}/3kclaim": record}),
        SIGNER: SignedAccount(SIGNER, Signer("signer"), {f"{KEYS}/2026-11-10": keys}),
        OTHER: SignedAccount(OTHER, Signer("other"), {f"{KEYS}/2026-11-10": keys}),
    }
    fetcher = SignedNetwork(accounts).fetcher()
    try:
        known = row_of(f"at://{MALLORY}/{CLAIM}/{rkey}", record)
        fact = check_claim(fetcher, PLC, {SIGNER}, MALLORY, known, NOW)
    except (ProofProblem, FetchProblem) as problem:
        return str(problem)
    return f"{fact.key} by {fact.value}"


GOOD = f"github:mallory by {SIGNER}"


def is_proven(answer: str) -> bool:
    """Whether it names a signer: no reason holds a DID."""
    return "did:" in answer


def test_the_documented_claim_of_a_real_person_is_proven_by_the_key_of_keytrace() -> None:
    """The claim and the key that keytrace's own documents print, with the signature that its server made."""
    orta, proof = "did:plc:t732otzqvkch7zz5d37537ry", "https://www.instagram.com/p/DVS8Tm6DWzP/"
    attested = (
        "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9."
        "eyJjbGFpbVVyaSI6Imh0dHBzOi8vd3d3Lmluc3RhZ3JhbS5jb20vcC9EVlM4VG02RFd6UC8iLCJkaWQiOiJkaWQ6cGxjOnQ3MzJvdHpxdmtj"
        "aDd6ejVkMzc1MzdyeSIsImlkZW50aXR5LnN1YmplY3QiOiJvcnRhIiwidHlwZSI6Imluc3RhZ3JhbSJ9."
        "LtZiwSSTvZMgq4Y16ZWTrzR3l-xPcbTIinrh3lNM0mohR5u7XPTTNK_Owk25_XJVLNKOeA88Emkkxk96R3hY9w"
    )
    key = {
        "publicJwk": '{"kty":"EC","x":"F9YcOywzrNapbegB-_ZM_9jYJzGrGj5PjH-DrUTySQs",'
        '"y":"vN0rBTAPYwmsOJqc7ndcpa-PEFmPsksBcKxx2X-Nc9I","crv":"P-256"}',
        "validFrom": "2026-03-21T00:00:00.000Z",
        "validUntil": "2026-03-21T23:59:59.999Z",
    }
    src = f"at://{SIGNER}/{KEYS}/2026-03-21"
    signed = {"kid": "attest:instagram", "src": src, "signedAt": "2026-03-21T22:57:57.906Z"}
    record: dict[str, Any] = {"type": "instagram", "status": "verified", "claimUri": proof}
    record |= {"identity": {"subject": "orta"}, "sigs": [signed | {"attestation": attested, "signedFields": COVERED}]}
    accounts = {
        orta: SignedAccount(orta, Signer("orta"), {f"{CLAIM}/3mhm4xuzxbq2f": record}),
        SIGNER: SignedAccount(SIGNER, Signer("signer"), {f"{KEYS}/2026-03-21": key}),
    }
    fetcher, uri = SignedNetwork(accounts).fetcher(), f"at://{orta}/{CLAIM}/3mhm4xuzxbq2f"
    assert check_claim(fetcher, PLC, {SIGNER}, orta, row_of(uri, record), NOW).key == "instagram:orta"
    record["identity"]["subject"] = "somebody.else"
    with pytest.raises(ProofProblem, match="another account"):
        check_claim(fetcher, PLC, {SIGNER}, orta, row_of(uri, record), NOW)


Forge = Callable[[dict[str, Any]], object]
SIG: Callable[..., Forge] = lambda **changes: lambda record: record["sigs"][0].update(changes)  # noqa: E731
FORGED: dict[str, Forge] = {
    "another kind of account": lambda record: record.update(type="npm"),
    "another account": lambda record: record["identity"].update(subject="torvalds"),
    "another proof": lambda record: record.update(claimUri="https://gist.github.com/torvalds/1"),
    "somebody else's claim, copied": lambda record: record.update(claim(who=OTHER)),
    "signed by another key": SIG(attestation=signature(PAYLOAD, Signer("mine", P256))["attestation"]),
    "signed by nobody": SIG(attestation=signature(PAYLOAD)["attestation"].rpartition(".")[0] + "."),
    "no algorithm": SIG(attestation="eyJhbGciOiJub25lIn0." + signature(PAYLOAD)["attestation"].split(".", 1)[1]),
    "the key of another signer": SIG(src=f"at://{OTHER}/{KEYS}/2026-11-10"),
    "a key in another collection": SIG(src=f"at://{SIGNER}/{CLAIM}/2026-11-10"),
    "a key that is not there": SIG(src=f"at://{SIGNER}/{KEYS}/2026-11-11"),
    "signed before the key was valid": SIG(signedAt="2026-11-09T23:59:59Z"),
    "signed after the key expired": SIG(signedAt="2026-11-11T00:00:00Z"),
    "signed at no time": SIG(signedAt=None),
    "a retracted signature": SIG(retractedAt=SIGNED_AT),
    "retracted": lambda record: record.update(status="retracted"),
    "failed": lambda record: record.update(status="failed"),
    "retracted, though its status says verified": lambda record: record.update(retractedAt=SIGNED_AT),
    "a status that is no text": lambda record: record.update(status=["verified"]),
    "no signature": lambda record: record.update(sigs=[]),
    "signatures that are no list": lambda record: record.update(sigs="x"),
    "an older form, which does not cover the proof": lambda record: record.update(
        sigs=[
            signature(
                {"did": MALLORY, "subject": "mallory", "type": "github", "verifiedAt": SIGNED_AT},
                signedFields=["did", "subject", "type", "verifiedAt"],
            )
        ]
    ),
    "a signature over the status alone": lambda record: record.update(
        sigs=[signature({"claimUri": GIST, "did": MALLORY, "status": "verified", "lastVerifiedAt": SIGNED_AT})]
    ),
    **{
        f"signed fields without {name}": SIG(signedFields=[field for field in COVERED if field != name])
        for name in COVERED
    },
    **{
        f"a payload without {name}": SIG(
            attestation=signature({key: text for key, text in PAYLOAD.items() if key != name})["attestation"]
        )
        for name in COVERED
    },
}


def test_a_claim_is_proven_by_its_signer_in_today_s_form_and_the_older_one() -> None:
    assert proven(claim()) == GOOD
    older = claim()
    older["sig"] = older.pop("sigs")[0]
    del older["status"]
    assert proven(older) == GOOD
    second = claim()
    second["sigs"].insert(0, signature({"claimUri": GIST}))
    assert proven(second) == GOOD, "one signature that does not hold hides another that does"


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_claim_proves_nothing(how: str) -> None:
    record = claim()
    FORGED[how](record)
    assert not is_proven(proven(record))


@pytest.mark.parametrize(
    "key",
    [
        {"publicJwk": public_text(KEY)},
        {"publicJwk": public_text(KEY), **DAY, "validUntil": "2026-11-10T11:59:59Z"},
        {"publicJwk": public_text(Signer("another", P256)), **DAY},
        {"publicJwk": public_text(KEY).replace("P-256", "P-384"), **DAY},
        {"publicJwk": json.dumps({"kty": "EC", "crv": "P-256", "x": "é", "y": ""}), **DAY},
        {"publicJwk": "[]", **DAY},
        {"publicJwk": 7, **DAY},
        {},
    ],
)
def test_a_key_that_is_expired_another_or_unreadable_proves_nothing(key: dict[str, Any]) -> None:
    assert not is_proven(proven(claim(), key))


def test_a_claim_that_the_repository_does_not_hold_proves_nothing() -> None:
    assert proven(claim(), rkey="3kother") == "the person's repository does not hold the claim"


JSON = draw.recursive(
    draw.none() | draw.booleans() | draw.integers(-9, 9) | draw.text(max_size=20),
    lambda inner: draw.lists(inner, max_size=3) | draw.dictionaries(draw.sampled_from(COVERED), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=count(40, 2_000), deadline=None)
@given(
    place=draw.sampled_from(["claim", "identity", "sig", "key"]),
    name=draw.sampled_from(["type", "claimUri", "identity", "sigs", "subject", "src", "attestation", "signedAt", "x"]),
    value=JSON,
)
def test_whatever_stands_in_a_claim_it_never_proves_another_account(place: str, name: str, value: Any) -> None:
    record, key = claim(), {"$type": KEYS, "publicJwk": public_text(KEY), **DAY}
    target = {"claim": record, "identity": record["identity"], "sig": record["sigs"][0], "key": key}[place]
    target[name] = value
    found = proven(record, key)
    assert found == GOOD or not is_proven(found)


@settings(max_examples=count(60, 10_000), deadline=None)
@given(place=draw.integers(0, 400), letter=draw.sampled_from("ABCDEFGHabcdefgh01234567-_.="))
def test_no_letter_of_a_signature_can_be_changed(place: int, letter: str) -> None:
    record = claim()
    attested = record["sigs"][0]["attestation"]
    place %= len(attested)
    record["sigs"][0]["attestation"] = attested[:place] + letter + attested[place + 1 :]
    # The last letter of 64 bytes in base64url has four bits that mean nothing.
    same = attested[place] == letter or place == len(attested) - 1
    assert same or not is_proven(proven(record))
