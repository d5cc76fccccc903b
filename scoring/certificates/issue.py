"""Makes certificates from settled cases. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

import msgspec
import numpy as np
from numpy.typing import NDArray

from scoring.certificates.certificate import (
    ENOUGH_AS_SENT,
    FORM,
    LONGEST_DAYS,
    REVIEWED,
    SCORES_SHOWN,
    Case,
    Certificate,
    CertificateProblem,
    CertifiedResult,
    Label,
    LaterOutcome,
    NeedRecord,
    RuleRecord,
    Side,
    case_name,
    data_digest,
    delta_of_attempt,
)
from scoring.certificates.lane_counts import STEPS, ScoredCases
from scoring.certificates.threshold import DEFAULT, Choice, Rule, choose_low, choose_threshold
from scoring.dataset.cases import Cases, LabelName
from scoring.dataset.labels import AuditAnswer, as_known, clean_as_sent, known_by

Floats = NDArray[np.float64]


VERSION = "fixed-sequence/1"
RULES: Mapping[str, Rule] = {VERSION: DEFAULT}  # every version that a certificate may name
SECOND = np.timedelta64(1, "s")
SIDES: Mapping[Side, str] = {"high": "", "low": " at T_LOW"}


@dataclass(frozen=True, slots=True)
class Settled:
    """Settled pull requests of all watched repositories and imported histories: columns of one length.

    `keys` are their addresses, `scores` P(clean) at opening, `bad` 1 for not clean or a probability, `odds` those of
    the draw for an audited one, else 1. `push_holder`: the author could push to the target. `recorded`: an earlier pull
    request by the author had settled by then.
    """

    keys: Sequence[str]
    scores: NDArray[np.float64]
    bad: NDArray[np.float64]
    odds: NDArray[np.float64]
    authors: NDArray[np.int64]
    opened_at: NDArray[np.datetime64]
    push_holder: NDArray[np.bool_]
    recorded: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a certificate: a budget, the delta for all attempts of a side, a label and a model.

    `model` is the SHA-256 of the model's file; the certificate expires after `days`, at most 90. `definition` is that
    of `Certificate`, None for the label itself.
    """

    budget: float
    delta: float
    label: Label
    model: str
    days: int = LONGEST_DAYS
    side: Side = "high"
    definition: LabelName | None = None

    @property
    def defined(self) -> LabelName:
        """Return the label that makes a pull request clean."""
        if self.definition is not None:
            return self.definition
        return "label_clean" if self.label == "clean_as_sent" else self.label


def label_for(as_sent_known: int, otherwise: Label = "label_clean") -> Label:
    """Return the label of a certificate: clean_as_sent, the lane's promise, once enough cases have it."""
    return "clean_as_sent" if as_sent_known >= ENOUGH_AS_SENT else otherwise


def certify(settled: Settled, terms: Terms, before: Mapping[str, Certificate], now: datetime) -> Certificate:
    """Make one attempt at `now` (naive UTC); `before` holds all earlier attempts by the names of their files.

    Push-holders' own pull requests, those opened before the rule's window and those without a score do not count; for
    the side "low" neither do those of people without a record, whom a low P sends nowhere. Raises CertificateProblem
    for a second attempt of this model at this side in a calendar month, and ValueError for impossible terms or columns.
    """
    attempts = {
        name: certificate
        for name, certificate in before.items()
        if not certificate.later and certificate.side == terms.side
    }
    if any(
        certificate.model == terms.model and _month(certificate.made_at) == _month(now)
        for certificate in attempts.values()
    ):
        raise CertificateProblem(
            f"this model had its attempt{SIDES[terms.side]} in {now:%B %Y}: there is one a calendar month"
        )
    if not 0 < terms.days <= LONGEST_DAYS:
        raise ValueError(f"a certificate lasts between 1 and {LONGEST_DAYS} days")
    made_at, last = now.replace(microsecond=0), max(attempts.items(), key=_attempt_order, default=None)
    attempt = 1 + (last[1].attempt if last else 0)
    window = made_at - timedelta(days=DEFAULT.window_days), made_at
    cases = _certificate_cases(settled, is_counted(settled, terms.side, *window), made_at)
    spent = delta_of_attempt(terms.delta, attempt)
    return Certificate(
        form=FORM,
        side=terms.side,
        rule=rule_record(VERSION),
        label=terms.label,
        definition=terms.defined,
        note=note_of(terms.side, terms.label),
        budget=terms.budget,
        delta=terms.delta,
        attempt=attempt,
        delta_spent=spent,
        made_at=made_at,
        expires_at=made_at + timedelta(days=terms.days),
        window=window,
        model=terms.model,
        data=data_digest(cases),
        cases=cases,
        found=result_of(find_threshold(cases, terms.side, terms.budget, spent, DEFAULT)),
        previous=last[0] if last else None,
    )


