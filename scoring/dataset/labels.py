"""The outcome of each pull request under three definitions, when it was known, and the cases to train on. Pure.

A merge is known at once and a refusal only after months, so the labels known so far are too good: on real history a
budget of 10 % that was chosen on them really gave 18.5 %. Training as of a moment therefore uses `known_by`, and
measuring uses `outcomes` of the `settled` cases.

Survival curves in steps of an hour estimate how many open cases will still be merged: Kaplan and Meier's estimator, and
Aalen and Johansen's where a wait may end in two ways. Pure NumPy.

A fast-laned pull request without an answer of the audit is not known to be clean, so it is neither learned from nor
judged by. An answer weighs 1 / odds. Outcomes that surfaced by themselves showed .029 too few bad ones of .051, weighed
answers .003.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.cases import Cases, LabelName, Times

Floats = NDArray[np.float64]
HOURS = 24 * 730  # later ends count in the last step; of 8,653 real merges 13 took longer
GROUP = 200  # a group with fewer cases takes the curve of everybody


@dataclass(frozen=True, slots=True)
class Arrivals:
    """`later[g, h]`: chance in [0, 1] that a case of group g that waits after hour h still ends well."""

    later: Floats  # (2, HOURS + 1)

    def chance(self, waited: Floats, group: NDArray[np.bool_]) -> Floats:
        """Return the chance of cases that have waited this many hours; 0 for NaN."""
        return np.where(np.isnan(waited), 0.0, self.later[group.astype(np.int64), _steps(waited)])


def estimate_arrivals(ended: Floats, watched: Floats, worth: Floats, group: NDArray[np.bool_]) -> Arrivals:
    """Estimate how waits end, in each of two groups.

    `ended`: hours after which a case ended, NaN while it waits; `watched`: hours for which it was watched; `worth`: in
    [0, 1], how good that end was (0 for a refusal). A group of fewer than GROUP cases takes the curve of everybody.
    """
    everybody = _later(ended, watched, worth)
    curves = []
    for members in (~group, group):
        few = np.count_nonzero(members) < GROUP
        curves.append(everybody if few else _later(ended[members], watched[members], worth[members]))
    return Arrivals(np.stack(curves))


def chance_of_quiet(troubled: Floats, watched: Floats, window: int) -> Floats:
    """Return the chance of n merges to reach the end of a window of so many hours without trouble.

    `troubled`: hours from the merge to trouble, NaN for none; `watched`: hours for which a merge was watched, NaN
    without a merge. The chance is 1 for a window that is over, and for NaN.
    """
    merged = ~np.isnan(watched)
    hurt = merged & (troubled <= window)
    last = np.minimum(_steps(np.where(hurt, troubled, watched))[merged], window)
    failed = np.bincount(last[hurt[merged]], minlength=window + 1)
    at_risk = np.cumsum(np.bincount(last, minlength=window + 1)[::-1])[::-1]
    stays = 1 - failed / np.maximum(at_risk, 1)
    # For a merge watched through hour h: the product of the hours after h.
    after = np.append(np.cumprod(stays[::-1])[::-1][1:], 1.0)
    return np.where(merged, after[np.minimum(_steps(watched), window)], 1.0)


def _later(ended: Floats, watched: Floats, worth: Floats) -> Floats:
    """Compute one curve from the last hour back: good ends in the next hour, and cases that go on waiting."""
    has_ended = ~np.isnan(ended)
    last = _steps(np.where(has_ended, ended, watched))
    ends = np.bincount(last[has_ended], minlength=HOURS + 1)
    good = np.bincount(last[has_ended], weights=worth[has_ended], minlength=HOURS + 1)
    at_risk = np.maximum(np.cumsum(np.bincount(last, minlength=HOURS + 1)[::-1])[::-1], 1)
    well, goes_on = (good / at_risk).tolist(), (1 - ends / at_risk).tolist()
    later = [0.0] * (HOURS + 1)
    for hour in range(HOURS, 0, -1):
        later[hour - 1] = well[hour] + goes_on[hour] * later[hour]
    return np.clip(later, 0.0, 1.0)


def _steps(hours: Floats) -> NDArray[np.int64]:
    """Return the step of each number of hours, 0 for NaN and for negative hours."""
    return np.clip(np.nan_to_num(hours, nan=0.0), 0, HOURS).astype(np.int64)


Moment = datetime | np.datetime64  # naive UTC
WINDOW_DAYS = 14  # a merge whose lines stay quiet that long was clean
SETTLED_DAYS = 194  # 180 quiet days count as a refusal, and a merge waits for its window
# Practice changes: over 21 quarters of real history waiting cases counted .009 too much by the arrivals of all years,
# and .002 by those of the last three.
ARRIVAL_DAYS = 1_095
NEVER = np.datetime64("NaT", "us")
_EVENTS = ("merged_at", "refused_at", "reverted_at", "patched_at", "patched_fix_at", "failed_at")


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes of n cases: `clean` is 1, 0, or -1 for unknown; `known_from` is when it became known, NaT with -1."""

    clean: NDArray[np.int8]
    known_from: Times


