"""Keys and what is proven with them, checked by the rules of the specifications and not by the code that makes it."""

import hashlib
import time
from base64 import urlsafe_b64encode

import msgspec
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

from ingest.oauth.client import client_metadata, key_set, make_loopback_client, make_site_client
from ingest.oauth.proofs import assert_client, dump_key, load_key, make_key, make_pkce, prove_possession, public_jwk

URL = "https://pds.example.org/xrpc/com.atproto.repo.getRecord"


def s256(text: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def test_a_key_comes_back_from_its_text_and_its_public_half_holds_no_secret() -> None:
    key = make_key()
    again = load_key(dump_key(key))
    secret = str(key.as_dict(private=True)["d"])
    assert again.kid == key.kid == key.thumbprint()
    assert secret in dump_key(key)
    assert "d" not in public_jwk(key)
    assert secret not in str(key_set([key, make_key()]))


def make_texts() -> list[str]:
    key = make_key()
    whole = key.as_dict(private=True)
    other = ECKey.generate_key("P-384", auto_kid=True)
    return [
        "",
        "{",
        "null",
        "[]",
        "{}",
        '{"kty": "EC"}',
        msgspec.json.encode(public_jwk(key)).decode(),
        msgspec.json.encode(whole | {"kid": "mine"}).decode(),
        msgspec.json.encode(whole | {"d": "AAAA"}).decode(),
        msgspec.json.encode(whole | {"x": str(make_key().as_dict()["x"])}).decode(),
        msgspec.json.encode(other.as_dict(private=True)).decode(),
        msgspec.json.encode(OctKey.generate_key().as_dict(private=True)).decode(),
    ]


def test_a_text_that_is_no_key_is_refused_without_being_quoted() -> None:
    for text in make_texts():
        with pytest.raises(ValueError, match="not a private key of P-256") as caught:
            load_key(text)
        assert caught.value.__cause__ is None
        assert not any(part and part in str(caught.value) for part in text.split('"') if len(part) > 9)


def test_a_proof_names_one_request_without_query_and_the_token_by_its_hash_alone() -> None:
    key = make_key()
    proof = prove_possession(key, "GET", f"{URL}?repo=x#y", "nonce-1", "the token")
    told = jwt.decode(proof, key, ["ES256"])
    assert told.header["typ"] == "dpop+jwt"
    assert told.header["jwk"] == {name: public_jwk(key)[name] for name in ("kty", "crv", "x", "y")}
    assert (told.claims["htm"], told.claims["htu"], told.claims["nonce"]) == ("GET", URL, "nonce-1")
    assert told.claims["ath"] == s256("the token")
    assert abs(told.claims["iat"] - time.time()) < 60


def test_a_proof_without_token_and_nonce_says_nothing_of_them() -> None:
    key = make_key()
    claims = jwt.decode(prove_possession(key, "POST", "https://pds.example.org"), key, ["ES256"]).claims
    assert set(claims) == {"jti", "htm", "htu", "iat"}
    assert claims["htu"] == "https://pds.example.org/"


def test_an_assertion_is_for_the_issuer_and_short_lived() -> None:
    key = make_key()
    told = jwt.decode(assert_client(key, "https://a.example.org/c.json", "https://pds.example.org"), key, ["ES256"])
    assert told.header["kid"] == key.kid
    assert told.claims["iss"] == told.claims["sub"] == "https://a.example.org/c.json"
    assert told.claims["aud"] == "https://pds.example.org"
    assert told.claims["exp"] - told.claims["iat"] == 60


def test_nothing_is_ever_made_twice() -> None:
    key = make_key()
    made = [
        [make_pkce().verifier for _ in range(20)],
        [str(jwt.decode(prove_possession(key, "GET", URL), key, ["ES256"]).claims["jti"]) for _ in range(20)],
        [str(jwt.decode(assert_client(key, "a", "b"), key, ["ES256"]).claims["jti"]) for _ in range(20)],
    ]
    assert all(len(set(texts)) == 20 and min(map(len, texts)) >= 32 for texts in made)


def test_a_challenge_is_the_hash_of_its_verifier() -> None:
    pkce = make_pkce()
    assert pkce.challenge == s256(pkce.verifier)
    assert 43 <= len(pkce.verifier) <= 128


def test_the_document_of_a_site_stands_below_its_own_origin_and_holds_no_secret() -> None:
    client = make_site_client("https://triage.example.org", "atproto repo:a.b.c", make_key())
    document = client_metadata("https://triage.example.org", client.scope, "Sunstead")
    assert client.client_id.startswith(f"{document['client_uri']}/")
    assert document["client_id"] == client.client_id
    assert document["jwks_uri"] == "https://triage.example.org/oauth/jwks.json"
    assert document["redirect_uris"] == [client.redirect_uri] == ["https://triage.example.org/oauth/callback"]
    assert document["scope"] == "atproto repo:a.b.c"
    assert "jwks" not in document


def test_a_loopback_client_says_everything_in_its_name_but_the_port() -> None:
    first, second = (make_loopback_client(port, "atproto repo:a.b.c?action=create") for port in (8000, 9000))
    assert first.client_id == second.client_id
    assert first.redirect_uri == "http://127.0.0.1:8000/oauth/callback"
    assert "?" not in first.client_id.partition("?")[2]
    assert (first.kid, first.key) == ("", None)
