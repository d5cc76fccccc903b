"""Open pull requests as JSON: decision, reasons and what they rest on, with units and ranges."""

from datetime import UTC, datetime
from typing import Annotated

from ninja import Field, Schema

from scoring.explain.sentences import plain_sentence, sentence, told_reasons
from scoring.explain.spoken import briefing
from scoring.queries.read import QueueRow
from scoring.types import Lane
from triage.api.schemas import Count, PersonOut, Share, person_out, rounded, rounded_or_none
from triage.presenters.text import BRIEFING_LENGTH

LONGEST_TEXT = 4_096  # bytes of UTF-8 of any text that another wrote
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]


class ReasonOut(Schema):
    """One reason for the lane."""

    code: str = Field(description="Code of the reason; never changes its meaning.", examples=["no_path"])
    text: Text = Field(description="The same as a sentence.")


class ChangeOut(Schema):
    """The size of the change; null where the patch was not read yet."""

    files: Count | None = Field(description="Files changed.")
    added: Count | None = Field(description="Lines added.")
    removed: Count | None = Field(description="Lines removed.")


class PullOut(Schema):
    """One open pull request of a watched repository, as its row says; everything another wrote is to be escaped."""

    uri: Text = Field(description="at-uri of its record.")
    page: Text | None = Field(description="Its address on the forge's own site, where known.")
    title: Text = Field(description="Title, as its author wrote it; cut at 4 kB.")
    label: Text = Field(description="Repository and number, or the last of its key.", examples=["core #12"])
    repository: Text = Field(description="Key of the repository.")
    repository_name: Text = Field(description="Name of the repository.")
    author: PersonOut
    own: bool = Field(description="The author has push access here: in its own group, in no lane's counts.")
    first_timer: bool = Field(description="The author has no settled pull request here yet.")
    on_author: bool = Field(description="A maintainer had the last word, so the author's comes next.")
    labels: list[Text] = Field(
        max_length=20, description="Labels that people with push access put on it, by name; at most 20."
    )
    opened_at: datetime = Field(description="When it was first seen; RFC 3339, UTC.")
    round: int = Field(ge=1, description="The round that was judged, from 1 as on the pages.", examples=[1])
    record_cid: str | None = Field(description="CID of the record that was judged.")
    patch_id: str | None = Field(description="Hash of the patch that was judged; null: not read.")
    change: ChangeOut
    decision: Lane = Field(description="Lane: fast_lane, normal_queue or needs_human.")
    shadow: bool = Field(description="The lane of its repository is shut and only watched: this is what it would be.")
    sealed: bool = Field(description="A random audit is due, so the rest of the decision is hidden.")
    calibrated_prob: Share | None = Field(description="Chance that it stays clean; null: no score yet.")
    low: Share = Field(description="Lower end of its 95 % interval.")
    high: Share = Field(description="Upper end of its 95 % interval.")
    cases: Count = Field(description="Settled pull requests behind the estimate.")
    structural_trust: Share = Field(description="Trust of the author from the repository's seeds, in [0, 1].")
    content_risk: Share | None = Field(description="Risk of the content, in [0, 1]; null: not reviewed.")
    explanation: Text = Field(description="Why, in one line.")
    reasons: list[ReasonOut] = Field(description="Strongest first.")
    path: list[PersonOut] = Field(description="Trust path, seed first; empty: none.")
    as_of: datetime = Field(description="Only events seen before this moment counted; RFC 3339, UTC.")
    model_version: str = Field(description="Version of the model that computed calibrated_prob.")
    briefing: Annotated[str, Field(max_length=BRIEFING_LENGTH)] | None = Field(
        None, description="With briefing=1: one to three sentences to read aloud, without words that others wrote."
    )


class QueueOut(Schema):
    """One page of the queue, in its order: flagged, needs review, fast lane, own."""

    total: Count = Field(
        description="Rows of the inbox that fulfil the filters, on all pages, with those of people with push access. "
        "Pages and `open.inbox` of /metrics count the latter apart, so it is larger by these."
    )
    pull_requests: list[PullOut]
    next: str | None = Field(description="Cursor of the next page; null on the last one.")
    snapshot: int = Field(ge=0, description="Number of the snapshot that everything here was read from.", examples=[42])


def pull_out(row: QueueRow, exact: bool, briefed: bool = False) -> PullOut:
    """A row as JSON; the thresholds in its reasons only where `exact`."""
    say, estimate = sentence if exact else plain_sentence, row.verdict.estimate
    return PullOut(
        uri=row.uri,
        page=row.page,
        title=cut(row.title),
        label=cut(row.label),
        repository=row.repository_key,
        repository_name=cut(row.repository_name),
        author=person_out(row.author),
        own=row.own,
        first_timer=row.first_timer,
        on_author=row.on_author,
        labels=[cut(label) for label in row.labels],
        opened_at=row.opened_at.replace(tzinfo=UTC),
        round=row.round + 1,
        record_cid=row.record_cid,
        patch_id=row.patch_id,
        change=ChangeOut(files=row.files, added=row.added, removed=row.removed),
        decision=row.verdict.lane,
        shadow=row.shadow,
        sealed=row.is_sealed,
        calibrated_prob=rounded_or_none(estimate.probability),
        low=rounded(estimate.low),
        high=rounded(estimate.high),
        cases=estimate.cases,
        structural_trust=rounded(row.structural_trust),
        content_risk=rounded_or_none(row.content_risk),
        explanation=cut(row.sentence),
        reasons=[ReasonOut(code=one.code, text=cut(say(one))) for one in told_reasons(row.verdict)],
        path=[person_out(person) for person in row.path],
        as_of=row.as_of.replace(tzinfo=UTC),
        model_version=row.model_version,
        briefing=" ".join(briefing(row.verdict, "change", row.shadow)) if briefed else None,
    )


def cut(text: str) -> str:
    """The text, at most LONGEST_TEXT bytes of it, never ending within a character."""
    return text.encode(errors="replace")[:LONGEST_TEXT].decode(errors="ignore")
