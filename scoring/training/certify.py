"""Attempts to certify a threshold for a new model: chooses the cases that count and their scores."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from scoring.certificates.certificate import Certificate, Label
from scoring.certificates.issue import Floats, Settled, Terms, bad_shares, certify, is_counted, label_for
from scoring.certificates.lane_counts import ScoredCases
from scoring.certificates.lane_curve import group_of
from scoring.certificates.threshold import DEFAULT
from scoring.certificates.threshold_queries import StoredGroup, StoredTable, Table, table_of
from scoring.dataset.audit_weights import FastLaned
from scoring.dataset.cases import Cases, LabelName
from scoring.dataset.labels import clean_as_sent
from scoring.dataset.track_record import settled_record, with_record
from scoring.training.train import Trained


def attempt(
    cases: Cases,
    trained: Mapping[str, Trained],
    terms: Terms,
    lane: FastLaned,
    before: Mapping[str, Certificate],
    now: datetime,
) -> Certificate:
    """Make one attempt on all settled cases with their scores at opening.

    The label of `terms` is that of the model; the certificate uses clean_as_sent once enough cases have it. Raises
    CertificateProblem for a second attempt of this model at this side in a month.
    """
    label, counted = terms.defined, label_of(cases, terms)
    settled = settled_cases(cases, trained, label, counted, lane, now)
    return certify(settled, replace(terms, label=counted, definition=label), before, now)


def lane_table(
    cases: Cases, trained: Mapping[str, Trained], terms: Terms, lane: FastLaned, now: datetime
) -> StoredTable:
    """Return the table of thresholds of the pull requests that a certificate of T_HIGH counts, for the last year."""
    label, window = label_of(cases, terms), (now - timedelta(days=DEFAULT.window_days), now)
    settled = settled_cases(cases, trained, terms.defined, label, lane, now)
    counted = is_counted(settled, "high", *window)
    columns = (settled.scores, settled.bad, settled.authors, settled.opened_at, 1 / settled.odds)
    table = table_of(ScoredCases.of(*(column[counted] for column in columns)))
    rounded = {name: tuple(np.round(getattr(table, name), 6).tolist()) for name in Table.__dataclass_fields__}
    everybody = is_counted(replace(settled, push_holder=np.zeros_like(settled.push_holder)), "high", *window)
    groups = (_stored_group(settled, counted & ~settled.recorded), _stored_group(settled, everybody))
    return StoredTable(
        "sunstead-lanes/1", terms.model, label, window, **rounded, newcomers=groups[0], everybody=groups[1]
    )


def _stored_group(settled: Settled, mask: NDArray[np.bool_]) -> StoredGroup:
    return StoredGroup(**asdict(group_of(settled.scores[mask], settled.bad[mask], 1 / settled.odds[mask])))


def label_of(cases: Cases, terms: Terms) -> Label:
    """Return the label of a threshold; T_LOW promises nothing about the patch first sent."""
    if terms.side == "low":
        return terms.defined
    is_known = (cases.as_sent >= 0) & (clean_as_sent(cases, terms.defined).clean >= 0)
    return label_for(int(np.count_nonzero(is_known)), terms.defined)


def settled_cases(
    cases: Cases, trained: Mapping[str, Trained], definition: LabelName, counted: Label, lane: FastLaned, now: datetime
) -> Settled:
    """Return every case with the gate's P(clean) at its opening; NaN for cases that the lane let through unaudited."""
    return Settled(
        keys=[str(key) for key in cases.keys],
        scores=np.where(lane.unanswered(cases), np.nan, _opening_scores(trained)),
        bad=bad_shares(cases, definition, counted, lane.audited, now),
        odds=np.array([lane.audited[key].odds if key in lane.audited else 1.0 for key in cases.keys], dtype=np.float64),
        authors=cases.authors,
        opened_at=cases.opened_at,
        push_holder=cases.push_holder,
        recorded=with_record(settled_record(cases, definition)),
    )


def _opening_scores(trained: Mapping[str, Trained]) -> Floats:
    """Return the gate's P(clean) at opening: the lower of the change's and the author's."""
    return np.fmin(trained["change"].predicted, trained["person"].predicted)