class WeightedLabels(NamedTuple):
    """Rows to train on: `positions` in the cases, ascending; `target` is 1 or 0; `weight` is above 0.

    The weight is 1 for a settled case and more for an answer of the audit; a case that is not settled yet has two rows
    whose weights sum to 1.
    """

    positions: NDArray[np.int64]
    target: NDArray[np.int8]
    weight: NDArray[np.float64]


def outcomes(cases: Cases, label: LabelName, window_days: int = WINDOW_DAYS) -> Outcomes:
    """Return the outcome of each case as far as it was watched.

    `label_merge`: merged. `label_clean`: merged, not reverted, its checks did not fail twice, and its lines stayed as
    they were for `window_days`; `label_clean_fix`: likewise, but only a change of them that reads like a fix counts.
    Unseen checks do not count as failed. An open case, and a merge whose window is still open, are unknown.
    """
    bad_at = _bad_at(cases, label)
    window = np.timedelta64(0 if label == "label_merge" else window_days, "D")
    good_at = np.where(np.isnat(bad_at), cases.merged_at + window, NEVER)
    known_from = np.fmin(bad_at, good_at)
    known_from = np.where(known_from <= cases.observed_until, known_from, NEVER)
    clean = np.where(np.isnat(known_from), -1, np.where(np.isnat(bad_at), 1, 0))
    return Outcomes(clean.astype(np.int8), known_from)


def clean_as_sent(cases: Cases, label: LabelName, window_days: int = WINDOW_DAYS) -> Outcomes:
    """Return `outcomes` where clean also needs the first round to be the merged one; unknown where that is unknown."""
    known = outcomes(cases, label, window_days)
    changed = ~np.isnat(cases.merged_at) & (cases.as_sent == 0) & (cases.merged_at <= cases.observed_until)
    clean = np.where(changed, 0, np.where((known.clean == 1) & (cases.as_sent < 0), -1, known.clean)).astype(np.int8)
    known_from = np.where(changed, np.fmin(cases.merged_at, _bad_at(cases, label)), known.known_from)
    return Outcomes(clean, np.where(clean < 0, NEVER, known_from))


def settled(cases: Cases, days: int = SETTLED_DAYS) -> NDArray[np.bool_]:
    """Return a mask of the cases that were watched for so long that good and bad ends are known equally often.

    Nearly all known outcomes of younger cases are merges. Some cases that are old enough are still unknown.
    """
    return cases.opened_at + np.timedelta64(days, "D") <= cases.observed_until


def known_by(
    cases: Cases,
    label: LabelName,
    as_of: Moment,
    arrivals: Arrivals | None = None,
    window_days: int = WINDOW_DAYS,
) -> WeightedLabels:
    """Return survival-weighted labels of every case opened by `as_of`, from facts known then.

    A waiting case counts as clean with the chance that it is merged later and clean; a merge whose window is open with
    the chance that it stays quiet. `arrivals` is estimated from the same cases unless given.
    """
    then = as_known(cases, as_of)
    chance = _chances(then, label, arrivals or arrivals_by(cases, label, as_of, window_days), window_days)
    positions, target = np.repeat(np.arange(len(then)), 2), np.tile(np.array([1, 0], np.int8), len(then))
    weight = np.column_stack([chance, 1 - chance]).ravel()
    counts = weight > 0
    return WeightedLabels(positions[counts], target[counts], weight[counts])


def arrivals_by(cases: Cases, label: LabelName, as_of: Moment, window_days: int = WINDOW_DAYS) -> Arrivals:
    """Estimate how often and how late clean merges come, from facts of the last three years known at `as_of`."""
    then = as_known(cases, as_of)
    then = then.select(then.opened_at > _instant(as_of) - np.timedelta64(ARRIVAL_DAYS, "D"))
    good = outcomes(then, label, window_days)
    worth = np.where(good.clean < 0, _quiet_chances(then, label, window_days), good.clean == 1)
    # A case that was known to be bad before its merge does not wait for it.
    bad_at = _bad_at(then, label)
    merged_at = np.where(bad_at < then.merged_at, NEVER, then.merged_at)
    return estimate_arrivals(
        ended=_hours(np.fmin(bad_at, merged_at), then.opened_at),
        watched=_hours(then.observed_until, then.opened_at),
        worth=np.where(np.isnat(merged_at), 0.0, worth),
        group=then.push_holder,
    )


