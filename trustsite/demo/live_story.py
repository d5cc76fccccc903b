"""Print the result of a live run: one line or one object a contributor, one review, and notes on missing data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ingest.store.transaction import Rows
from scoring.explain.reasons import missing_words
from scoring.explain.sentences import sentence, told_reasons
from scoring.formatting import display_name, percent, percent_interval, risk_percent, things, trust_figure, visible_name
from scoring.queries import read
from scoring.review.schema import DETERMINISTIC
from scoring.review.store import ShownFlag
from scoring.types import Lane
from trustsite.demo.story import LANE_WORDS

REASONS = 3  # strongest reasons that are shown
FLAGS = 5
# Their open pull requests in watched repositories, newest first; readable if a patch is stored.
OPEN = """
select p.pull_uri, r.repo_key, c.did, k.sha256 is not null as readable
from pull_requests p join watched_repositories using (repository_id) join repositories r using (repository_id)
join contributors c on c.contributor_id = p.author_id
left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
where p.state = 'open' and p.deleted_at is null and list_contains(?, c.did)
order by p.opened_at desc, p.pull_uri
"""
WATCHED = """
select r.repo_key, coalesce(r.name, r.repo_key) as name, count(p.pull_uri) filter (c.did = ?) as sent
from watched_repositories join repositories r using (repository_id)
left join pull_requests p using (repository_id) left join contributors c on c.contributor_id = p.author_id
group by all order by sent desc, r.repo_key
"""
SEEDS = """
select did, handle, handle_verified from contributors
semi join (from seeds where repository_id > 0) using (contributor_id) order by did
"""


@dataclass(frozen=True, slots=True)
class Failed:
    """A requested person who cannot be judged; `why` is a sentence with the remedy."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class OpenPull:
    uri: str
    repository_key: str


