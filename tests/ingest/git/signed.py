"""Signatures of commits: keys and commits made by OpenSSH and git, and the forms that neither of them makes here."""

import base64
import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.ingest.git.git_world import Work

KINDS: dict[str, tuple[str, ...]] = {
    "ed25519": ("-t", "ed25519"),
    "rsa": ("-t", "rsa", "-b", "3072"),
    "nistp256": ("-t", "ecdsa", "-b", "256"),
    "nistp384": ("-t", "ecdsa", "-b", "384"),
    "nistp521": ("-t", "ecdsa", "-b", "521"),
}
CURVES: dict[str, tuple[ec.EllipticCurve, hashes.HashAlgorithm]] = {
    "nistp256": (ec.SECP256R1(), hashes.SHA256()),
    "nistp384": (ec.SECP384R1(), hashes.SHA384()),
    "nistp521": (ec.SECP521R1(), hashes.SHA512()),
}
PAYLOAD = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor Ana <ana@example.test> 1 +0200\n\nA change\n"


@dataclass(frozen=True)
class KeyFile:
    """A private key of OpenSSH; its public key lies beside it."""

    path: Path

    @property
    def declared(self) -> str:
        """The line that a person puts into a record of their key."""
        return self.path.with_suffix(".pub").read_text().strip()

    @property
    def fingerprint(self) -> str:
        """As OpenSSH itself prints it."""
        return run("ssh-keygen", "-lf", str(self.path.with_suffix(".pub"))).decode().split()[1]

    def sign(self, payload: bytes, namespace: str = "git") -> bytes:
        return run("ssh-keygen", "-Y", "sign", "-f", str(self.path), "-n", namespace, given=payload)


def run(*command: str, given: bytes = b"") -> bytes:
    return subprocess.run(command, input=given, capture_output=True, check=True).stdout


def make_key(folder: Path, kind: str = "ed25519", name: str = "key") -> KeyFile:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{kind}"
    run("ssh-keygen", "-q", *KINDS[kind], "-N", "", "-C", "ana's own", "-f", str(path))
    return KeyFile(path)


def use_key(work: Work, key: KeyFile | None) -> None:
    """Have this working copy sign its next commits with a key, or sign none."""
    work.git("config", "commit.gpgsign", "true" if key else "false")
    if key:
        work.git("config", "gpg.format", "ssh")
        work.git("config", "user.signingkey", str(key.path))


def raw_commit(work: Work, commit: str) -> bytes:
    return run("git", "-C", str(work.folder), "cat-file", "commit", commit)


def packed(*texts: bytes) -> bytes:
    return b"".join(len(text).to_bytes(4, "big") + text for text in texts)


def number(value: int) -> bytes:
    return packed(value.to_bytes(value.bit_length() // 8 + 1, "big"))


def message(payload: bytes, reserved: bytes = b"", name: str = "sha512", namespace: bytes = b"git") -> bytes:
    """What a signature covers by PROTOCOL.sshsig."""
    return b"SSHSIG" + packed(namespace, reserved, name.encode(), hashlib.new(name, payload).digest())


def armour(blob: bytes) -> bytes:
    text = base64.b64encode(blob)
    lines = [text[at : at + 70] for at in range(0, len(text), 70)]
    return b"\n".join([b"-----BEGIN SSH SIGNATURE-----", *lines, b"-----END SSH SIGNATURE-----"])


def blob_of(armoured: bytes) -> bytes:
    return base64.b64decode(b"".join(armoured.strip().split(b"\n")[1:-1]))


def envelope(
    key: bytes, signature: bytes, *, reserved: bytes = b"", name: bytes = b"sha512", version: int = 1
) -> bytes:
    return b"SSHSIG" + version.to_bytes(4, "big") + packed(key, b"git", reserved, name, signature)


def made_signature(kind: str, payload: bytes, reserved: bytes = b"", name: str = "sha512") -> bytes:
    """The blob of a valid signature by a new key of any kind, also of forms that `ssh-keygen` refuses to sign."""
    if kind.startswith("sk-"):
        return token_signature(kind, payload, reserved, name)
    signed, digest = message(payload, reserved, name), name.encode()
    if kind == "ed25519":
        private = ed25519.Ed25519PrivateKey.generate()
        key = packed(b"ssh-ed25519", private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        return envelope(key, packed(b"ssh-ed25519", private.sign(signed)), reserved=reserved, name=digest)
    if kind == "rsa":
        own = rsa.generate_private_key(65537, 3072)
        numbers = own.public_key().public_numbers()
        key = packed(b"ssh-rsa") + number(numbers.e) + number(numbers.n)
        value = own.sign(signed, PKCS1v15(), hashes.SHA512())
        return envelope(key, packed(b"rsa-sha2-512", value), reserved=reserved, name=digest)
    curve, algorithm = CURVES[kind]
    drawn = ec.generate_private_key(curve)
    point = drawn.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    key_type = f"ecdsa-sha2-{kind}".encode()
    value = b"".join(map(number, decode_dss_signature(drawn.sign(signed, ec.ECDSA(algorithm)))))
    return envelope(packed(key_type, kind.encode(), point), packed(key_type, value), reserved=reserved, name=digest)


def token_signature(kind: str, payload: bytes, reserved: bytes = b"", digest: str = "sha512") -> bytes:
    """The blob of a signature as a security key makes it (PROTOCOL.u2f): touched, its 7th."""
    application, after = b"ssh:", b"\x01\0\0\0\x07"
    covered = hashlib.sha256(message(payload, reserved, digest)).digest()
    signed = hashlib.sha256(application).digest() + after + covered
    if kind == "sk-ed25519":
        private, name = ed25519.Ed25519PrivateKey.generate(), b"sk-ssh-ed25519@openssh.com"
        public = packed(private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        value = private.sign(signed)
    else:
        curve, name = ec.generate_private_key(ec.SECP256R1()), b"sk-ecdsa-sha2-nistp256@openssh.com"
        point = curve.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        public = packed(b"nistp256", point)
        value = b"".join(map(number, decode_dss_signature(curve.sign(signed, ec.ECDSA(hashes.SHA256())))))
    key = packed(name) + public + packed(application)
    return envelope(key, packed(name, value) + after, reserved=reserved, name=digest.encode())


def rsa_signature(payload: bytes, bits: int, name: bytes, algorithm: hashes.HashAlgorithm) -> bytes:
    private = rsa.generate_private_key(65537, bits)
    numbers = private.public_key().public_numbers()
    key = packed(b"ssh-rsa") + number(numbers.e) + number(numbers.n)
    return envelope(key, packed(name, private.sign(message(payload), PKCS1v15(), algorithm)))


def with_signature(payload: bytes, armoured: bytes, header: bytes = b"gpgsig") -> bytes:
    """A commit object that carries this signature, where git writes it."""
    head, blank, body = payload.partition(b"\n\n")
    return head + b"\n" + header + b" " + armoured.strip().replace(b"\n", b"\n ") + blank + body