def as_known(cases: Cases, as_of: Moment) -> Cases:
    """Return the cases opened by a moment as they looked then, without later events."""
    moment = _instant(as_of)
    then = cases.select(cases.opened_at <= moment)
    until = np.minimum(then.observed_until, moment)
    changes = {name: np.where(getattr(then, name) <= until, getattr(then, name), NEVER) for name in _EVENTS}
    return replace(then, observed_until=until, **changes)


def _bad_at(cases: Cases, label: LabelName) -> Times:
    """Return the time from which a case is known to be not clean; NaT where it is not."""
    refused_at = np.where(np.isnat(cases.merged_at), cases.refused_at, NEVER)
    if label == "label_merge":
        return refused_at
    touched_at = cases.patched_at if label == "label_clean" else cases.patched_fix_at
    trouble_at = np.maximum(np.fmin(cases.reverted_at, touched_at), cases.merged_at)
    return np.fmin(np.fmin(refused_at, cases.failed_at), trouble_at)


def _chances(then: Cases, label: LabelName, arrivals: Arrivals, window_days: int) -> NDArray[np.float64]:
    """Return the chance of each case to be clean in the end; 1 or 0 where known."""
    known = outcomes(then, label, window_days)
    waiting = np.isnat(then.merged_at)
    later = arrivals.chance(_hours(then.observed_until, then.opened_at), then.push_holder)
    quiet = _quiet_chances(then, label, window_days)
    return np.where(known.clean >= 0, known.clean == 1, np.where(waiting, later, quiet)).astype(np.float64)


def _quiet_chances(then: Cases, label: LabelName, window_days: int) -> NDArray[np.float64]:
    """Return the chance of each merge without trouble so far to stay without trouble until its window ends."""
    if label == "label_merge":
        return np.ones(len(then))
    return chance_of_quiet(
        troubled=_hours(_bad_at(then, label), then.merged_at),
        watched=_hours(then.observed_until, then.merged_at),
        window=24 * window_days,
    )


def _instant(moment: Moment) -> np.datetime64:
    return moment.astype("datetime64[us]") if isinstance(moment, np.datetime64) else np.datetime64(moment, "us")


def _hours(until: Times, since: Times) -> NDArray[np.float64]:
    """Return the hours between two moments, NaN where one is NaT."""
    return (until - since) / np.timedelta64(1, "h")


class AuditAnswer(NamedTuple):
    """A person's answer about a pull request that the audit drew, the odds of the draw, and when it was known."""

    odds: float
    bad: bool
    known_from: datetime


@dataclass(frozen=True, slots=True)
class FastLaned:
    """The pull requests that the fast lane let through, and those of them that were audited, by address."""

    audited: Mapping[str, AuditAnswer] = field(default_factory=dict)
    addresses: Collection[str] = ()

    def __bool__(self) -> bool:
        return bool(self.audited or self.addresses)

    def unanswered(self, cases: Cases, as_of: np.datetime64 | None = None) -> NDArray[np.bool_]:
        """Return a mask of the cases that the lane let through without an answer, or without one by `as_of`."""
        return np.array([self._is_unanswered(str(key), as_of) for key in cases.keys], dtype=np.bool_)

    def answered(self, cases: Cases, as_of: np.datetime64) -> WeightedLabels:
        """Return labels of the cases that were answered by then, each with the weight 1 / odds."""
        answers = [
            (place, answer)
            for place, answer in enumerate(self.audited.get(str(key)) for key in cases.keys)
            if answer is not None and np.datetime64(answer.known_from, "us") <= as_of
        ]
        return WeightedLabels(
            np.array([place for place, _ in answers], dtype=np.int64),
            np.array([not answer.bad for _, answer in answers], dtype=np.int8),
            np.array([1 / answer.odds for _, answer in answers], dtype=np.float64),
        )

    def apply_answers(self, labels: WeightedLabels, cases: Cases, as_of: np.datetime64) -> WeightedLabels:
        """Drop the mined labels of fast-laned cases, and add the answers."""
        if not self:
            return labels
        of_answers = self.answered(cases, as_of)
        dropped = self.unanswered(cases, as_of)
        dropped[of_answers.positions] = True
        remaining = ~dropped[labels.positions]
        columns = [
            np.concatenate([mined[remaining], answers]) for mined, answers in zip(labels, of_answers, strict=True)
        ]
        order = np.argsort(columns[0], kind="stable")
        return WeightedLabels(*(column[order] for column in columns))

    def _is_unanswered(self, key: str, as_of: np.datetime64 | None) -> bool:
        answer = self.audited.get(key)
        if answer is not None and (as_of is None or np.datetime64(answer.known_from, "us") <= as_of):
            return False
        return key in self.addresses
