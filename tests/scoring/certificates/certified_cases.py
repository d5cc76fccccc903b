"""Settled pull requests that certify a threshold, for tests of what is made of them."""

from datetime import datetime
from typing import Any

import numpy as np

from scoring.certificates.certificate import Certificate, encode, name_of
from scoring.certificates.issue import Settled, Terms

NOW = datetime(2026, 3, 10, 12, 30)
MODEL = "ab" * 32
TERMS = Terms(0.10, 0.05, "label_clean", MODEL)


def settled(count: int = 300, **changes: Any) -> Settled:
    """One a day by another author each, all scored .95, every fiftieth bad."""
    days = np.datetime64("2026-03-09") - np.arange(count).astype("m8[D]")[::-1]
    columns: dict[str, Any] = {
        "keys": [f"at://did:plc:author{at}/pull/{at}" for at in range(count)],
        "scores": np.full(count, 0.95),
        "bad": (np.arange(count) % 50 == 7).astype(float),
        "odds": np.ones(count),
        "authors": np.arange(count),
        "opened_at": days.astype("datetime64[us]"),
        "push_holder": np.zeros(count, dtype=bool),
        "recorded": np.ones(count, dtype=bool),
    }
    return Settled(**columns | changes)


def bytes_and_name(certificate: Certificate) -> tuple[bytes, str]:
    """Return the bytes and the name of a certificate's file."""
    data = encode(certificate)
    return data, name_of(data)
