"""Signatures of commits: every kind of key that OpenSSH has, right and wrong; what is changed never counts as valid."""

import pytest
from cryptography.hazmat.primitives import hashes
from hypothesis import given, settings
from hypothesis import strategies as some

from ingest.git.signatures import signing_key, split_signature, verify_signature
from tests.conftest import count
from tests.ingest.git.git_world import Work
from tests.ingest.git.signed import (
    KINDS,
    PAYLOAD,
    KeyFile,
    armour,
    blob_of,
    made_signature,
    make_key,
    raw_commit,
    rsa_signature,
    token_signature,
    use_key,
    with_signature,
)

TOKENS = ("sk-ed25519", "sk-nistp256")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KeyFile]:
    """One key of each kind, made by OpenSSH."""
    folder = tmp_path_factory.mktemp("keys")
    return {kind: make_key(folder, kind) for kind in KINDS}


@pytest.fixture(scope="module")
def blobs(keys: dict[str, KeyFile]) -> dict[str, bytes]:
    """A right signature of PAYLOAD by a key of each kind."""
    made = {kind: blob_of(key.sign(PAYLOAD)) for kind, key in keys.items()}
    return made | {kind: token_signature(kind, PAYLOAD) for kind in TOKENS}


@pytest.mark.parametrize("kind", KINDS)
def test_what_git_signs_names_the_key_as_openssh_prints_it(work: Work, keys: dict[str, KeyFile], kind: str) -> None:
    use_key(work, keys[kind])
    signed = raw_commit(work, work.commit("Signed\n\nin two paragraphs", {"sum.py": "signed\n"}))
    assert signing_key(signed) == keys[kind].fingerprint
    assert signing_key(signed.replace(b"Signed", b"Sighed")) is None
    assert signing_key(signed.replace(b"Ana <", b"Eve <", 1)) is None


def test_an_unsigned_commit_names_no_key(work: Work) -> None:
    assert signing_key(raw_commit(work, work.head())) is None
    assert split_signature(PAYLOAD) == (PAYLOAD, None)


@pytest.mark.parametrize("kind", TOKENS)
def test_a_security_keys_signature_counts_and_covers_its_counter(kind: str, blobs: dict[str, bytes]) -> None:
    right = blobs[kind]
    found = verify_signature(armour(right), PAYLOAD)
    assert found is not None
    assert found.startswith("SHA256:")
    assert verify_signature(armour(right[:-1] + b"\x08"), PAYLOAD) is None


@pytest.mark.parametrize("kind", [*KINDS, *TOKENS])
def test_another_key_or_other_bytes_make_it_invalid(
    kind: str, blobs: dict[str, bytes], keys: dict[str, KeyFile]
) -> None:
    right = blobs[kind]
    assert verify_signature(armour(right), PAYLOAD + b"more\n") is None
    for other_kind, other in blobs.items():
        if other_kind != kind:
            key, others_key = _key_of(right), _key_of(other)
            swapped = right[:10] + len(others_key).to_bytes(4, "big") + others_key + right[14 + len(key) :]
            assert verify_signature(armour(swapped), PAYLOAD) is None


def test_a_signature_made_for_another_purpose_does_not_count(keys: dict[str, KeyFile]) -> None:
    assert verify_signature(keys["ed25519"].sign(PAYLOAD), PAYLOAD) == keys["ed25519"].fingerprint
    assert verify_signature(keys["ed25519"].sign(PAYLOAD, "file"), PAYLOAD) is None


def test_sha1_and_short_rsa_keys_do_not_count() -> None:
    def check(bits: int, name: bytes, algorithm: hashes.HashAlgorithm) -> str | None:
        return verify_signature(armour(rsa_signature(PAYLOAD, bits, name, algorithm)), PAYLOAD)

    assert check(2048, b"rsa-sha2-256", hashes.SHA256()) is not None
    assert check(2048, b"ssh-rsa", hashes.SHA1()) is None  # noqa: S303 - what must not count
    assert check(2048, b"rsa-sha2-512", hashes.SHA1()) is None  # noqa: S303
    assert check(1024, b"rsa-sha2-512", hashes.SHA512()) is None


