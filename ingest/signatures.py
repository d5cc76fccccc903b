"""Checking signatures of AT Protocol accounts: ECDSA over secp256k1 and NIST P-256 with SHA-256. Pure.

Only public values are handled, so nothing here needs to take the same time for every input; one check takes some 10 ms.
Sources: atproto.com/specs/cryptography, SEC 1 §4.1.4, SEC 2 §2.4.
"""

import hashlib
from dataclasses import dataclass

LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"  # base58btc
LONGEST = 64  # characters of a key as text

Point = tuple[int, int] | None  # None: the point at infinity


class KeyProblem(ValueError):
    """A public key that cannot be used; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Curve:
    """y² = x³ + ax + b over the integers modulo `p`; the point `g` has the prime order `n`."""

    p: int
    a: int
    b: int
    g: tuple[int, int]
    n: int

    def add(self, one: Point, other: Point) -> Point:
        """The sum of two points of the curve."""
        if one is None or other is None:
            return other if one is None else one
        (x, y), (u, v) = one, other
        if x == u and (y + v) % self.p == 0:
            return None
        slope = (3 * x * x + self.a) * pow(2 * y, -1, self.p) if one == other else (v - y) * pow(u - x, -1, self.p)
        z = (slope * slope - x - u) % self.p
        return z, (slope * (x - z) - y) % self.p

    def sum_of(self, times: int, one: Point, also: int, other: Point) -> Point:
        """times · one + also · other, both in one walk over the bits."""
        table = {(1, 0): one, (0, 1): other, (1, 1): self.add(one, other)}
        total: Point = None
        for bit in range(max(times.bit_length(), also.bit_length()) - 1, -1, -1):
            total = self.add(total, total)
            wanted = (times >> bit & 1, also >> bit & 1)
            total = self.add(total, table[wanted]) if wanted in table else total
        return total

    def point(self, compressed: bytes) -> tuple[int, int]:
        """The point of 33 bytes: whether y is odd, then x. Raises KeyProblem where no such point is on the curve."""
        x = int.from_bytes(compressed[1:], "big")
        square = (x**3 + self.a * x + self.b) % self.p
        y = pow(square, (self.p + 1) // 4, self.p)  # p = 3 modulo 4 on both curves
        if len(compressed) != 33 or compressed[0] not in (2, 3) or x >= self.p or y * y % self.p != square:
            raise KeyProblem("the key is no point of its curve")
        return x, y if y % 2 == compressed[0] % 2 else self.p - y


SECP256K1 = Curve(
    p=2**256 - 2**32 - 977,
    a=0,
    b=7,
    g=(
        0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
        0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
    ),
    n=0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141,
)
P256 = Curve(
    p=2**256 - 2**224 + 2**192 + 2**96 - 1,
    a=-3,
    b=0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
    g=(
        0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
        0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
    ),
    n=0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
)
CURVES = {b"\xe7\x01": SECP256K1, b"\x80\x24": P256}  # by the multicodec in front of the key


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A point on its curve."""

    curve: Curve
    point: tuple[int, int]

    def signed(self, message: bytes, signature: bytes) -> bool:
        """Whether this key's owner signed the message: 64 bytes, r then s, of which only the lower s is allowed."""
        curve, r, s = self.curve, int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        if len(signature) != 64 or not (0 < r < curve.n and 0 < s <= curve.n // 2):
            return False
        digest, inverse = int.from_bytes(hashlib.sha256(message).digest(), "big"), pow(s, -1, curve.n)
        found = curve.sum_of(digest * inverse % curve.n, curve.g, r * inverse % curve.n, self.point)
        return found is not None and found[0] % curve.n == r


def read_key(text: str) -> PublicKey:
    """A key as DID documents and did:key write it: `z`, then base58btc of multicodec and point. Raises KeyProblem."""
    text = text.removeprefix("did:key:")
    if not 2 < len(text) <= LONGEST or text[0] != "z" or not set(text[1:]) <= set(LETTERS):
        raise KeyProblem("the key is not written in base58btc")
    number = 0
    for letter in text[1:]:
        number = number * 58 + LETTERS.index(letter)
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    curve = CURVES.get(raw[:2])
    if curve is None:
        raise KeyProblem("the key is of neither curve that AT Protocol knows")
    return PublicKey(curve, curve.point(raw[2:]))
