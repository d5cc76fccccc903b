"""Measures what estimated lanes really did: `python -m tests.bench.bench_lane_offers FILE`, as docs/history.md lists.

At the beginning of each month it opens the lane that would have been offered on what was known then. The rows count
what all these lanes let through during their month, how much of that was bad, how often the rates of the next three
months and of the next year lay within the interval shown, and which lanes the bet shut within a year (1 in 3 audited).
`part` is the part of its independent cases that the interval counts. The scores are those of a model (the lower of two,
and with the change alone), and the shrunk rate of a site without a model, counted on what became known in the last year
or on a year of what was opened 194 days ago or earlier. People who may push are left out.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from scoring.certificates.in_force import AlarmRule, watch
from scoring.certificates.lane_counts import Offer, ScoredCases
from scoring.certificates.lane_curve import FEWEST_SETTLED, curve_of, given_rate, offer_of
from scoring.certificates.threshold_queries import table_of
from scoring.config.policy import Policy
from scoring.dataset.labels import SETTLED_DAYS, outcomes
from scoring.dataset.track_record import CLEAN, NOT_CLEAN, settled_record
from scoring.models.base import Floats
from scoring.training.backtest import SCOPES, Study
from scoring.training.metrics import interval, mean_of
from scoring.training.replays import BUDGETS
from scoring.training.rolling_origin import DAY, LOOK_BACK
from tests.bench.lane_past import Mask, months_of, print_rows

PARTS = (1.0, 0.5, 1 / 3)
AUDITED, DELTA = 1 / 3, 0.05
FEWEST = 10  # pull requests that a year needs for its rate to mean anything


@dataclass(frozen=True, slots=True)
class Score:
    """A P(clean) of every case; for each month its start, and the cases that an offer is counted on then."""

    name: str
    told: Floats
    months: Sequence[tuple[np.datetime64, ScoredCases]]


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened lane: the offer, and the positions of what it let through in a month, three months and a year."""

    offer: Offer
    month: np.ndarray
    quarter: np.ndarray
    year: np.ndarray


def model_score(study: Study, group: Mask, name: str, scopes: Sequence[str]) -> Score:
    """Return the score of the models that served: the lowest of these scopes."""
    told = np.min([study.served(scope).predicted for scope in scopes], axis=0)
    return Score(name, told, [(month.start, month.judged) for month in months_of(study, group, scopes)])


def rate_score(study: Study, group: Mask, name: str, settled: bool) -> Score:
    """Return the shrunk rate, counted on what opened 194 days ago (`settled`) or became known lately."""
    cases, known = study.past.cases, outcomes(study.past.cases, study.label)
    record, policy = settled_record(cases, study.label), Policy()
    told = given_rate(record[CLEAN], record[NOT_CLEAN], policy.prior, policy.strength)
    wait = SETTLED_DAYS * DAY

    def judged(start: np.datetime64) -> ScoredCases:
        moment = cases.opened_at + wait if settled else known.known_from
        counts = group & ~np.isnan(told) & (known.known_from <= start)
        which = counts & (moment <= start) & (moment > start - LOOK_BACK)
        return ScoredCases.of(told[which], 1.0 - known.clean[which], cases.authors[which], cases.opened_at[which])

    return Score(name, told, [(start, judged(start)) for start in study.clock.months[:-1]])


def scores_of(study: Study, group: Mask) -> Iterator[Score]:
    """The scores whose lanes are played."""
    yield model_score(study, group, "lower of two", SCOPES)
    yield model_score(study, group, "change alone", ("change",))
    yield rate_score(study, group, "rate, known", False)
    yield rate_score(study, group, "rate, settled", True)


def offer_on(judged: ScoredCases, budget: float, part: float) -> Offer | None:
    """The lane that is offered on these cases."""
    if not len(judged):
        return None
    table = table_of(judged)
    curve = curve_of(replace(table, effective=part * table.effective), "own", float(table.sizes[-1]), 365)
    return offer_of(curve, budget) if curve is not None and curve.cases >= FEWEST_SETTLED else None


def opened(study: Study, group: Mask, score: Score, budget: float, part: float) -> Iterator[Opened]:
    """The lanes of all months in which one was offered."""
    cases, told = study.past.cases, score.told
    inside = study.judged & group & ~np.isnan(told)
    for start, judged in score.months:
        offer = offer_on(judged, budget, part)
        if offer is not None:
            through = inside & (cases.opened_at >= start) & (told >= offer.threshold - 1e-9)
            month = start.astype("datetime64[M]")
            yield Opened(offer, *(np.flatnonzero(through & (cases.opened_at < month + count)) for count in (1, 3, 12)))


def row(study: Study, lanes: Sequence[Opened], of: int) -> str:
    """Sum up in a row what all of these lanes did."""
    through = np.unique(np.concatenate([lane.month for lane in lanes]))
    bad = (study.observed[through] == 0).astype(np.float64)
    low, high = interval(mean_of(bad), study.past.cases.authors[through], 1000, 0)
    shown = np.mean(
        [(one.offer.bad_low, one.offer.bad / one.offer.let_through, one.offer.bad_high) for one in lanes], 0
    )
    rate = f"{bad.mean():.1%} [{low:.1%}, {high:.1%}]" if len(bad) else "-"
    return (
        f"{len(lanes):>3} offers, {len(through):>4} of {of:,} through, {rate}; shown {shown[1]:.1%} "
        f"[{shown[0]:.1%}, {shown[2]:.1%}]; {_within(study, lanes)}; {_shut(study, lanes)}"
    )


def _within(study: Study, lanes: Sequence[Opened]) -> str:
    quarters = [(one.offer, study.observed[one.quarter] == 0) for one in lanes if len(one.quarter)]
    years = [(one.offer, study.observed[one.year] == 0) for one in lanes if len(one.year) >= FEWEST]
    inside = sum(offer.bad_low <= bad.mean() <= offer.bad_high for offer, bad in quarters)
    above, worse = (sum(bad.mean() > offer.bad_high for offer, bad in spans) for spans in (quarters, years))
    return f"3 months within {inside}, above {above} of {len(quarters)}; years above {worse} of {len(years)}"


def _shut(study: Study, lanes: Sequence[Opened]) -> str:
    draw, shut = np.random.default_rng(0), {True: 0, False: 0}
    for lane in lanes:
        bad = study.observed[lane.year] == 0
        audited = bad[draw.random(len(bad)) < AUDITED]
        if len(bad) >= FEWEST and watch(audited.tolist(), AlarmRule(lane.offer.bad_high, DELTA)).raised_at is not None:
            shut[bool(bad.mean() > lane.offer.bad_high)] += 1
    return f"shut {shut[True]} of these, {shut[False]} others"


def rows(study: Study, group: Mask, half: str) -> Iterator[str]:
    """Yield a row for each score, budget and part."""
    of = int((study.judged & group).sum())
    for score in scores_of(study, group):
        for budget in BUDGETS:
            for part in PARTS:
                lanes = list(opened(study, group, score, budget, part))
                told = row(study, lanes, of) if lanes else "no offer"
                yield f"{half:<8} {study.label:<16} {score.name:<14}{budget:>4.0%} part {part:.2f}: {told}"


if __name__ == "__main__":
    print_rows(Path(sys.argv[1]), rows)
