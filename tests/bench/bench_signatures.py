"""Time to check the signature of a commit: `python -m tests.bench.bench_signatures`.

One line of JSON: milliseconds for each kind of key, the fastest of some rounds, so that other programs count less. The
longest RSA key that is read stands beside those that OpenSSH makes.
"""

import json
import tempfile
import time
from pathlib import Path

from cryptography.hazmat.primitives import hashes

from ingest.git.signatures import RSA_BITS, verify_signature
from tests.ingest.git.signed import KINDS, PAYLOAD, armour, make_key, rsa_signature, token_signature

ROUNDS, CHECKS = 20, 20


def milliseconds(armoured: bytes) -> float:
    """The time for one check, in the fastest of ROUNDS rounds."""
    spans = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CHECKS):
            if verify_signature(armoured, PAYLOAD) is None:
                raise ValueError("the signature that is measured is not valid")
        spans.append(time.perf_counter() - began)
    return min(spans) / CHECKS * 1000


def main() -> None:
    longest = RSA_BITS[-1]
    with tempfile.TemporaryDirectory() as folder:
        signatures = {kind: make_key(Path(folder), kind).sign(PAYLOAD) for kind in KINDS}
    for kind in ("sk-ed25519", "sk-nistp256"):
        signatures[kind] = armour(token_signature(kind, PAYLOAD))
    signatures[f"rsa-{longest}"] = armour(rsa_signature(PAYLOAD, longest, b"rsa-sha2-512", hashes.SHA512()))
    print(json.dumps({kind: round(milliseconds(armoured), 2) for kind, armoured in signatures.items()}))


if __name__ == "__main__":
    main()
