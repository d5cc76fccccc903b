"""Making a certificate from settled cases, and recomputing one that somebody else made. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from scoring.learning.certificate import (
    ENOUGH_AS_SENT,
    FORM,
    LONGEST_DAYS,
    REVIEWED,
    Case,
    Certificate,
    CertificateProblem,
    Found,
    Label,
    ToldNeed,
    ToldRule,
    case_name,
    data_digest,
    decode,
    delta_of,
    encode,
    name_of,
    to_seconds,
)
from scoring.learning.lanes import STEPS, Judged
from scoring.threshold import DEFAULT, Choice, Rule, choose

VERSION = "fixed-sequence/1"
RULES: Mapping[str, Rule] = {VERSION: DEFAULT}  # every version that a certificate may name
SECOND = np.timedelta64(1, "s")


@dataclass(frozen=True, slots=True)
class Settled:
    """Settled pull requests of all watched repositories and imported histories: columns of one length.

    `keys` are their addresses, `scores` P(clean) as given at opening, `bad` 1 for not clean or a probability, `odds` 1
    for whatever people judged anyhow and those of the draw for an audited one. `push_holder`: the author might push to
    the target.
    """

    keys: Sequence[str]
    scores: NDArray[np.float64]
    bad: NDArray[np.float64]
    odds: NDArray[np.float64]
    authors: NDArray[np.int64]
    opened_at: NDArray[np.datetime64]
    push_holder: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Terms:
    """What is to be certified: a budget, the delta of all attempts together, by which label, of which model.

    `model` is the SHA-256 of the model's file; `days` until it expires, at most 90.
    """

    budget: float
    delta: float
    label: Label
    model: str
    days: int = LONGEST_DAYS


def label_for(as_sent_known: int, otherwise: Label = "label_clean") -> Label:
    """The label of a certificate: what the fast lane promises, once so many settled cases tell of it."""
    return "clean_as_sent" if as_sent_known >= ENOUGH_AS_SENT else otherwise


def certify(settled: Settled, terms: Terms, before: Mapping[str, Certificate], now: datetime) -> Certificate:
    """One attempt at this moment (naive UTC), after all attempts `before` by the names of their files.

    Push-holders' own pull requests, those opened before the rule's window and those without a score are left out.
    Raises CertificateProblem where this model had its attempt this calendar month, and ValueError for terms or columns
    that make no sense.
    """
    attempts = {name: one for name, one in before.items() if not one.later}
    if any(one.model == terms.model and _month(one.made_at) == _month(now) for one in attempts.values()):
        raise CertificateProblem(f"this model had its attempt in {now:%B %Y}: there is one a calendar month")
    if not 0 < terms.days <= LONGEST_DAYS:
        raise ValueError(f"a certificate lasts between 1 and {LONGEST_DAYS} days")
    made_at, last = now.replace(microsecond=0), max(attempts.items(), key=_number, default=None)
    attempt = 1 + (last[1].attempt if last else 0)
    window = made_at - timedelta(days=DEFAULT.window_days), made_at
    cases = _cases(settled, window, made_at)
    spent = delta_of(terms.delta, attempt)
    return Certificate(
        form=FORM,
        rule=_told(VERSION),
        label=terms.label,
        note=_note(terms.label),
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
        found=_found(judge_cases(cases, terms.budget, spent, DEFAULT)),
        previous=last[0] if last else None,
    )


def judge_cases(cases: Sequence[Case], budget: float, delta: float, rule: Rule) -> Choice:
    """The threshold that a rule chooses on the cases of a certificate."""
    columns = [np.array([getattr(one, name) for one in cases]) for name in ("score", "bad", "author", "opened", "odds")]
    scores, bad, authors, opened, odds = columns
    moments = opened.astype(np.int64).astype("datetime64[s]")
    return choose(Judged.of(scores / STEPS, bad, authors, moments, 1 / odds), budget, delta, rule)


def differences(data: bytes, name: str, now: datetime) -> list[str]:
    """Everything in which a file of this name differs from what it must be, in sentences; empty: all was recomputed.

    Never raises for whatever the bytes are.
    """
    try:
        told = decode(data)
    except CertificateProblem as problem:
        return [f"{str(problem)[0].upper()}{str(problem)[1:]}."]
    found = [*_of_name(data, name), *_of_terms(told, now), *_of_cases(told)]
    return [*found, *_of_threshold(told)] if told.rule == _told_or_none(told.rule.version) else found


def differences_to_store(
    told: Certificate, facts: Mapping[str, tuple[bool | None, int, bool]]
) -> tuple[list[str], int]:
    """In what a certificate differs from a store, and how many of its cases the store has.

    `facts` are (bad, author, push_holder) of the store's pull requests by their keys, as known when the certificate was
    made; `bad` is None where the store cannot tell. Cases that the store does not have are no difference.
    """
    held = {case_name(told.made_at, key): fact for key, fact in facts.items()}
    people: dict[int, int] = {}
    numbers: dict[int, int] = {}
    problems, compared = [], 0
    for case in told.cases:
        if case.name in held:
            bad, author, push_holder = held[case.name]
            compared += 1
            number = numbers.setdefault(author, case.author)
            same = people.setdefault(case.author, author) == author and number == case.author
            problems += _of_fact(case, bad, push_holder, same)
    return problems, compared


def _of_fact(case: Case, bad: bool | None, push_holder: bool, same_author: bool) -> Iterator[str]:
    name = f"Case {case.name[:12]}"
    if bad is not None and case.bad != bad:
        yield f"{name} counts as {_word(case.bad)}, and the store says {_word(float(bad))}."
    if push_holder:
        yield f"{name} is by somebody who may push, whose own never count."
    if not same_author:
        yield f"{name} counts for author {case.author}, who is another one in the store."


def extends(told: Certificate, previous: Certificate) -> list[str]:
    """What a successor changed of the file that it extends besides adding outcomes; empty where it did only that."""
    if not told.later:
        return [] if told.attempt == previous.attempt + 1 else ["Its attempt does not follow that of the file before."]
    same = [one for one in told.__struct_fields__ if one not in ("previous", "later")]
    changed = [one for one in same if getattr(told, one) != getattr(previous, one)]
    kept = told.later[: len(previous.later)] == previous.later and len(told.later) > len(previous.later)
    return [f"It changed {one} of the certificate that it extends." for one in changed] + (
        [] if kept else ["It does not keep the later outcomes that stood before."]
    )


def _number(item: tuple[str, Certificate]) -> tuple[int, str]:
    return item[1].attempt, item[0]


def _month(moment: datetime) -> tuple[int, int]:
    return moment.year, moment.month


def _note(label: Label) -> str:
    return "" if label == "clean_as_sent" else REVIEWED


def _told(version: str) -> ToldRule:
    numbers = {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(RULES[version]).items()}
    return ToldRule(version, numbers)


def _told_or_none(version: str) -> ToldRule | None:
    return _told(version) if version in RULES else None


def _cases(settled: Settled, window: tuple[datetime, datetime], made_at: datetime) -> tuple[Case, ...]:
    """The cases that count, in the order of their digests, which tells nothing; authors numbered as they come."""
    start, end = (np.datetime64(one) for one in window)
    counts = ~settled.push_holder & np.isfinite(settled.scores) & np.isfinite(settled.bad)
    counts &= (settled.opened_at >= start) & (settled.opened_at < end)
    named = sorted((case_name(made_at, settled.keys[at]), int(at)) for at in np.flatnonzero(counts))
    numbers: dict[int, int] = {}
    return tuple(
        Case(
            name,
            int((settled.opened_at[at] - np.datetime64(0, "s")) // SECOND),
            int(np.floor(settled.scores[at] * STEPS + 1e-9)),
            float(settled.bad[at]),
            float(settled.odds[at]),
            numbers.setdefault(int(settled.authors[at]), len(numbers)),
        )
        for name, at in named
    )


def _found(choice: Choice) -> Found:
    n, k, effective, bound, share = (
        round(one, 6) for one in (choice.n, choice.k, choice.effective, choice.bound, choice.share)
    )
    need = None if choice.need is None else ToldNeed(**asdict(choice.need))
    return Found(choice.threshold, choice.why, n, k, choice.authors, effective, bound, share, need)


def _of_name(data: bytes, name: str) -> Iterator[str]:
    if name_of(data) != name:
        yield "Its name is not the SHA-256 of its bytes."


def _of_terms(told: Certificate, now: datetime) -> Iterator[str]:
    """Rule, label, delta and times."""
    if told.rule.version not in RULES:
        yield "It names a version of the rule that is not known here."
    elif told.rule != _told(told.rule.version):
        yield "Its rule has other numbers than that version has."
    if told.note != _note(told.label):
        yield "Its note does not say what its label asks for."
    if told.delta_spent != delta_of(told.delta, told.attempt):
        yield f"It spent {told.delta_spent:g} of delta, and attempt {told.attempt} may not."
    if told.made_at > now:
        yield "It was made in the future."
    if now >= told.expires_at:
        yield f"It expired on {told.expires_at:%Y-%m-%d}."
    if not timedelta(0) < told.expires_at - told.made_at <= timedelta(days=LONGEST_DAYS):
        yield f"It lasts for another time than up to {LONGEST_DAYS} days."


def _of_cases(told: Certificate) -> Iterator[str]:
    """The data and the window."""
    if told.data != data_digest(told.cases):
        yield "Its data digest is not that of its cases."
    if len({one.name for one in told.cases}) != len(told.cases):
        yield "A case stands twice in it."
    first, last = (to_seconds(one) for one in told.window)
    if any(not first <= one.opened <= last for one in told.cases):
        yield "A case was opened outside its window."
    if told.window[1] > told.made_at:
        yield "Its window ends after it was made."
    seconds = [one.known for one in told.later]
    if seconds != sorted(seconds) or (seconds and seconds[0] < to_seconds(told.made_at)):
        yield "Its later outcomes do not follow each other after it was made."


def _of_threshold(told: Certificate) -> Iterator[str]:
    """The threshold and every figure that goes with it."""
    found = _found(judge_cases(told.cases, told.budget, told.delta_spent, RULES[told.rule.version]))
    for name in found.__struct_fields__:
        mine, theirs = getattr(found, name), getattr(told.found, name)
        if not _same(mine, theirs):
            yield f"It says {name} = {_shown(theirs)}; recomputed it is {_shown(mine)}."


def _same(mine: Any, theirs: Any) -> bool:
    """Equal, but for the last decimal that a machine rounded otherwise."""
    if isinstance(mine, float) and isinstance(theirs, float):
        return abs(mine - theirs) <= 2e-6
    return mine == theirs


def _shown(value: Any) -> str:
    return "".join(letter for letter in f"{value}" if letter.isprintable())[:100]


def _word(bad: float) -> str:
    return {0.0: "clean", 1.0: "bad"}.get(bad, f"{bad:g} bad")


def succeed(certificate: Certificate, name: str, later: Sequence[Any]) -> Certificate:
    """The successor of the certificate with this name that has these outcomes (`Later`) besides."""
    return msgspec.structs.replace(certificate, previous=name, later=(*certificate.later, *later))


def bytes_and_name(certificate: Certificate) -> tuple[bytes, str]:
    """The file of a certificate: its bytes and the name that follows from them."""
    data = encode(certificate)
    return data, name_of(data)
