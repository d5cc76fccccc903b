"""Shapes the JSON that programs are given: each field with its meaning, unit and range.

They are filled from `scoring.queries.read`. Plain pydantic models: django-ninja's Schema looks up each field as a
template would, half of the CPU of 100 scores.

Content reviews have shapes for what is sent and what is told.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import BaseModel

from ingest.atproto.syntax import parse_handle
from scoring.queries import read
from scoring.types import Estimate, Factor, Lane, Measure
from triage.presenters.queue.pills import Kind, Pill, score_pill
from triage.presenters.queue.row_actions import OpenCounts
from triage.presenters.text import BRIEFING_LENGTH, spoken

EXAMPLE_DID = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"
DECIMALS = 6  # finer than any estimate here is known; sums such as 1.0000000000000002 come back into [0, 1]
TOP_FACTORS = 8

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, examples=[0.87])]
Count = Annotated[int, Field(ge=0, examples=[15])]


class ProblemOut(BaseModel):
    """A problem in the form of RFC 9457; served as application/problem+json."""

    type: str = Field(description="Always about:blank: the status says the kind.", examples=["about:blank"])
    title: str = Field(description="The status in words.", examples=["Not Found"])
    status: int = Field(description="The HTTP status.", ge=400, le=599, examples=[404])
    code: str = Field(
        description="Code of the problem, for programs; never changes its meaning.", examples=["not_found"]
    )
    detail: str = Field(description="One sentence: what went wrong and what to do.")


class PersonOut(BaseModel):
    """Someone on the network."""

    did: str = Field(description="Decentralised identifier; the key of a person.", examples=[EXAMPLE_DID])
    handle: str | None = Field(description="Handle whose domain names this DID; null if none is verified.")


class IntervalOut(BaseModel):
    """The 95 % interval of calibrated_prob; with no evidence it is what the prior alone allows."""

    low: Share = Field(description="Lower end, in [0, 1].")
    high: Share = Field(description="Upper end, in [0, 1].")


class BadgeOut(BaseModel):
    """The lane and the chance in the words and rounding of the pages, for other surfaces to repeat."""

    kind: Kind = Field(
        description="Its mark: fast, would (the lane is not open), review, flag, person (somebody is asked, nothing "
        "was found), audit or unknown."
    )
    word: str = Field(description="The lane in words.", examples=["Flagged"])
    chance: str = Field(description="Chance to stay clean, rounded down; empty: none, or hidden.", examples=["73 %"])
    interval: str = Field(
        description="Its 95 % interval in per cent, rounded outwards; `hidden` until an audit is answered, else empty.",
        examples=["42\N{EN DASH}96"],
    )


class FactorOut(BaseModel):
    """One thing that the score rests on."""

    name: str = Field(description="Name of the factor.", examples=["clean"])
    value: str | int | Annotated[float, Field(allow_inf_nan=False)] | None = Field(description="Its value now.")
    effect: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] | None = Field(
        description="Signed share of calibrated_prob; null for what is shown but does not move it."
    )


class JudgedOut(PersonOut):
    """A contributor with the estimate that every surface shows."""

    calibrated_prob: Share | None = Field(
        description="Chance that the next pull request is merged as sent and needs no revert or fix within "
        "the window; null: no score yet, which is not distrust."
    )
    interval: IntervalOut = Field(description="95 % interval of calibrated_prob.")
    cases: Count = Field(description="Settled pull requests behind the estimate.")
    decision: Lane = Field(
        description="Lane of their newest open pull request; without one, the lane that their next could have."
    )
    hidden_by: str | None = Field(
        None,
        description="at-uri of the pull request whose audit a maintainer has to answer first: until then "
        "calibrated_prob is null, decision is needs_human, and neither says anything. null where nothing is hidden.",
    )


class ScoreOut(JudgedOut):
    """One contributor as judged from one seed set."""

    repository: str | None = Field(description="Key of the repository whose seeds judge; null for the site's seeds.")
    structural_trust: Share = Field(description="Trust from the seeds, in [0, 1], as trust_measure says; 1 for a seed.")
    trust_measure: Measure = Field(
        description="Measure of structural_trust: first_passage, or eigentrust, the baseline scaled to the same range."
    )
    eigentrust: Share = Field(description="Share of the walk from the site's seeds, in [0, 1], in every repository.")
    content_risk: Share | None = Field(description="Risk of the newest reviewed change, in [0, 1]; null: not reviewed.")
    badge: BadgeOut = Field(description="Lane and chance as pages say them.")
    explanation: str = Field(description="Why, in one line for a person, trust path first.")
    top_factors: list[FactorOut] = Field(description=f"Largest effect first, at most {TOP_FACTORS}.")
    seeds: list[PersonOut] = Field(description="People from whose judgement trust starts.")
    as_of: datetime = Field(description="Only events seen before this moment counted; RFC 3339, UTC.")
    model_version: str = Field(description="Version of the model that computed calibrated_prob.")
    shadow: bool = Field(
        description="The lane of its repository is shut and only watched: decision says what it would be, and "
        "nobody can act on it."
    )
    briefing: Annotated[str, Field(max_length=BRIEFING_LENGTH)] | None = Field(
        None, description="With briefing=1: one to three sentences to read aloud, without words that others wrote."
    )


class VoucherOut(PersonOut):
    """Somebody who vouches for the contributor and whom trust reaches."""

    share: Share = Field(description="Share of the contributor's first-passage trust that arrives over this vouch.")
    merges: Count = Field(description="How many verified merges this vouch represents; 0 for a vouch in a record.")
    evidence: Count = Field(description="How many merged pull requests the vouch names that were verified.")


class TrustOut(BaseModel):
    """Explains why one seed set trusts a contributor, and who depends on them; all of it is first-passage trust."""

    distance: int | None = Field(ge=0, description="Hops from the nearest seed; null where no trust reaches.")
    paths: list[list[PersonOut]] = Field(description="At most three paths, seed first, that share nobody but seeds.")
    dominator: PersonOut | None = Field(
        description="The account, other than a seed, without which this trust would be gone."
    )
    vouchers: list[VoucherOut] = Field(
        description="The at most 20 vouchers that bring most of it, the largest share first."
    )
    dependents: list[PersonOut] = Field(description="At most 20 people who reach the threshold only through them.")
    dependents_total: Count = Field(description="Number of such people in all.")
    threshold: Share | None = Field(
        description="The trust that dependents have now and would not have without them; null unless you are a "
        "maintainer."
    )


class LanesOut(BaseModel):
    """Open pull requests in watched repositories by lane, those by people with push access apart."""

    needs_human: Count = Field(description="Someone must look.")
    normal_queue: Count = Field(description="Reviewed in the usual order.")
    fast_lane: Count = Field(description="May be waved through: the lane of their repository is open.")
    would_be_fast_lane: Count = Field(description="Would be fast lane, but the lane of their repository is not open.")


class BinOut(BaseModel):
    """Contributors whose chance is at least low and below high; the last bin includes 1."""

    low: Share = Field(description="Lower edge.")
    high: Share = Field(description="Upper edge.")
    count: Count = Field(description="Contributors in it.")


class OpenOut(BaseModel):
    """Open pull requests of watched repositories without those by people with push access, by where they are."""

    total: Count = Field(description="All of them: inbox, approved and snoozed together.")
    inbox: Count = Field(description="Those in the inbox: its tiles, `lanes` and /digest add up to this.")
    approved: Count = Field(description="Those approved and not merged yet, which the inbox leaves out.")
    snoozed: Count = Field(description="Those snoozed by a maintainer and not approved, which it leaves out too.")


class MetricsOut(BaseModel):
    """Aggregates over everything in one snapshot."""

    open: OpenOut
    lanes: LanesOut = Field(description="Those in the inbox by lane, as on the dashboard; they add up to `open.inbox`.")
    own: Count = Field(description="Open pull requests by people with push access there.")
    histogram: list[BinOut] = Field(description="Chances of contributors to stay clean, from the site's seeds.")
    scored: Count = Field(description="Contributors with a score.")
    not_enough_evidence: Count = Field(description="Contributors among them whose calibrated_prob is null.")
    contributors: Count = Field(description="People who wrote a record or are the subject of one.")
    vouches: Count = Field(description="Current vouches.")
    denounces: Count = Field(description="Current warnings (denounces).")
    seeds: Count = Field(description="The site's seeds.")
    events: Count = Field(description="Events in the log.")
    pull_requests: Count = Field(description="Pull requests known.")
    repositories: Count = Field(description="Repositories known.")
    watched: Count = Field(description="Repositories that a maintainer added.")
    dead_letters: Count = Field(description="Events that could not be understood, kept to be tried again.")
    dropped_strangers: Count = Field(description="Identity and account events of people not seen here, only counted.")
    gaps_open: Count = Field(description="Spans that the stream did not bring and no backfill has filled yet.")
    unknown_shapes: Count = Field(description="Collections, fields and values that the registry does not know.")
    t_low: Share | None = Field(
        description="Below this chance a pull request needs a human; null for people who are not maintainers."
    )
    t_high: Share | None = Field(
        description="Threshold of the whole site: from this chance on a lane may open. null: none is certified or set "
        "by hand, or you are not a maintainer. A lane opened on an estimate has a threshold of its own, see /lanes."
    )
    fast_lane_open: bool = Field(
        description="True while the fast lane of at least one watched repository is open; /lanes has each."
    )
    fast_lanes_open: Count = Field(description="Watched repositories whose fast lane is open.")
    lane_notice: str = Field(description="Why the fast lane is shut or not certified.")
    shadow: Count = Field(description="Watched repositories whose lane is shut: their lanes are what they would be.")
    reviewed: Count = Field(description="Open pull requests whose content was read.")
    readings: Count = Field(description="Readings by a model in the thirty days up to the newest one.")
    reading_dollars: float = Field(ge=0, description="Cost of these readings, in US dollars.")
    reading_median: float | None = Field(ge=0, description="Median of one reading, in US dollars; null without any.")
    reading_p95: float | None = Field(ge=0, description="95th percentile of one reading, in US dollars.")
    newest_event_at: datetime | None = Field(description="When the newest event was witnessed; RFC 3339, UTC.")
    snapshot: int = Field(ge=0, description="Number of the snapshot that everything here was read from.", examples=[42])
    published_at: datetime = Field(description="When that snapshot was published; RFC 3339, UTC.")


class LeaderboardRowOut(JudgedOut):
    """One rank."""

    rank: int | None = Field(
        ge=1, description="From 1; equal figures share one, null without a figure or below 5 cases.", examples=[1]
    )
    merged: Count = Field(description="Pull requests merged.")
    reverts: Count = Field(description="Merged pull requests that were reverted.")
    distance: int | None = Field(ge=0, description="Hops from the nearest seed; null where none reaches.")
    provisional: bool = Field(description="Fewer than five settled pull requests.")


class LeaderboardOut(BaseModel):
    """One page of the leaderboard, relative to the seeds named."""

    rows: list[LeaderboardRowOut]
    total: Count = Field(description="Contributors over all pages.")
    page: int = Field(ge=1, description="This page, from 1.", examples=[1])
    pages: int = Field(ge=0, description="How many pages there are.", examples=[3])
    left_out: int = Field(ge=0, description="Contributors who asked to be left out.", examples=[0])
    seeds: list[PersonOut] = Field(description="People from whose judgement trust starts.")


def score_out(score: read.ContributorScore, briefed: bool = False) -> ScoreOut:
    """A contributor's score as JSON, `briefed` with what is read aloud of it."""
    told = {
        **_judged(score.person, score.verdict.estimate, score.decision, score.hidden_by),
        "repository": score.repository,
        "structural_trust": rounded(score.structural_trust),
        "trust_measure": score.trust_measure,
        "eigentrust": rounded(score.eigentrust),
        "content_risk": rounded_or_none(score.content_risk),
        "badge": _badge(score_pill(score)),
        "explanation": score.explanation,
        "top_factors": [_factor(factor) for factor in _strongest(score.verdict.factors)],
        "seeds": [_person(seed) for seed in score.seeds],
        "as_of": score.as_of.replace(tzinfo=UTC),
        "model_version": score.model_version,
        "shadow": score.shadow,
        "briefing": spoken(score) if briefed else None,
    }
    return ScoreOut.model_validate(told)  # all at once: a model for each part of it takes three times as long


