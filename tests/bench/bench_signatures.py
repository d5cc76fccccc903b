"""Time to check the signature of a commit: `python -m tests.bench.bench_signatures`.

One line of JSON: milliseconds for each kind of key, the fastest of some rounds, so that other programs count less. The
longest RSA key that is read stands beside those that OpenSSH makes, and commits of a megabyte that are made to be slow.
"""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives import hashes

from ingest.git.signatures import HEAD_LINES, RSA_BITS, signing_key, verify_signature
from ingest.lookups.signatures import zone_band
from tests.ingest.git.signed import KINDS, PAYLOAD, armour, make_key, rsa_signature, token_signature

ROUNDS, CHECKS = 20, 20


HOSTILE = {
    "short lines": b"tree x\n" + b"a\n" * 499_990 + b"\nm",
    "a signature without end": b"tree x\ngpgsig a\n" + b" \n" * 490_000 + b"\nm",
    "as many lines as are read": b"tree x\ngpgsig a\n" + b" \n" * (HEAD_LINES - 3) + b"\n" + b"m" * 990_000,
    "one line": b"tree x\ncommitter " + b"> 123456789012 " * 66_000,
}


def read_signature(armoured: bytes) -> None:
    if verify_signature(armoured, PAYLOAD) is None:
        raise ValueError("the signature that is measured is not valid")


def read_commit(commit: bytes) -> None:
    if (signing_key(commit), zone_band(commit)) != (None, None):
        raise ValueError("the commit that is measured says something")


def milliseconds(read: Callable[[bytes], None], data: bytes) -> float:
    """The time to read something once, in the fastest of ROUNDS rounds."""
    spans = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CHECKS):
            read(data)
        spans.append(time.perf_counter() - began)
    return min(spans) / CHECKS * 1000


def main() -> None:
    longest = RSA_BITS[-1]
    with tempfile.TemporaryDirectory() as folder:
        signatures = {kind: make_key(Path(folder), kind).sign(PAYLOAD) for kind in KINDS}
    for kind in ("sk-ed25519", "sk-nistp256"):
        signatures[kind] = armour(token_signature(kind, PAYLOAD))
    signatures[f"rsa-{longest}"] = armour(rsa_signature(PAYLOAD, longest, b"rsa-sha2-512", hashes.SHA512()))
    figures = {kind: milliseconds(read_signature, armoured) for kind, armoured in signatures.items()}
    figures |= {name: milliseconds(read_commit, commit) for name, commit in HOSTILE.items()}
    print(json.dumps({name: round(figure, 2) for name, figure in figures.items()}))


if __name__ == "__main__":
    main()
