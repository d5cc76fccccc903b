"""The attempt to certify a threshold for a model that was just trained: which cases count, and with which score."""

from collections.abc import Collection, Mapping
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from ingest.transaction import Rows
from scoring.labels import clean_as_sent, known_by
from scoring.learning.cases import LABELS, Cases, LabelName
from scoring.learning.certificate import Certificate, Label
from scoring.learning.certify import Settled, Terms, certify, label_for
from scoring.learning.training import Trained

Floats = NDArray[np.float64]
# Of what the lane let through only the audited ones count, each for the 1 / odds that it stands for: that nobody said
# anything of the others does not make them clean.
AUDITED = "select pull_uri, arg_min(odds, known_from) as odds from audits where known_from <= ? group by pull_uri"
WAVED = "select distinct pull_uri from scores where pull_uri is not null and lane = 'fast_lane' and as_of <= ?"


def read_lane(rows: Rows, now: datetime) -> tuple[dict[str, float], set[str]]:
    """The odds of what was audited, and all that the lane let through, by address."""
    odds = {row["pull_uri"]: row["odds"] for row in rows.rows(AUDITED, [now])}
    return odds, {row["pull_uri"] for row in rows.rows(WAVED, [now])}


def attempt(
    cases: Cases,
    trained: Mapping[str, Trained],
    label: LabelName,
    model: str,
    budget: float,
    delta: float,
    days: int,
    lane: tuple[Mapping[str, float], Collection[str]],
    before: Mapping[str, Certificate],
    now: datetime,
) -> Certificate:
    """One attempt on all settled cases with the scores that they were given at opening; arguments as in `Terms`.

    Raises CertificateProblem where this model had its attempt this month.
    """
    told = (cases.as_sent >= 0) & (clean_as_sent(cases, label).clean >= 0)
    counted = label_for(int(np.count_nonzero(told)), label)
    settled = _settled(cases, _given(trained), _bad(cases, label, counted, now), *lane)
    return certify(settled, Terms(budget, delta, counted, model, days), before, now)


def _given(trained: Mapping[str, Trained]) -> Floats:
    """P(clean) as the gate would have had it at opening: of a change and its author alone the lower one."""
    return np.fmin(trained["change"].told, trained["person"].told)


def _bad(cases: Cases, label: LabelName, counted: Label, now: datetime) -> Floats:
    """1 for not clean, 0 for clean, the chance of it for what is still open; NaN where nothing is known."""
    if counted not in LABELS:
        # Of an imported history nobody knows what was sent first: its refusals alone would count.
        clean = np.where([str(key).startswith("at://") for key in cases.keys], clean_as_sent(cases, label).clean, -1)
        return np.where(clean < 0, np.nan, 1.0 - clean)
    known = known_by(cases, label, now)
    bad, told = (np.zeros(len(cases)) for _ in range(2))
    np.add.at(bad, known.positions, known.weight * (1 - known.target))
    np.add.at(told, known.positions, known.weight)
    return np.divide(bad, told, out=np.full(len(cases), np.nan), where=told > 0)


def _settled(cases: Cases, scores: Floats, bad: Floats, odds: Mapping[str, float], waved: Collection[str]) -> Settled:
    unheard = np.array([key in waved and key not in odds for key in cases.keys], dtype=np.bool_)
    return Settled(
        keys=[str(key) for key in cases.keys],
        scores=np.where(unheard, np.nan, scores),
        bad=bad.clip(0.0, 1.0),
        odds=np.array([odds.get(str(key), 1.0) for key in cases.keys], dtype=np.float64),
        authors=cases.authors,
        opened_at=cases.opened_at,
        push_holder=cases.push_holder,
    )