def metrics_out(
    dashboard: read.Dashboard, counts: OpenCounts, lanes_open: int, snapshot: int, published_at: datetime
) -> MetricsOut:
    """The dashboard's aggregates as JSON."""
    same = (
        "own scored not_enough_evidence contributors vouches denounces seeds events pull_requests repositories watched "
        "dead_letters dropped_strangers gaps_open unknown_shapes t_low t_high lane_notice "
        "shadow reviewed readings reading_dollars reading_median reading_p95"
    )
    newest = dashboard.newest_event_at
    return MetricsOut(
        **{name: getattr(dashboard, name) for name in same.split()},
        open=OpenOut(total=counts.total, inbox=counts.inbox, approved=counts.approved, snoozed=counts.snoozed),
        fast_lane_open=lanes_open > 0,
        fast_lanes_open=lanes_open,
        lanes=LanesOut(**{lane: counts.lanes.get(lane, 0) for lane in LanesOut.model_fields}),
        histogram=[BinOut(low=each.low, high=each.high, count=each.count) for each in dashboard.histogram],
        newest_event_at=newest.replace(tzinfo=UTC) if newest else None,
        snapshot=snapshot,
        published_at=published_at.replace(tzinfo=UTC),
    )


def leaderboard_out(
    leaderboard: read.Leaderboard, scores: Mapping[str, read.ContributorScore] = MappingProxyType({})
) -> LeaderboardOut:
    """One page of the leaderboard as JSON; `scores` by DID say the lane of who has an open pull request."""
    return LeaderboardOut(
        rows=[_leaderboard_row(row, scores.get(row.person.did)) for row in leaderboard.rows],
        total=leaderboard.total,
        page=leaderboard.page,
        pages=leaderboard.pages,
        left_out=leaderboard.left_out,
        seeds=[person_out(seed) for seed in leaderboard.seeds],
    )