def is_counted(settled: Settled, side: Side, start: datetime, end: datetime) -> NDArray[np.bool_]:
    """Return a mask: the pull requests that count for a certificate of this side, opened from `start` to `end`."""
    counted = ~settled.push_holder & np.isfinite(settled.scores) & np.isfinite(settled.bad)
    counted &= (settled.opened_at >= np.datetime64(start)) & (settled.opened_at < np.datetime64(end))
    return counted if side == "high" else counted & settled.recorded


def find_threshold(cases: Sequence[Case], side: Side, budget: float, delta: float, rule: Rule) -> Choice:
    columns = [
        np.array([getattr(case, name) for case in cases]) for name in ("score", "bad", "author", "opened", "odds")
    ]
    scores, bad, authors, opened, odds = columns
    moments = opened.astype(np.int64).astype("datetime64[s]")
    choose = choose_threshold if side == "high" else choose_low
    return choose(ScoredCases.of(scores / STEPS, bad, authors, moments, 1 / odds), budget, delta, rule)


def _attempt_order(item: tuple[str, Certificate]) -> tuple[int, str]:
    return item[1].attempt, item[0]


def _month(moment: datetime) -> tuple[int, int]:
    return moment.year, moment.month


def note_of(side: Side, label: Label) -> str:
    """Return the caveat on the figures."""
    if side == "low":
        return SCORES_SHOWN
    return "" if label == "clean_as_sent" else REVIEWED


def rule_record(version: str) -> RuleRecord:
    numbers = {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(RULES[version]).items()
    }
    return RuleRecord(version, numbers)


def _certificate_cases(settled: Settled, counts: NDArray[np.bool_], made_at: datetime) -> tuple[Case, ...]:
    """Return the counted cases in the order of their digests, which reveals nothing; authors are numbered."""
    named = sorted((case_name(made_at, settled.keys[position]), int(position)) for position in np.flatnonzero(counts))
    numbers: dict[int, int] = {}
    return tuple(
        Case(
            name,
            int((settled.opened_at[position] - np.datetime64(0, "s")) // SECOND),
            int(np.floor(settled.scores[position] * STEPS + 1e-9)),
            float(settled.bad[position]),
            float(settled.odds[position]),
            numbers.setdefault(int(settled.authors[position]), len(numbers)),
        )
        for name, position in named
    )


def result_of(choice: Choice) -> CertifiedResult:
    n, k, effective, bound, share = (
        round(figure, 6) for figure in (choice.n, choice.k, choice.effective, choice.bound, choice.share)
    )
    need = None if choice.need is None else NeedRecord(**asdict(choice.need))
    return CertifiedResult(choice.threshold, choice.why, n, k, choice.authors, effective, bound, share, need)


def add_later_outcomes(certificate: Certificate, name: str, later: Sequence[LaterOutcome]) -> Certificate:
    """Return the successor of a certificate with further outcomes; `name` is that of the extended file."""
    return msgspec.structs.replace(certificate, previous=name, later=(*certificate.later, *later))


def bad_shares(
    cases: Cases, definition: LabelName, counted: Label, audited: Mapping[str, AuditAnswer], now: datetime
) -> Floats:
    """Return 1 for not clean, 0 for clean, a probability for still open cases, NaN for unknown ones.

    An auditor's answer comes before the mined outcome. Only facts known by `now` count.
    """
    mined = (
        _bad_by_definition(cases, definition, now) if counted == definition else _bad_as_sent(cases, definition, now)
    )
    answered = np.array([audited[key].bad if key in audited else np.nan for key in cases.keys], dtype=np.float64)
    return np.where(np.isnan(answered), mined, answered).clip(0.0, 1.0)


def _bad_by_definition(cases: Cases, definition: LabelName, now: datetime) -> Floats:
    labels = known_by(cases, definition, now)
    bad, known_weight = (np.zeros(len(cases)) for _ in range(2))
    np.add.at(bad, labels.positions, labels.weight * (1 - labels.target))
    np.add.at(known_weight, labels.positions, labels.weight)
    return np.divide(bad, known_weight, out=np.full(len(cases), np.nan), where=known_weight > 0)


def _bad_as_sent(cases: Cases, definition: LabelName, now: datetime) -> Floats:
    """Return the outcomes of clean_as_sent; imported cases stay unknown, since what was sent first is unknown."""
    known_cases, bad = as_known(cases, now), np.full(len(cases), np.nan)
    clean = clean_as_sent(known_cases, definition).clean
    is_known = (clean >= 0) & np.array([str(key).startswith("at://") for key in known_cases.keys], dtype=np.bool_)
    bad[: len(known_cases)][is_known] = 1.0 - clean[is_known]
    return bad
