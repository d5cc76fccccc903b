"""A message is encrypted as the RFC's own example is, and a browser's address and keys are checked first."""

import os
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from ingest.push.message import (
    TOKEN_SECONDS,
    MalformedSubscription,
    authorize,
    encrypt,
    make_key,
    private_key,
    public_text,
    read_browser,
)
from tests.ingest.peer import Request
from tests.ingest.push.service import ORIGIN, PushService, Subscriber, from_letters, in_letters

# RFC 8291, appendix A.
TEXT = b"When I grow up, I want to be a watermelon"
SENDER = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
RECEIVER = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
SECRET, SALT = "BTBZMqHH6r4Tts7J_aSIgg", "DGv6ra1nlYgDCS1FRnbzlw"
BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3"
    "jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)
ENDPOINT = "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV"


def key_of(letters: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(from_letters(letters), "big"), ec.SECP256R1())


def test_the_example_of_the_standard_is_encrypted_byte_for_byte_and_read_by_the_browser_of_these_tests() -> None:
    browser = Subscriber("one", private=key_of(RECEIVER), secret=from_letters(SECRET))
    told = read_browser(ENDPOINT, in_letters(browser.point), SECRET)
    assert in_letters(encrypt(TEXT, told, key_of(SENDER), from_letters(SALT), padded=0)) == BODY
    assert browser.decrypt(from_letters(BODY)) == TEXT


def test_every_message_has_the_same_length_and_one_beyond_a_record_is_refused() -> None:
    browser = Subscriber("one")
    told = read_browser(ENDPOINT, in_letters(browser.point), in_letters(browser.secret))
    bodies = [encrypt(text, told, make_key(), os.urandom(16)) for text in (b"", b"1", TEXT)]
    assert len({len(body) for body in bodies}) == 1
    assert [browser.decrypt(body) for body in bodies] == [b"", b"1", TEXT]
    with pytest.raises(ValueError, match="does not fit"):
        encrypt(b"x" * 4_000, told, make_key(), os.urandom(16))


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://push.example.net/p/one",
        "https://127.0.0.1/p/one",
        "https://[::1]/p/one",
        "https://localhost/p/one",
        "https://push.example.net:8443/p/one",
        "https://user:word@push.example.net/p/one",
        "https://push.example.net/p/one#part",
        "https://push.example.net/p/\r\nX: y",
        "https://push.example.net/" + "x" * 1_000,
        "ftp://push.example.net/",
        "",
    ],
)
def test_only_https_to_a_named_host_of_bounded_length_is_an_address(endpoint: str) -> None:
    browser = Subscriber("one")
    with pytest.raises(MalformedSubscription) as caught:
        read_browser(endpoint, in_letters(browser.point), in_letters(browser.secret))
    assert "example" not in str(caught.value)


POINT = Subscriber("one", private=key_of(RECEIVER)).point


@pytest.mark.parametrize(
    ("point", "secret"),
    [
        (POINT[:-1], b"s" * 16),
        (POINT + b"\x00", b"s" * 16),
        (POINT[:-1] + bytes([POINT[-1] ^ 1]), b"s" * 16),
        (b"\x04" + bytes(64), b"s" * 16),
        (b"\x00", b"s" * 16),
        (POINT, b"s" * 15),
        (POINT, b"s" * 17),
        (POINT, b""),
    ],
    ids=["short", "long", "beside the curve", "nowhere", "infinity", "short secret", "long secret", "no secret"],
)
def test_keys_that_no_browser_has_are_refused(point: bytes, secret: bytes) -> None:
    with pytest.raises(MalformedSubscription):
        read_browser(ENDPOINT, in_letters(point), in_letters(secret))


@pytest.mark.parametrize("text", ["ä" * 87, "A" * 86 + "\n", "A" * 100_000, "AA==BB", "+/" * 43], ids=range(5))
def test_text_that_is_not_base64url_is_refused(text: str) -> None:
    with pytest.raises(MalformedSubscription):
        read_browser(ENDPOINT, text, in_letters(b"s" * 16))


def test_a_browser_tells_none_of_its_secrets_when_it_is_printed() -> None:
    browser = read_browser(ENDPOINT, in_letters(POINT), in_letters(b"s" * 16))
    assert repr(browser) == "Browser()"
    assert len(public_text(private_key("ab" * 32))) == 87


NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SECONDS, KEY, CONTACT = int(NOW.timestamp()), private_key("ab" * 32), "https://trust.example"
HERE = f"{ORIGIN}/p/one"


def signed_by_another() -> str:
    """A token by another key, sent with the key of the subscription."""
    forged = authorize(make_key(), HERE, CONTACT, SECONDS)
    return f"{forged.partition(', k=')[0]}, k={public_text(KEY)}"


@pytest.mark.parametrize(
    ("token", "is_taken"),
    [
        (lambda: authorize(KEY, HERE, CONTACT, SECONDS), True),
        (lambda: authorize(KEY, "https://push.example.org/p/one", CONTACT, SECONDS), False),
        (lambda: authorize(KEY, HERE, CONTACT, SECONDS - TOKEN_SECONDS), False),
        (lambda: authorize(KEY, HERE, CONTACT, SECONDS + 86_400), False),
        (lambda: authorize(make_key(), HERE, CONTACT, SECONDS), False),
        (signed_by_another, False),
        (lambda: "", False),
    ],
    ids=["own", "other audience", "ended", "too long", "other key", "forged", "none"],
)
def test_a_service_takes_what_this_site_signed_for_it_in_time_and_nothing_else(
    token: Callable[[], str], is_taken: bool
) -> None:
    service = PushService(NOW)
    browser = service.open("one", public_text(KEY))
    told = read_browser(*(browser.form[name] for name in ("endpoint", "p256dh", "auth")))
    headers = {"authorization": token(), "ttl": "60", "content-encoding": "aes128gcm"}
    body = encrypt(b'{"text": "1 audit is due."}', told, make_key(), os.urandom(16))
    answer = service.answer(Request("/p/one", headers, "POST", body))
    assert answer.startswith(b"HTTP/1.1 201" if is_taken else b"HTTP/1.1 403")
    assert len(service.taken) == is_taken