def _leaderboard_row(row: read.LeaderboardRow, score: read.ContributorScore | None) -> LeaderboardRowOut:
    decision = score.decision if score else row.verdict.lane
    return LeaderboardRowOut(
        **_judged(row.person, row.verdict.estimate, decision, row.hidden_by),
        rank=row.rank,
        merged=row.merged,
        reverts=row.reverts,
        distance=row.distance,
        provisional=row.provisional,
    )


def _judged(person: read.Person, estimate: Estimate, decision: Lane, hidden_by: read.DueAudit | None) -> dict[str, Any]:
    return {
        **_person(person),
        "calibrated_prob": rounded_or_none(estimate.probability),
        "interval": {"low": rounded(estimate.low), "high": rounded(estimate.high)},
        "cases": estimate.cases,
        "decision": decision,
        "hidden_by": hidden_by.uri if hidden_by else None,
    }


def trust_out(found: read.TrustExplanation, exact: bool) -> TrustOut:
    """An explanation as JSON; its threshold only where `exact`."""
    return TrustOut(
        distance=found.distance,
        paths=[[person_out(person) for person in path] for path in found.paths],
        dominator=person_out(found.dominator) if found.dominator else None,
        vouchers=[
            VoucherOut(
                **_person(one.person),
                share=min(rounded(one.share), 1.0),
                merges=one.merges,
                evidence=one.evidence,
            )
            for one in found.vouchers[:20]
        ],
        dependents=[person_out(person) for person in found.dependents],
        dependents_total=found.dependents_total,
        threshold=found.threshold if exact else None,
    )


