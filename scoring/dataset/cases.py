"""Pull requests as a model sees them: the facts at opening, and the outcomes with their times. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

Directions = Mapping[str, int]  # column -> 1: more is never worse, -1: more is never better, 0: not certain
Times = NDArray[np.datetime64]  # datetime64[us], naive UTC; NaT where it did not happen or nobody knows
LabelName = Literal["label_merge", "label_clean_fix", "label_clean"]
LABELS: tuple[LabelName, ...] = ("label_merge", "label_clean_fix", "label_clean")


@dataclass(frozen=True, slots=True)
class Cases:
    """Pull requests in the order of opening, as columns of one length n.

    `keys` are at-uris, or the names of imported pull requests. `authors` and `repositories` are the store's numbers;
    negative ones are known only by an imported history. `push_holder`: the author could push to the target at the
    opening; without a record of that, 30 earlier merges there stand for it. A case was watched until `observed_until`.

    `merged_at` is known at once. `refused_at` is when a push-holder closed the case, or the 180th quiet day.
    `reverted_at`, `patched_at` and `patched_fix_at` are the first time that the merge was taken back, that its lines
    were changed within the window, and that such a change read like a fix. `failed_at` is the second time that its
    checks failed. `as_sent` is 1 where the first round was merged, 0 where another was, -1 where unknown.

    `features` has a column of float64 for each name, NaN where unknown; only events before the opening count.
    """

    keys: NDArray[np.object_]
    authors: NDArray[np.int64]
    repositories: NDArray[np.int64]
    push_holder: NDArray[np.bool_]
    opened_at: Times
    observed_until: Times
    merged_at: Times
    refused_at: Times
    reverted_at: Times
    patched_at: Times
    patched_fix_at: Times
    failed_at: Times
    as_sent: NDArray[np.int8]
    features: Mapping[str, NDArray[np.float64]]

    def __post_init__(self) -> None:
        lengths = {len(getattr(self, column.name)) for column in fields(self) if column.name != "features"}
        if len(lengths | {len(column) for column in self.features.values()}) != 1:
            raise ValueError("the columns of cases must have one length")
        if np.any(np.diff(self.opened_at) < np.timedelta64(0)):
            raise ValueError("cases must be in the order of opening")

    def __len__(self) -> int:
        return len(self.keys)

    def select(self, which: NDArray[Any]) -> Self:
        columns = {one.name: getattr(self, one.name)[which] for one in fields(self) if one.name != "features"}
        return type(self)(**columns, features={name: column[which] for name, column in self.features.items()})

    def and_people(self, authors: NDArray[np.int64], repositories: NDArray[np.int64], now: np.datetime64) -> Self:
        """Append an open case without features, opened now, for each person; ValueError where a case is later."""
        count = len(authors)
        never, moment = np.full(count, np.datetime64("NaT", "us")), np.full(count, now)
        added = {
            "keys": np.full(count, "", dtype=np.object_),
            "authors": authors,
            "repositories": repositories,
            "push_holder": np.zeros(count, dtype=np.bool_),
            "opened_at": moment,
            "observed_until": moment,
            "as_sent": np.full(count, -1, dtype=np.int8),
        }
        names = [column.name for column in fields(self) if column.name != "features"]
        columns = {name: np.concatenate([getattr(self, name), added.get(name, never)]) for name in names}
        return type(self)(**columns, features={})


@dataclass(frozen=True, slots=True)
class Vouches:
    """Vouches and denounces as columns of one length; people by the numbers of `Cases.authors`.

    One counts from `since` until before `until` (NaT: it still stands), both naive UTC.
    """

    vouchers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    subjects: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    is_vouch: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    since: Times = field(default_factory=lambda: np.zeros(0, "datetime64[us]"))
    until: Times = field(default_factory=lambda: np.zeros(0, "datetime64[us]"))

    def columns(self) -> tuple[NDArray[Any], ...]:
        return self.vouchers, self.subjects, self.is_vouch, self.since, self.until
