"""Verify the SSH signature of a commit against the key that stands in the signature. Pure; never raises.

A valid signature names a key and no person: only a comparison with the keys that somebody declared tells whose it is.
Sources: PROTOCOL.sshsig and PROTOCOL.u2f of OpenSSH, RFC 4253 section 6.6, RFC 5656, RFC 8709, and git's `commit.c` for
the bytes that are signed. OpenPGP and X.509 signatures count as none: finding their keys would mean to ask for people.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurve
    from cryptography.hazmat.primitives.hashes import HashAlgorithm

SIGNATURE_LIMIT = 20_000  # characters: with the longest RSA key that is read, a signature has 3,000
HEAD_LINES = 2_000  # the longest signature takes 300; a megabyte of short lines would take 100 ms to go through
RSA_BITS = range(2048, 8193)  # shorter keys can be broken, longer ones cost more time than a commit may take
EXPONENT_BITS = 32  # of an RSA key: nearly all keys have 17, and the time of a check grows with them
NAMESPACE = b"git"  # git signs with it alone, so a signature that was made for something else proves nothing here
MAGIC = b"SSHSIG"
_BEGIN, _END = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
_CURVES = {b"nistp256": "SECP256R1", b"nistp384": "SECP384R1", b"nistp521": "SECP521R1"}
_CURVE_HASHES = {b"nistp256": "SHA256", b"nistp384": "SHA384", b"nistp521": "SHA512"}
_RSA_HASHES = {b"rsa-sha2-256": "SHA256", b"rsa-sha2-512": "SHA512"}  # `ssh-rsa` would be SHA-1


class _Malformed(ValueError):
    """The bytes are not a signature that counts."""


class _Reader:
    """Reads the strings and numbers of SSH's wire format (RFC 4251 section 5)."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, length: int) -> bytes:
        piece = self._data[self._at : self._at + length]
        if len(piece) != length:
            raise _Malformed
        self._at += length
        return piece

    def text(self) -> bytes:
        return self.take(int.from_bytes(self.take(4), "big"))

    def number(self) -> int:
        """Read a positive number in its shortest form; another form would be a second signature for the same bytes."""
        data = self.text()
        value = int.from_bytes(data, "big", signed=True)
        if value <= 0 or len(data) != value.bit_length() // 8 + 1:
            raise _Malformed
        return value

    def end(self) -> None:
        if self._at != len(self._data):
            raise _Malformed


@dataclass(frozen=True)
class _Envelope:
    """The parts of an SSHSIG blob: the key, the name of the hash, the signature, and what the signature covers."""

    key: bytes
    signature: bytes
    signed: bytes


def signing_key(commit: bytes) -> str | None:
    """Return the fingerprint of the key that signed this commit object, as `ssh-keygen -l` prints it, or None.

    None where no valid SSH signature stands in it, whatever the reason.
    """
    payload, signature = split_signature(commit)
    return None if signature is None else verify_signature(signature, payload)


def split_signature(commit: bytes) -> tuple[bytes, bytes | None]:
    """Return the bytes of a commit object that its signature covers, and the signature; None without exactly one.

    The signed bytes are the object without its signature headers, of which git knows one for each kind of hash. A head
    of more than HEAD_LINES lines counts as unsigned.
    """
    head, blank, body = commit.partition(b"\n\n")
    if head.count(b"\n") >= HEAD_LINES:
        return commit, None
    kept: list[bytes] = []
    signatures: list[list[bytes]] = []
    in_signature = False
    for line in head.split(b"\n"):
        if in_signature and line.startswith(b" "):
            signatures[-1].append(line[1:])
            continue
        in_signature = line.startswith(b"gpgsig")
        if in_signature:
            signatures.append([line.partition(b" ")[2]])
        else:
            kept.append(line)
    signature = b"\n".join(signatures[0]) if len(signatures) == 1 else None
    return b"\n".join(kept) + blank + body, signature


def verify_signature(armoured: bytes, payload: bytes) -> str | None:
    """Return the fingerprint of the key that made this armoured signature of these bytes; None if it is not valid."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm  # takes 100 ms to load

    if len(armoured) > SIGNATURE_LIMIT:
        return None
    try:
        envelope = _read_envelope(_unarmour(armoured), payload)
        key = _Reader(envelope.key)
        check = _CHECKS.get(key_type := key.text())
        if check is None:
            return None
        check(key_type, key, _Reader(envelope.signature), envelope.signed)
    except (ValueError, InvalidSignature, UnsupportedAlgorithm):  # cryptography refuses bad keys with ValueError
        return None
    return fingerprint(envelope.key)


def fingerprint(key: bytes) -> str:
    """Return the fingerprint of a public key in SSH's wire format."""
    return f"SHA256:{base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip('=')}"