@pytest.mark.parametrize("kind", [*KINDS, *TOKENS])
def test_a_signature_over_sha1_or_of_a_megabyte_does_not_count_though_its_key_made_it(kind: str) -> None:
    assert verify_signature(armour(made_signature(kind, PAYLOAD)), PAYLOAD) is not None
    assert verify_signature(armour(made_signature(kind, PAYLOAD, b"x" * 5_000, "sha256")), PAYLOAD) is not None
    assert verify_signature(armour(made_signature(kind, PAYLOAD, name="sha1")), PAYLOAD) is None
    assert verify_signature(armour(made_signature(kind, PAYLOAD, b"x" * 1_000_000)), PAYLOAD) is None


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        b"-----BEGIN PGP SIGNATURE-----\n\nwsB\n-----END PGP SIGNATURE-----",
        b"-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----",
        b"-----BEGIN SSH SIGNATURE-----\n" + b"A" * 1_000_000 + b"\n-----END SSH SIGNATURE-----",
        armour(b"SSHSIG\0\0\0\x01\xff\xff\xff\xff"),
        armour(b"\0" * 5_000),
    ],
    ids=["nothing", "OpenPGP", "an empty frame", "a megabyte", "a length beyond the end", "zeros"],
)
def test_what_is_not_a_signature_names_no_key(odd: bytes) -> None:
    assert verify_signature(odd, PAYLOAD) is None
    assert signing_key(with_signature(PAYLOAD, odd)) is None


@pytest.mark.parametrize("line", [b"a", b" a", b"gpgsig a", b" "])
def test_a_commit_of_endless_short_lines_names_no_key(keys: dict[str, KeyFile], line: bytes) -> None:
    head, blank, body = PAYLOAD.partition(b"\n\n")
    long, longer = (head + (b"\n" + b"x y") * times + blank + body for times in (1_000, 500_000))
    assert signing_key(with_signature(long, keys["ed25519"].sign(long))) == keys["ed25519"].fingerprint
    assert signing_key(with_signature(longer, keys["ed25519"].sign(longer))) is None
    assert split_signature(head + b"\ngpgsig a" + (b"\n" + line) * 500_000 + blank + body)[1] is None


def test_two_signatures_in_one_commit_count_as_none(keys: dict[str, KeyFile]) -> None:
    right = keys["ed25519"].sign(PAYLOAD)
    once = with_signature(PAYLOAD, right)
    assert signing_key(once) == keys["ed25519"].fingerprint
    assert signing_key(with_signature(once, right)) is None
    assert signing_key(with_signature(once, right, b"gpgsig-sha256")) is None


@settings(max_examples=count(150, 10_000), deadline=None)
@given(draw=some.data())
def test_no_changed_signature_is_valid(draw: some.DataObject, blobs: dict[str, bytes]) -> None:
    right = blobs[draw.draw(some.sampled_from([*KINDS, *TOKENS]))]
    at = draw.draw(some.integers(0, len(right) - 1))
    changed = draw.draw(
        some.one_of(
            some.integers(1, 255).map(lambda bits: right[:at] + bytes([right[at] ^ bits]) + right[at + 1 :]),
            some.binary(min_size=1, max_size=40).map(lambda more: right[:at] + more + right[at:]),
            some.integers(1, 40).map(lambda less: right[:at] + right[at + less :]),
        )
    )
    if changed != right:
        assert verify_signature(armour(changed), PAYLOAD) is None


@given(some.binary(max_size=300))
def test_no_bytes_raise_an_error(data: bytes) -> None:
    assert signing_key(data) is None
    assert verify_signature(armour(b"SSHSIG\0\0\0\x01" + data), PAYLOAD) is None


def _key_of(blob: bytes) -> bytes:
    return blob[14 : 14 + int.from_bytes(blob[10:14], "big")]