def badge_out(shown: Pill) -> BadgeOut:
    """A pill as JSON."""
    return BadgeOut(**_badge(shown))


def _badge(shown: Pill) -> dict[str, Any]:
    return {"kind": shown.kind, "word": shown.word, "chance": shown.number, "interval": shown.interval}


def person_out(person: read.Person) -> PersonOut:
    """A person as JSON."""
    return PersonOut(**_person(person))


def _person(person: read.Person) -> dict[str, Any]:
    return {"did": person.did, "handle": parse_handle(person.name)}


def _strongest(factors: tuple[Factor, ...]) -> list[Factor]:
    return sorted(factors, key=lambda factor: -abs(factor.effect or 0.0))[:TOP_FACTORS]


def _factor(factor: Factor) -> dict[str, Any]:
    value = rounded(factor.value) if isinstance(factor.value, float) else factor.value
    return {"name": factor.name, "value": value, "effect": rounded_or_none(factor.effect)}


def rounded(number: float) -> float:
    """A figure as JSON, to DECIMALS."""
    return round(number, DECIMALS)


def rounded_or_none(number: float | None) -> float | None:
    """The same, where there is one."""
    return None if number is None else rounded(number)


Severity = Literal["low", "med", "high"]
FlagType = Literal[
    "subtle_bug", "slop", "security", "secret_leak", "license", "intent_mismatch", "untested", "oversized", "other"
]
Words = Annotated[str, Field(max_length=65_536)]
EXAMPLE_DIFF = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-print(1)\n+print(2)\n"


