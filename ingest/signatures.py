"""Checking signatures of AT Protocol accounts: ECDSA over secp256k1 and NIST P-256 with SHA-256, by `cryptography`.

Source: atproto.com/specs/cryptography. Of the two forms of a signature only the one with the lower s counts, which no
library checks.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"  # base58btc
LONGEST = 64  # characters of a key as text
# The curves by the multicodec in front of a key: cryptography's name, and the order of the curve (SEC 2 §2.4).
CURVES = {
    b"\xe7\x01": ("SECP256K1", 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141),
    b"\x80\x24": ("SECP256R1", 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551),
}


class KeyProblem(ValueError):
    """A public key that cannot be used; the message is the reason."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key of an account with the order of its curve."""

    key: "EllipticCurvePublicKey"
    order: int

    def signed(self, message: bytes, signature: bytes) -> bool:
        """Whether this key's owner signed the message: 64 bytes, r then s, of which only the lower s is allowed."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256

        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        if len(signature) != 64 or not (0 < r < self.order and 0 < s <= self.order // 2):
            return False
        try:
            self.key.verify(encode_dss_signature(r, s), message, ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True


def read_key(text: str) -> PublicKey:
    """A key as DID documents and did:key write it: `z`, then base58btc of multicodec and point. Raises KeyProblem."""
    from cryptography.hazmat.primitives.asymmetric import ec  # 30 ms that most commands do without

    text = text.removeprefix("did:key:")
    if not 2 < len(text) <= LONGEST or text[0] != "z" or not set(text[1:]) <= set(LETTERS):
        raise KeyProblem("the key is not written in base58btc")
    number = 0
    for letter in text[1:]:
        number = number * 58 + LETTERS.index(letter)
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    if raw[:2] not in CURVES:
        raise KeyProblem("the key is of neither curve that AT Protocol knows")
    name, order = CURVES[raw[:2]]
    if len(raw) != 35:
        raise KeyProblem("the key is not a compressed point")
    try:
        return PublicKey(ec.EllipticCurvePublicKey.from_encoded_point(getattr(ec, name)(), raw[2:]), order)
    except ValueError as problem:
        raise KeyProblem("the key is not a point of its curve") from problem
