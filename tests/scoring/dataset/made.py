"""Cases that tests make up: a few by hand, many by a simulation whose truth is known."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.cases import Cases

START = np.datetime64("2020-01-01", "us")
DAY = np.timedelta64(1, "D")
EVENTS = ("merged_at", "refused_at", "reverted_at", "patched_at", "patched_fix_at", "failed_at")


def day(number: float) -> np.datetime64:
    """So many days after the start."""
    return START + np.timedelta64(round(number * 86_400_000_000), "us")


def make_cases(rows: Sequence[Mapping[str, float]], watched: float = 10_000) -> Cases:
    """One case a mapping, in days since the start: `opened` and events by name; `as_sent` and `holder` as they are."""
    rows = sorted(rows, key=lambda row: row.get("opened", 0.0))

    def times(name: str) -> NDArray[np.datetime64]:
        return np.array([day(row[name]) if name in row else np.datetime64("NaT") for row in rows], "datetime64[us]")

    return Cases(
        keys=np.array([f"case {place}" for place in range(len(rows))], dtype=np.object_),
        authors=np.zeros(len(rows), np.int64),
        repositories=np.zeros(len(rows), np.int64),
        push_holder=np.array([bool(row.get("holder", 0)) for row in rows], np.bool_),
        opened_at=np.array([day(row.get("opened", 0.0)) for row in rows], "datetime64[us]"),
        observed_until=np.array([day(row.get("watched", watched)) for row in rows], "datetime64[us]"),
        as_sent=np.array([row.get("as_sent", -1) for row in rows], np.int8),
        features={},
        **{name: times(name) for name in EVENTS},
    )


def simulate(count: int, seed: int, days: float = 600) -> Cases:
    """A history in which merges come after some days, refusals after 180, and a tenth of merges is patched in time."""
    draw = np.random.default_rng(seed)
    rows: list[dict[str, float]] = []
    for opened in np.sort(draw.uniform(0, days, count)):
        row = {"opened": float(opened), "holder": float(draw.random() < 0.3)}
        wait = float(draw.exponential(4 if row["holder"] else 30))
        if draw.random() < (0.9 if row["holder"] else 0.6) and wait < 180:
            row["merged_at"] = opened + wait
            if draw.random() < 0.1:
                row["patched_at"] = row["patched_fix_at"] = row["merged_at"] + float(draw.uniform(0, 14))
        else:
            row["refused_at"] = opened + 180
        rows.append(row)
    return make_cases(rows)
