"""The pill of a pull request or a person: its lane in a word, with the chance where there is one. Pure."""

from dataclasses import dataclass, replace
from typing import Literal

from scoring.explain.decided import OF_CONTENT
from scoring.formatting import percent, percent_interval
from scoring.queries.read import ContributorScore, QueueRow
from scoring.types import Lane, Verdict

Kind = Literal["fast", "would", "review", "flag", "person", "audit", "unknown"]
LANE_KINDS: dict[Lane, Kind] = {Lane.NEEDS_HUMAN: "flag", Lane.NORMAL_QUEUE: "review", Lane.FAST_LANE: "fast"}
# Reasons for the word "Flagged"; other reasons to ask a person find nothing in the change or its author.
WARNINGS = frozenset({"denounced_by_seed", "low_probability", "high_flag", "content_risk_high"})
HIDDEN = "hidden"  # replaces a chance that is hidden until an audit is answered
LANE_WORDS: dict[Lane, str] = {Lane.NEEDS_HUMAN: "Flagged", Lane.NORMAL_QUEUE: "Review", Lane.FAST_LANE: "Fast lane"}


@dataclass(frozen=True, slots=True)
class Pill:
    """The lane in words with an icon; `number` is the chance to stay clean in words, "" where there is none.

    `interval` is its 95 % interval or HIDDEN; `track` is lower end, number and upper end in per cent.
    """

    kind: Kind
    number: str
    word: str
    interval: str = ""
    track: tuple[float, float, float] | None = None


def pill(verdict: Verdict, shadow: bool = False) -> Pill:
    """Return the pill of a verdict. Without evidence it says so instead of a number, unless the lane is a warning.

    In `shadow` mode the fast lane is hypothetical: the words say so, and it has no colour.
    """
    probability = verdict.estimate.probability
    if probability is None and verdict.lane is not Lane.NEEDS_HUMAN:
        if any(reason.code in OF_CONTENT for reason in verdict.reasons):
            return Pill("review", "", lane_word(verdict))  # findings decide, not the missing number
        return Pill("unknown", "", "No score yet")
    number = "" if probability is None else percent(probability)
    low, high = verdict.estimate.low, verdict.estimate.high
    track = None if probability is None else (round(100 * low, 1), round(100 * probability, 1), round(100 * high, 1))
    interval = percent_interval(low, high) if number else ""
    if shadow and verdict.lane is Lane.FAST_LANE:
        return Pill("would", number, "Would be fast lane", interval, track)
    kind = "person" if is_unblamed(verdict) else LANE_KINDS[verdict.lane]
    word = f"{lane_word(verdict)}, estimated" if is_estimated(verdict) else lane_word(verdict)
    return Pill(kind, number, word, interval, track)


def is_estimated(verdict: Verdict) -> bool:
    """Return whether it is in the fast lane on an estimate, without a certificate."""
    return verdict.lane is Lane.FAST_LANE and any(reason.code == "threshold_estimated" for reason in verdict.reasons)


def is_unblamed(verdict: Verdict) -> bool:
    """Return whether a person is asked although nothing was found, such as after an objection."""
    return verdict.lane is Lane.NEEDS_HUMAN and not any(reason.code in WARNINGS for reason in verdict.reasons)


def lane_word(verdict: Verdict) -> str:
    """Return the lane in a word or two."""
    return "For a person" if is_unblamed(verdict) else LANE_WORDS[verdict.lane]


def row_pill(row: QueueRow) -> Pill:
    """Return the pill of a row. A drawn row is neutral: no lane and, until somebody answers, no number.

    After a passed audit it is in the fast lane again, from which it was drawn. Other rows of its author show their lane
    without a number. A push-holder's own is not flagged for its chance.
    """
    if row.is_sealed:
        return Pill("audit", "", "Audit")
    shown = pill(row.verdict, row.shadow)
    if row.own and WARNINGS.intersection(reason.code for reason in row.verdict.reasons) == {"low_probability"}:
        shown = replace(shown, kind="review", word=LANE_WORDS[Lane.NORMAL_QUEUE])  # they merge it themselves
    if row.hidden_by:
        is_hypothetical = row.shadow and row.verdict.lane is Lane.FAST_LANE
        word = "Would be fast lane" if is_hypothetical else lane_word(row.verdict)
        shown = Pill("would" if is_hypothetical else LANE_KINDS[row.verdict.lane], "", word, HIDDEN)
    if row.audited and row.audited.would_merge:
        return replace(shown, kind="fast", word=f"{LANE_WORDS[Lane.FAST_LANE]}, audited")
    return replace(shown, word=f"{shown.word}, audited") if row.audited else shown


def lane_pill(shown: Pill) -> Pill:
    """Return the lane alone; what only a record, a chance or an audit tells apart is one lane, the review."""
    words: dict[Kind, str] = {"flag": "Flagged", "fast": "Fast lane", "would": "Would be fast lane"}
    return Pill(shown.kind, "", words[shown.kind]) if shown.kind in words else Pill("review", "", "Review")


def score_pill(score: ContributorScore) -> Pill:
    """Return the pill of a person in one repository."""
    return pill(decided(score), score.shadow)


def decided(score: ContributorScore) -> Verdict:
    """Return the verdict with the lane of the newest open pull request, where there is one."""
    return replace(score.verdict, lane=score.decision)
