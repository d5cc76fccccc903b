"""A small made-up history whose truth is known: authors of different worth, refusals that come late."""

import numpy as np

from scoring.dataset.cases import Cases
from scoring.dataset.dataset import Material

DAY = np.timedelta64(1, "D")
NEVER = np.datetime64("NaT", "us")


def made_up(n: int = 1200, authors: int = 120, seed: int = 1, years: float = 4.0) -> Cases:
    """`n` cases over some years; column "worth" is the log odds of a merge seen through noise, "noise" says nothing,
    "own" is moved alone, and follows the outcome."""
    draw = np.random.default_rng(seed)
    opened = np.sort(np.datetime64("2020-01-01", "us") + (draw.random(n) * years * 365 * 86400e6).astype("m8[us]"))
    worth = draw.normal(0.6, 1.5, authors)
    by = draw.integers(0, authors, n)
    merged = draw.random(n) < 1 / (1 + np.exp(-worth[by]))
    late = (draw.exponential(5, n) * 86400e6).astype("m8[us]")
    return Cases(
        keys=np.array([f"case {one}" for one in range(n)], dtype=np.object_),
        authors=-by.astype(np.int64) - 1,
        repositories=-(by % 3).astype(np.int64) - 1,
        push_holder=by % 10 == 0,
        opened_at=opened,
        observed_until=np.full(n, opened[-1] + 200 * DAY),
        merged_at=np.where(merged, opened + late, NEVER),
        refused_at=np.where(merged, NEVER, opened + 180 * DAY),
        reverted_at=np.full(n, NEVER),
        patched_at=np.full(n, NEVER),
        patched_fix_at=np.full(n, NEVER),
        failed_at=np.full(n, NEVER),
        as_sent=np.full(n, -1, dtype=np.int8),
        features={
            "worth": worth[by] + draw.normal(0, 0.5, n),
            "noise": np.where(draw.random(n) < 0.2, np.nan, draw.normal(0, 1, n)),
            "own": merged + draw.normal(0, 1, n),
        },
    )


def material(cases: Cases) -> Material:
    """A person's columns are "worth" and "own" (moved alone), a change's "noise"."""
    person = {"worth": 1, "own": 0}
    return Material(cases, person, {**person, "noise": 0}, ("own",), {-1: "one", -2: "two", -3: "three"})
