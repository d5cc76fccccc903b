"""Recomputing a certificate that somebody else made: from its own bytes, the file before it, and a store. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from scoring.certificates.certificate import (
    LONGEST_DAYS,
    Case,
    Certificate,
    CertificateProblem,
    Later,
    ToldRule,
    case_name,
    data_digest,
    decode,
    delta_of,
    name_of,
    to_seconds,
)
from scoring.certificates.issue import RULES, find_threshold, note_of, told_found, told_rule


def differences(data: bytes, name: str, now: datetime) -> list[str]:
    """Everything in which a file of this name differs from what it must be, in sentences; empty: all was recomputed.

    Never raises for whatever the bytes are.
    """
    try:
        told = decode(data)
    except CertificateProblem as problem:
        return [f"{str(problem)[0].upper()}{str(problem)[1:]}."]
    found = [*_of_name(data, name), *_of_terms(told, now), *_of_cases(told, now)]
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


def later_differences(told: Certificate, outcomes: Mapping[str, tuple[int, float, float]]) -> list[str]:
    """In what the later outcomes of a certificate differ from a store.

    `outcomes` are (seconds when it became known, bad, odds) by key. What the store does not have is no difference: it
    may have been erased since.
    """
    held = {case_name(told.made_at, key): Later(case_name(told.made_at, key), *one) for key, one in outcomes.items()}
    return [
        f"Its later outcome {one.name[:12]} is not what the store says."
        for one in told.later
        if one.name in held and held[one.name] != one
    ]


def _of_fact(case: Case, bad: bool | None, push_holder: bool, same_author: bool) -> Iterator[str]:
    name = f"Case {case.name[:12]}"
    if bad is not None and case.bad != bad:
        yield f"{name} counts as {_word(case.bad)}, and the store says {_word(float(bad))}."
    if push_holder:
        yield f"{name} is by somebody with push access; those never count."
    if not same_author:
        yield f"{name} counts for author {case.author}, who is another one in the store."


def extends(told: Certificate, previous: Certificate) -> list[str]:
    """Return what a successor changed of the file that it extends besides adding outcomes.

    Empty where it did only that.
    """
    if told.side != previous.side:
        return ["The file before it is of the other threshold."]
    if not told.later:
        return [] if told.attempt == previous.attempt + 1 else ["Its attempt does not follow that of the file before."]
    same = [one for one in told.__struct_fields__ if one not in ("previous", "later")]
    changed = [one for one in same if getattr(told, one) != getattr(previous, one)]
    kept = told.later[: len(previous.later)] == previous.later and len(told.later) > len(previous.later)
    return [f"It changed {one} of the certificate that it extends." for one in changed] + (
        [] if kept else ["It does not keep the later outcomes that were there before."]
    )


def _told_or_none(version: str) -> ToldRule | None:
    return told_rule(version) if version in RULES else None


def _of_name(data: bytes, name: str) -> Iterator[str]:
    if name_of(data) != name:
        yield "Its name is not the SHA-256 of its bytes."


def _of_terms(told: Certificate, now: datetime) -> Iterator[str]:
    """Rule, label, delta and times."""
    if told.rule.version not in RULES:
        yield "It names a version of the rule that is not known here."
    elif told.rule != told_rule(told.rule.version):
        yield "Its rule has other numbers than that version has."
    if told.label not in (told.definition, "clean_as_sent"):
        yield "It counts by another label than the one that it names."
    if told.note != note_of(told.side, told.label):
        yield "Its note does not say what its label asks for."
    if told.delta_spent != delta_of(told.delta, told.attempt):
        yield f"It spent {told.delta_spent:g} of delta, and attempt {told.attempt} may not."
    if told.made_at > now:
        yield "It was made in the future."
    if now >= told.expires_at:
        yield f"It expired on {told.expires_at:%Y-%m-%d}."
    if not timedelta(0) < told.expires_at - told.made_at <= timedelta(days=LONGEST_DAYS):
        yield f"It lasts for another time than up to {LONGEST_DAYS} days."


def _of_cases(told: Certificate, now: datetime) -> Iterator[str]:
    """The data and the window."""
    if told.data != data_digest(told.cases):
        yield "Its data digest is not that of its cases."
    if len({one.name for one in told.cases}) != len(told.cases):
        yield "It has a case twice."
    first, last = (to_seconds(one) for one in told.window)
    if any(not first <= one.opened <= last for one in told.cases):
        yield "A case was opened outside its window."
    if told.window[1] > told.made_at:
        yield "Its window ends after it was made."
    if len({one.name for one in told.later}) != len(told.later):
        yield "It has a later outcome twice."
    seconds = [one.known for one in told.later]
    if seconds and seconds[-1] > to_seconds(now):
        yield "A later outcome of it was known in the future."
    if seconds != sorted(seconds) or (seconds and seconds[0] < to_seconds(told.made_at)):
        yield "Its later outcomes do not follow each other after it was made."


def _of_threshold(told: Certificate) -> Iterator[str]:
    """The threshold and every figure that goes with it."""
    rule = RULES[told.rule.version]
    found = told_found(find_threshold(told.cases, told.side, told.budget, told.delta_spent, rule))
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