def _unarmour(armoured: bytes) -> bytes:
    lines = armoured.strip().replace(b"\r\n", b"\n").split(b"\n")
    if lines[0] != _BEGIN or lines[-1] != _END:
        raise _Malformed
    text = b"".join(lines[1:-1])
    data = binascii.a2b_base64(text, strict_mode=True)
    if base64.b64encode(data) != text:  # unused bits in the last letter
        raise _Malformed
    return data


def _read_envelope(data: bytes, payload: bytes) -> _Envelope:
    blob = _Reader(data)
    if blob.take(len(MAGIC)) != MAGIC or blob.take(4) != b"\0\0\0\x01":
        raise _Malformed
    key, namespace, reserved, name, signature = (blob.text() for _ in range(5))
    blob.end()
    if namespace != NAMESPACE or name not in (b"sha256", b"sha512"):
        raise _Malformed
    digest = hashlib.new(name.decode(), payload).digest()
    return _Envelope(key, signature, MAGIC + b"".join(map(_packed, (namespace, reserved, name, digest))))


def _packed(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


def _check_ed25519(key_type: bytes, key: _Reader, signature: _Reader, signed: bytes) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = Ed25519PublicKey.from_public_bytes(key.text())
    if key_type.startswith(b"sk-"):
        application = key.text()
        value = _signature_value(signature, key_type)
        signed = _token_message(application, signature, signed)
    else:
        value = _signature_value(signature, key_type)
    _end_all(key, signature)
    public.verify(value, signed)


def _check_rsa(key_type: bytes, key: _Reader, signature: _Reader, signed: bytes) -> None:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    exponent, modulus = key.number(), key.number()
    name = signature.text()
    value = signature.text()
    _end_all(key, signature)
    in_bounds = modulus.bit_length() in RSA_BITS and exponent.bit_length() <= EXPONENT_BITS
    if name not in _RSA_HASHES or not in_bounds or len(value) != (modulus.bit_length() + 7) // 8:
        raise _Malformed
    RSAPublicNumbers(exponent, modulus).public_key().verify(value, signed, PKCS1v15(), _hash(_RSA_HASHES[name]))


def _check_ecdsa(key_type: bytes, key: _Reader, signature: _Reader, signed: bytes) -> None:
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    name = key.text()
    is_token = key_type.startswith(b"sk-")
    if name not in _CURVES or not key_type.removesuffix(b"@openssh.com").endswith(b"-" + name):
        raise _Malformed
    public = EllipticCurvePublicKey.from_encoded_point(_curve(name), key.text())
    application = key.text() if is_token else b""
    numbers = _Reader(_signature_value(signature, key_type))
    value = encode_dss_signature(numbers.number(), numbers.number())
    numbers.end()
    if is_token:
        signed = _token_message(application, signature, signed)
    _end_all(key, signature)
    public.verify(value, signed, ECDSA(_hash(_CURVE_HASHES[name])))


def _signature_value(signature: _Reader, key_type: bytes) -> bytes:
    """Return the signature itself, which must be of the kind of its key."""
    if signature.text() != key_type:
        raise _Malformed
    return signature.text()


def _token_message(application: bytes, signature: _Reader, signed: bytes) -> bytes:
    """Return what a security key signs: hashes around its flags and counter, which follow the signature's value."""
    flags_and_counter = signature.take(5)
    return hashlib.sha256(application).digest() + flags_and_counter + hashlib.sha256(signed).digest()


def _end_all(*readers: _Reader) -> None:
    for reader in readers:
        reader.end()


def _curve(name: bytes) -> "EllipticCurve":
    from cryptography.hazmat.primitives.asymmetric import ec

    return getattr(ec, _CURVES[name])()


def _hash(name: str) -> "HashAlgorithm":
    from cryptography.hazmat.primitives import hashes

    return getattr(hashes, name)()


_CHECKS: Mapping[bytes, Callable[[bytes, _Reader, _Reader, bytes], None]] = {
    b"ssh-ed25519": _check_ed25519,
    b"sk-ssh-ed25519@openssh.com": _check_ed25519,
    b"ssh-rsa": _check_rsa,
    b"ecdsa-sha2-nistp256": _check_ecdsa,
    b"ecdsa-sha2-nistp384": _check_ecdsa,
    b"ecdsa-sha2-nistp521": _check_ecdsa,
    b"sk-ecdsa-sha2-nistp256@openssh.com": _check_ecdsa,
}