class ArtefactIn(Schema):
    """The change to review; whoever wrote it is not asked and not told."""

    diff: str = Field(
        description="A unified diff or a git format-patch series, as text.", min_length=1, examples=[EXAMPLE_DIFF]
    )
    title: Annotated[str, Field(max_length=1000)] = Field("", description="Title of the pull request.")
    description: Words = Field("", description="Description by its author.")
    discussion: Annotated[list[Words], Field(max_length=50)] = Field(
        default_factory=list, description="Comments by others, oldest first."
    )


class FlagOut(Schema):
    """One problem at one place."""

    type: FlagType = Field(description="Kind of problem.")
    severity: Severity = Field(description="How much it weighs: one of high sends a change to a person.")
    location: str = Field(description="File and line in the new file; the old one's where it says (removed).")
    explanation: str = Field(
        description="The problem in words; may hold words of the change, so escape it where shown."
    )


class FindingOut(Schema):
    """A finding of a deterministic scanner."""

    scanner: str = Field(description="Id of the scanner.", examples=["secrets"])
    severity: Severity = Field(description="How much it weighs.")
    file: str | None = Field(description="Path in the change; null where it concerns all of it.")
    line: int | None = Field(ge=1, description="Line of the new file, from 1; null for the whole file.")
    quote: str = Field(description="That line, cut at 200 characters, secrets masked; escape it where shown.")
    explanation: str = Field(description="The problem in one sentence.")


class CostOut(Schema):
    """The cost of the reading."""

    dollars: float = Field(description="US dollars; 0 where no model was asked or its answer was known.", ge=0)
    model: str | None = Field(description="The model that was asked; null for none.")
    tokens: dict[str, Any] | None = Field(description="Tokens as billed; null where no model was asked.")


class ReviewOut(Schema):
    """A review of a change's content."""

    content_risk: Share = Field(description="0 is clearly safe or trivial, 1 clearly broken or dangerous.")
    flags: list[FlagOut] = Field(description="Problems, strongest first.")
    summary: str = Field(description="One to three plain sentences; escape them where shown.")
    review_recommended: bool = Field(description="True where a person should read the change.")
    findings: list[FindingOut] = Field(description="Findings of the scanners, strongest first.")
    coverage: Share = Field(description="Share of the changed lines that was read.")
    reviewer: str = Field(description="Reader: `deterministic`, or the id of the model.", examples=["deterministic"])
    verdict: Literal["content verdict", "no content verdict"] = Field(
        description="No verdict: a requested reading is missing, so it cannot be fast lane."
    )
    missing: str | None = Field(description="Why there is no verdict; null where there is one.")
    cost: CostOut = Field(description="Cost of the review.")


class JobOut(Schema):
    """A review that is under way."""

    job: str = Field(description="Its name. A maintainer who knows it can fetch the answer for an hour.")
    url: str = Field(description="Address of the answer.", examples=["/review/pr/1795000000-0a1b"])