@dataclass(frozen=True, slots=True)
class Judged:
    """One contributor. `probability` None means "not enough evidence"; low and high are its 95 % interval.

    `repository` is the one whose seeds judge, None for the site's seeds; `path` goes from a seed to the contributor and
    is empty if there is none. `pull` is the newest open pull request, None if the lane is that of the next one.
    """

    name: str
    did: str
    repository: str | None
    probability: float | None
    low: float
    high: float
    cases: int
    structural_trust: float
    path: tuple[str, ...]
    pull: str | None
    title: str | None
    own: bool  # True if that pull request is to a repository where its author may push
    lane: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """The review of one pull request; `reviewer` is "deterministic" or the model that read it."""

    pull: str
    title: str
    reviewer: str
    content_risk: float
    recommended: bool
    coverage: float
    missing: str | None  # the reason why there is no content verdict, in words
    summary: str
    flags: tuple[ShownFlag, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole result; `events` is the number of events that the stream brought while listening."""

    contributors: tuple[Judged, ...]
    review: Read | None
    failed: tuple[Failed, ...]
    notes: tuple[str, ...]
    repositories: tuple[str, ...]
    seeds: tuple[str, ...]
    events: int


def reviewed_pull(rows: Rows, dids: Sequence[str]) -> OpenPull | None:
    """Return the newest readable open pull request of the first of these people who has one."""
    readable = [row for row in rows.rows(OPEN, [list(dids)]) if row["readable"]]
    first = min(readable, key=lambda row: dids.index(row["did"]), default=None)
    return OpenPull(first["pull_uri"], first["repo_key"]) if first else None


def read_answer(
    rows: Rows, people: Mapping[str, str], failed: Sequence[Failed], notes: Sequence[str], pull: str | None, events: int
) -> Answer:
    """Return the result from the store; `people` are names by DID, `pull` is the pull request with the shown review."""
    scores = {did: _score(rows, did) for did in people}
    unjudged = [
        Failed(people[did], _explain_missing_score(rows, did, people[did]))
        for did, score in scores.items()
        if score is None
    ]
    contributors = [_build_judged(rows, people[did], score) for did, score in scores.items() if score is not None]
    return Answer(
        contributors=tuple(contributors),
        review=_review(rows, pull) if pull else None,
        failed=(*failed, *unjudged),
        notes=tuple(notes),
        repositories=tuple(row["name"] for row in rows.rows(WATCHED, [""])),
        seeds=tuple(display_name(row) for row in rows.rows(SEEDS)),
        events=events,
    )


def _score(rows: Rows, did: str) -> read.ContributorScore | None:
    """Return a person's score in the repository of their newest open pull request, else where they sent most."""
    opened, watched = rows.rows(OPEN, [[did]]), rows.rows(WATCHED, [did])
    return read.score(rows, did, (opened or watched or [{"repo_key": None}])[0]["repo_key"])


def _explain_missing_score(rows: Rows, did: str, name: str) -> str:
    hidden = read.hidden_because(rows, did)
    if hidden:
        return f"{name} is not judged: the account {hidden}."
    return f"{name} wrote no record that is read here, so there is nothing to judge."


def _build_judged(rows: Rows, name: str, score: read.ContributorScore) -> Judged:
    opened = rows.rows(OPEN, [[score.person.did]])
    row = read.pull(rows, opened[0]["pull_uri"]) if opened else None
    estimate, verdict = score.verdict.estimate, row.verdict if row else score.verdict
    return Judged(
        name=name,
        did=score.person.did,
        repository=score.repository,
        probability=estimate.probability,
        low=estimate.low,
        high=estimate.high,
        cases=estimate.cases,
        structural_trust=score.structural_trust,
        path=tuple(person.name for person in score.path),
        pull=row.uri if row else None,
        title=row.title if row else None,
        own=row is not None and row.own,
        lane=str(verdict.lane),
        reasons=tuple(sentence(reason) for reason in told_reasons(verdict)[:REASONS]),
    )


def _review(rows: Rows, uri: str) -> Read | None:
    review, row = read.content_review(rows, uri), read.pull(rows, uri)
    if review is None or row is None:
        return None
    return Read(
        pull=uri,
        title=row.title,
        reviewer=review.reviewer,
        content_risk=review.risk,
        recommended=review.recommended,
        coverage=review.coverage,
        missing=None if review.has_verdict else missing_words(review.missing) or review.missing,
        summary=review.summary,
        flags=review.flags[:FLAGS],
    )


def as_object(answer: Answer) -> dict[str, Any]:
    """Return the result for programs: one JSON object, with texts from the network unchanged."""
    return msgspec.to_builtins(answer)


def lines(answer: Answer) -> Iterator[str]:
    """Yield the result for a person at a terminal; no text from the network can move the cursor there."""
    seen_from = (
        f"as the seeds of {', '.join(answer.repositories)} see them" if answer.repositories else "without any seed"
    )
    yield plain(
        f"{things(len(answer.contributors), 'contributor')}, {seen_from}: {', '.join(answer.seeds) or 'nobody'}."
    )
    yield f"{things(answer.events, 'event')} came while the stream was listened to."
    for contributor in answer.contributors:
        yield from map(plain, _person_lines(contributor))
    if answer.review:
        yield from map(plain, _review_lines(answer.review))
    else:
        yield ""
        yield "No review: none of them has an open pull request here that can be read."


def _person_lines(contributor: Judged) -> Iterator[str]:
    chance = "no score yet"
    if contributor.probability is not None:
        cases = things(contributor.cases, "settled pull request")
        chance = (
            f"stays clean: {percent(contributor.probability)} "
            f"({percent_interval(contributor.low, contributor.high)}, {cases})"
        )
    yield ""
    yield f"{contributor.name} ({contributor.did}): {chance}"
    path = " → ".join(contributor.path)
    place = f" of {contributor.repository}" if contributor.repository else ""
    yield (
        f"  trust {trust_figure(contributor.structural_trust)} from the seeds{place}: {path}"
        if path
        else f"  no trust path from the seeds{place}"
    )
    subject = (
        f"“{visible_name(contributor.title)}” ({contributor.pull})"
        if contributor.title and contributor.pull
        else "the next pull request"
    )
    yield (
        f"  {LANE_WORDS[Lane(contributor.lane)]}: {subject}"
        f"{', to a repository of their own' if contributor.own else ''}"
    )
    yield from (f"    {reason}" for reason in contributor.reasons)


def _review_lines(review: Read) -> Iterator[str]:
    reviewer = "the deterministic reviewer, without a model" if review.reviewer == DETERMINISTIC else review.reviewer
    recommendation = "a person should read it" if review.recommended else "no review recommended"
    yield ""
    yield f"“{visible_name(review.title)}” ({review.pull}), read by {reviewer}:"
    yield f"  content risk {risk_percent(review.content_risk)}, {recommendation}."
    yield f"  {percent(review.coverage)} of the changed lines were read. {review.summary}"
    if review.missing:
        yield f"  No content verdict: {review.missing}."
    yield from (f"  {flag.severity} {flag.location}: {flag.explanation}" for flag in review.flags)


def plain(text: str) -> str:
    """Return a text from the network in printable form."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
