"""The proof of a record: what the account's own key signed is believed, and nothing else."""

import hashlib
from contextlib import suppress
from typing import Any

import libipld
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.atproto.record_proof import (
    CURVES,
    CborProblem,
    KeyProblem,
    Link,
    ProofProblem,
    decode,
    encode,
    prove_record,
    read_key,
)
from tests.ingest.atproto.signed import P256, SECP256K1, SignedAccount, Signer, base58
from tests.ingest.stream.frames import ANA, MARA

KIND = "org.sunstead.jurisdictionAttestation"
RECORD = {"subject": MARA, "statement": "Works in CH", "n": -3, "list": [1, None, True], "bytes": b"x"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def mara(curve: bytes = SECP256K1) -> SignedAccount:
    others = {f"{KIND}/k{number}": {"number": number} for number in range(5)}
    return SignedAccount(MARA, Signer("mara", curve), others | {f"{KIND}/acme": RECORD})


WHOLE, KEY = mara().proof(), mara().signer.key


def proven(proof: bytes, account: SignedAccount, rkey: str = "acme") -> Any:
    return prove_record(proof, MARA, KIND, rkey, account.signer.key).record


@pytest.mark.parametrize("curve", [SECP256K1, P256])
def test_every_record_of_a_signed_repository_is_proven_on_both_curves(curve: bytes) -> None:
    account = mara(curve)
    assert proven(account.proof(), account) == RECORD
    assert [proven(account.proof(), account, f"k{number}") for number in range(5)] == [{"number": n} for n in range(5)]
    found = prove_record(account.proof(), MARA, KIND, "acme", f"did:key:{account.signer.key}")
    assert found.cid is not None
    assert found.cid.startswith("bafyrei")


@pytest.mark.parametrize("rkey", ["a", "ac", "acmf", "k9", "zz"])
def test_what_is_not_there_is_provably_not_there(rkey: str) -> None:
    account = mara()
    assert proven(account.proof(), account, rkey) is None


def test_another_key_another_account_and_a_high_s_prove_nothing() -> None:
    account = mara()
    with pytest.raises(ProofProblem, match="not signed by the account's key"):
        proven(account.proof(Signer("mallory")), account)
    with pytest.raises(ProofProblem, match="about another account"):
        proven(account.proof(did=ANA), account)
    message = b"told"
    key = read_key(account.signer.key)
    assert key.signed(message, account.signer.sign(message))
    assert not key.signed(message, account.signer.sign(message, low=False)), "a signature has one form only"
    assert not key.signed(b"said", account.signer.sign(message))


@pytest.mark.parametrize("place", range(5))
def test_a_proof_without_one_of_its_blocks_proves_nothing_about_what_lay_there(place: int) -> None:
    account = mara()
    proof = account.proof(left_out=place)
    results = []
    for rkey in ("acme", "k0", "k1", "k2", "k3", "k4"):
        try:
            results.append(proven(proof, account, rkey))
        except ProofProblem:
            results.append("refused")
    assert "refused" in results
    assert None not in results, "what is left out must not look like what is not there"


def test_no_byte_of_a_proof_can_be_changed(count: Any) -> None:
    account = mara()
    proof = account.proof()
    step = count(29, 1)
    for place in range(0, len(proof), step):
        changed = proof[:place] + bytes([proof[place] ^ 1]) + proof[place + 1 :]
        with suppress(ProofProblem):
            assert proven(changed, account) == RECORD, "only a byte that says nothing of this record may change"


@given(st.binary(max_size=300))
def test_any_bytes_at_all_are_refused_in_words(noise: bytes) -> None:
    for proof in (noise, WHOLE[: len(noise)] + noise):
        with pytest.raises(ProofProblem):
            prove_record(proof, MARA, KIND, "acme", KEY)


@given(VALUES)
def test_dag_cbor_is_read_and_written_as_by_another_implementation(value: Any) -> None:
    assert libipld.encode_dag_cbor(value) == encode(value)
    assert decode(encode(value)) == value


def test_links_keep_their_bytes() -> None:
    link = Link(b"\x01\x71\x12\x20" + hashlib.sha256(b"").digest())
    assert decode(encode({"a": link})) == {"a": link}
    assert isinstance(decode(encode({"a": link}))["a"], Link)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x81" * 5000,
        b"\x9f\xff",
        b"\xa1\x01\x01",
        b"\xa2aaaaaa\x01\x02",
        b"\xbb" + b"\xff" * 8,
        b"\xf7",
        b"\x01\x01",
    ],
)
def test_what_is_no_dag_cbor_is_refused(data: bytes) -> None:
    with pytest.raises(CborProblem):
        decode(data)


@pytest.mark.parametrize(
    "text", ["", "z", "did:key:", "x" * 48, "z0OIl", "z" + "1" * 70, "z" + base58(b"\xed\x01" + b"\x01" * 32)]
)
def test_a_key_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(KeyProblem):
        read_key(text)


def test_a_key_whose_point_lies_on_no_curve_is_refused() -> None:
    with pytest.raises(KeyProblem, match="not a point of its curve"):
        read_key("z" + base58(b"\xe7\x01\x02" + (5).to_bytes(32, "big")))


@pytest.mark.parametrize(
    ("curve", "text"),
    [
        (SECP256K1, "zQ3shqwJEJyMBsBXCWyCBpUBMqxcon9oHB7mCvx4sSpMdLJwc"),
        (P256, "zDnaembgSGUhZULN2Caob4HLJPaxBh92N7rtH21TErzqf8HQo"),
    ],
)
def test_the_keys_of_the_specification_are_read(curve: bytes, text: str) -> None:
    assert read_key(text).order == CURVES[curve][1]
