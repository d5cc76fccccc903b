"""A contributor's own page: where their pull requests are, what is stored; what a maintainer may paste. Pure."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from scoring.explain.decided import OF_CONTENT
from scoring.explain.sentences import own_sentence
from scoring.formatting import visible
from scoring.pipeline.stored import CLAIMS
from scoring.queries.people.contributors import PROVISIONAL_BELOW
from scoring.queries.read import ContributorPage, QueueRow, Stored
from scoring.types import Estimate, Lane
from triage.models import Action
from triage.presenters.contributor import RecordRow, record_view, record_words
from triage.presenters.queue.pills import Pill, pill
from triage.presenters.queue.review import NoteGroup
from triage.presenters.queue.rows import ForgePlace
from triage.presenters.text import age_words, interval_sentence, missing_evidence

MOST_PAST = 50  # decided pull requests on the page
ROWS_SHOWN = 50  # of one table on the page; the JSON has all
ROW_SHOWN = 2_000  # characters
COMPUTED = "computed here from public records, never from who or where you are"
NETWORK = "public records from the network's stream or from data servers"
SOURCES: Mapping[str, str] = {
    **dict.fromkeys(("events", "archived_events", "dead_letters"), NETWORK),
    "contributors": "the network's directory of identities, and your own server",
    **dict.fromkeys(("pull_requests", "vouches", "statuses", "repositories", "comments", "declarations"), NETWORK),
    "account_claims": NETWORK,
    **dict.fromkeys(
        ("patches", "pull_pages", "ci_runs", "push_holders", "round_commits"), "the servers that hold the repositories"
    ),
    **dict.fromkeys(
        ("labels", "marks", "trust", "features", "scores", "current_scores", "current_decisions"), COMPUTED
    ),
    "content_reviews": "made here from the text of your change, without your name",
    "signals": "services that you name yourself, public registries, hosts of an upstream that your repository links",
    "maintainers": "an admin of this site",
    "objections": "what you or a maintainer wrote on this site",
    "leaderboard_wishes": "what you or a maintainer wrote on this site",
}
TABLE_WORDS: Mapping[str, str] = {
    "account_changes": "Changes of your account",
    "account_claims": "Accounts elsewhere that you claim",
    "approvals": "Approvals",
    "archived_events": "Older public records",
    "artifacts": "Files of releases",
    "attestation_checks": "Checks of attestations",
    "backfill_accounts": "Earlier records looked up",
    "ci_runs": "CI runs",
    "comments": "Comments",
    "contributors": "Your account",
    "content_reviews": "Reviews of content",
    "current_decisions": "Current decisions",
    "current_scores": "Current scores",
    "dead_letters": "Unreadable records",
    "declarations": "Your declarations",
    "diff_vectors": "Fingerprints of your changes",
    "events": "Public records",
    "features": "Inputs of scores",
    "fetches": "Look-ups",
    "follows": "Follows",
    "hops": "Steps of processing",
    "imported_pulls": "Earlier pull requests elsewhere",
    "issue_states": "States of issues",
    "issues": "Issues",
    "label_definitions": "Definitions of labels",
    "label_operations": "Labels set or removed",
    "labels": "Outcomes",
    "landings": "Commits that landed",
    "lane_closures": "Closed fast lanes",
    "lane_openings": "Opened fast lanes",
    "leaderboard_wishes": "Wishes about the leaderboard",
    "maintainer_actions": "What maintainers did, and what you answered",
    "maintainers": "Roles on this site",
    "marks": "Outcomes that maintainers set",
    "objections": "Objections",
    "patches": "Patches",
    "profiles": "Profiles",
    "public_keys": "Public keys",
    "pull_followups": "Reverts and fixes",
    "pull_pages": "Pages on the forge",
    "pull_requests": "Pull requests",
    "pull_rounds": "Rounds of pull requests",
    "push_holders": "Push access",
    "reactions": "Reactions",
    "repositories": "Repositories",
    "repository_aliases": "Names of repositories",
    "reviews": "Readings by a model",
    "scores": "Scores until now",
    "round_commits": "Signatures of your commits",
    "seed_choices": "Choices of seeds",
    "seeds": "Where you are a seed",
    "server_members": "Members of servers",
    "servers": "Servers",
    "shadow_rounds": "While the lane was shut",
    "signals": "From other services",
    "stars": "Stars",
    "statuses": "States of pull requests",
    "strings": "Snippets",
    "touched_files": "Files that your changes touch",
    "trust": "Trust",
    "vouches": "Vouches",
    "watched_repositories": "Watched repositories",
}
USUAL_SOURCE = "kept here while processing the records above"


@dataclass(frozen=True, slots=True)
class TableView:
    """One table: how many rows, where they come from, and the first of them as text."""

    name: str
    source: str
    count: int
    rows: tuple[str, ...]


WHAT_IT_HOLDS = frozenset({"high_flag", "content_risk_high", "content_risk_above"})
NOTHING_HELPS = "Nothing is missing from your side. If a reason is wrong, object."
SEALED = "A person reads it before anything is said about it."
ASKED = "A maintainer wrote last. Send a new round, or answer on Tangled."
ASKED_HERE = "It waits for your answer."
MARKED: Mapping[str, str] = {
    CLAIMS["unverified"]: "You marked it as merged, and nothing confirms that yet. No lane depends on it.",
    CLAIMS["contradicted"]: "You marked it as merged, but a maintainer or its repository says that it was not.",
}
KEEPS = "Your answer, a new round or a comment of yours on Tangled makes it the maintainers' turn again."
UNKNOWN_WAIT = "Too few have been answered there yet to say how soon."
NEXT_STEPS: Mapping[Lane, str] = {
    Lane.FAST_LANE: "A maintainer may approve it after a short look.",
    Lane.NORMAL_QUEUE: "A maintainer will look at it.",
    Lane.NEEDS_HUMAN: "A maintainer has to look at it closely.",
}
WAITING: Mapping[Lane, str] = {
    Lane.FAST_LANE: "in the fast lane",
    Lane.NORMAL_QUEUE: "waiting for a review",
    Lane.NEEDS_HUMAN: "that a person has to look at",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step on the way of a pull request: "done", "now" or "" for later."""

    words: str
    state: Literal["done", "now", ""]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a pull request from 1 on among `total` of its lane in its repository, and how soon others heard.

    `heard` is a sentence about those like its author; "" where too few were answered to tell.
    """

    at: int
    total: int
    heard: str


@dataclass(frozen=True, slots=True)
class OwnPull:
    """An open pull request as its author reads of it; no `pill` and no reasons before an audit is answered.

    `asked` waits for the author's answer. `written` are the newest of `written_count` other texts here: by maintainers
    to the author, and the answers. `heard` says how soon others heard back, `page` is on the forge.
    """

    row: QueueRow
    next_step: str
    steps: tuple[Step, ...]
    place: str = ""
    pill: Pill | None = None
    reasons: tuple[str, ...] = ()
    interval: str = ""
    missing: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    asked: tuple[Action, ...] = ()
    heard: str = ""
    page: ForgePlace | None = None
    written: tuple[Action, ...] = ()
    written_count: int = 0
    found: tuple[str, ...] = ()  # by scanners and reviewers, strongest first, with the place

    @property
    def asks_changes(self) -> bool:
        """Return whether a change is asked for."""
        return any(one.kind == Action.Kind.REQUEST_CHANGES for one in self.asked)

    @property
    def next_words(self) -> str:
        """Say what an answer brings, and how soon."""
        return f"{KEEPS} {self.heard or UNKNOWN_WAIT}"


@dataclass(frozen=True, slots=True)
class OwnScore:
    """Figures that maintainers see about somebody: the chance, the record, who vouches, what was decided.

    `past` are the newest; `counts` says how many of all were decided in which way, "" for fewer than two.
    """

    estimate: Estimate
    record: str
    vouchers: tuple[str, ...]
    past: tuple[RecordRow, ...]
    counts: str


@dataclass(frozen=True, slots=True)
class StoredView:
    """The stored data, as a page shows it."""

    tables: tuple[TableView, ...]
    denounces: int
    mentions: int


def own_pull(
    row: QueueRow,
    place: Place | None,
    now: datetime,
    asked: Sequence[Action] = (),
    notes: Sequence[NoteGroup] = (),
) -> OwnPull:
    """Return where one stands, why, and what its author can do; without the thresholds, which are the maintainers'.

    `place` is None where it is not in the inbox, waits for its author, or may not be told. `asked` waits for an answer.
    """
    asks = (ASKED_HERE if asked else ASKED) if row.on_author else ""
    if row.is_sealed:
        return OwnPull(row, asks or SEALED, steps_of(row, now), asked=tuple(asked))
    lane = Lane.NORMAL_QUEUE if row.shadow and row.verdict.lane is Lane.FAST_LANE else row.verdict.lane
    marked = (MARKED[row.claim],) if row.claim else ()
    own_change_first = sorted(row.verdict.reasons, key=lambda reason: reason.code not in OF_CONTENT)
    return OwnPull(
        row,
        asks or NEXT_STEPS[lane],
        steps_of(row, now),
        _place_words(row, lane, place) if place else "",
        pill(row.verdict, row.shadow),
        (*marked, *(visible(own_sentence(reason)) for reason in own_change_first)),
        interval_sentence(row.verdict.estimate, "yours"),
        missing_evidence(row.verdict, row.path, row.content_risk is not None),
        tuple(_helps(row)) or (NOTHING_HELPS,),
        tuple(asked),
        found=tuple(f"{group.first.kind}: {group.place}" for group in notes),
    )


def steps_of(row: QueueRow, now: datetime) -> tuple[Step, ...]:
    """The way from its opening to a decision; what the audit drew counts as read, whatever was found."""
    is_read = row.is_sealed or row.content_risk is not None
    year = "" if row.opened_at.year == now.year else f" {row.opened_at.year}"
    sent = Step(f"Sent {row.opened_at.day} {row.opened_at:%b}{year}", "done")
    waited = age_words(row.opened_at, now)
    if row.on_author:
        waits = Step("Waits for your answer", "now")
    else:
        waits = Step(f"Waits for a person: {waited}" if is_read else "Waits for a person", "now" if is_read else "")
    return sent, Step("Read by scanners", "done" if is_read else "now"), waits, Step("Decided", "")


def _place_words(row: QueueRow, lane: Lane, place: Place) -> str:
    name = visible(row.repository_name)
    would = row.shadow and row.verdict.lane is Lane.FAST_LANE
    among, where = ("that would be fast lane", ", where the lane is shut") if would else (WAITING[lane], "")
    told = f"It is {_ordinal(place.at)} of {place.total:,} {among} in {name}{where}."
    return f"{told} {place.heard or UNKNOWN_WAIT}"


def listed_words(place: tuple[int | None, int] | None) -> str:
    """Say which place somebody has on the leaderboard, or how many settled changes are missing for one."""
    rank, settled = place or (None, 0)
    if rank is not None:
        return f"You are listed, {_ordinal(rank)}."
    if settled >= PROVISIONAL_BELOW:
        return "You are listed without a place: there is no score yet."
    return f"No place on the list yet: {settled} of {PROVISIONAL_BELOW} changes settled."


def _ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{last}"


def _helps(row: QueueRow) -> Iterator[str]:
    if row.on_author:
        yield "Answer what a maintainer asked, here or on Tangled, or send a new round."
    if row.would_help:
        yield row.would_help
    if row.claim:
        yield "If it was not merged, mark it as open again on Tangled."
    if row.ci == "failed":
        yield "Its tests fail: send a new round that passes them."
    if any(reason.code in WHAT_IT_HOLDS for reason in row.verdict.reasons):
        yield "Something was found in the change: mend it in a new round, or explain it on Tangled."
    if row.first_timer:
        where = visible(row.repository_name)
        yield f"None of yours has settled in {where} yet. Nobody holds that against you; small ones are read sooner."


def own_score(page: ContributorPage) -> OwnScore:
    """The same figures that the maintainers' page shows, however few changes have settled; no rank."""
    vouchers = tuple(visible(one.person.name) for one in page.vouches if one.kind == "vouch")
    past = tuple(one for one in record_view(page, "all").rows if one.line.state != "open" and one.line.watched)
    return OwnScore(
        page.score.verdict.estimate, record_words(page.record), vouchers, past[:MOST_PAST], _counted_words(past)
    )


def _counted_words(past: Sequence[RecordRow]) -> str:
    """Say how many were decided in which way, and how many of them are listed."""
    if len(past) < 2:
        return ""
    ways = Counter("merged, not counted yet" if one.line.result == "watching" else one.result for one in past)
    told = ", ".join(f"{count:,} {way}" for way, count in ways.most_common())
    return f"{len(past):,} decided: {told}." + (f" The newest {MOST_PAST} are listed." if len(past) > MOST_PAST else "")


def stored_view(found: Stored | None) -> StoredView:
    """Every table with its source; of each row a bounded text."""
    if found is None:
        return StoredView((), 0, 0)
    tables = (
        TableView(table_words(name), source_of(name), len(rows), tuple(_line(row) for row in rows[:ROWS_SHOWN]))
        for name, rows in sorted(found.tables.items(), key=lambda one: table_words(one[0]))
    )
    return StoredView(tuple(tables), found.denounces, found.mentions)


def document(did: str, found: Stored | None) -> dict[str, Any]:
    """Everything as JSON-ready values, each table with its source."""
    if found is None:
        return {"did": did, "tables": {}}
    return {
        "did": did,
        "tables": {name: {"source": source_of(name), "rows": rows} for name, rows in sorted(found.tables.items())},
        "files": list(found.files),
        "denounces_by_others": found.denounces,
        "mentions_in_what_is_not_yours": found.mentions,
    }


def table_words(table: str) -> str:
    """Return what the rows of a table are, in words."""
    return TABLE_WORDS.get(table) or table.replace("_", " ").capitalize()


def source_of(table: str) -> str:
    """Return where the rows of a table come from, in words."""
    return SOURCES.get(table, USUAL_SOURCE)


def data_answer(address: str, until: datetime, waiting: Sequence[str] = ()) -> str:
    """A plain answer to paste for somebody who asks what is stored about them.

    `waiting`: titles of their pull requests on which a maintainer waits for an answer.
    """
    titles = ", ".join(f"“{visible(title)}”" for title in waiting)
    asked = f"A maintainer waits there for your answer about {titles}. " if titles else ""
    return (
        f"Hello. {asked}Everything that Sunstead stores about you here, with its source, is at this address until "
        f"{until:%d %b %Y}:\n\n{address}\n\nAnybody with this address can read it, so please keep it to yourself. "
        "There you can also object, and ask to be left out of the leaderboard. A person answers an objection within "
        "a month."
    )


def decision_answer(
    title: str, lane: str, reasons: Sequence[str], written: Sequence[str], address: str, until: datetime
) -> str:
    """Return a text to send to a pull request's author: what maintainers wrote to them, its lane, and why."""
    listed = "\n".join(f"- {reason}" for reason in reasons)
    asked = "".join(f"{shown_lines(text)}\n\n" for text in ["We wrote to you:", *written] if written)
    return (
        f"Hello. This is about your pull request “{visible(title)}”.\n\n{asked}Sunstead put it into this lane: {lane}. "
        f"Why:\n\n{listed}\n\nThat orders the inbox; it blocks and closes nothing.\n\nYou can read this, answer, "
        f"and object, here until {until:%d %b %Y}:\n\n{address}\n\nAnybody with this address can do so, so please "
        "keep it to yourself. A person answers an objection within a month."
    )


def request_text(label: str, asks_changes: bool, texts: Sequence[str], address: str, signs_in: bool) -> str:
    """Return a text for a public comment on the forge: what was asked, and where the author reads and answers it.

    It holds no secret. `signs_in`: the author can sign in at the address with the account that sent the pull request.
    """
    told = "\n\n".join(shown_lines(text) for text in texts)
    asked = "Changes requested" if asks_changes else "A comment"
    how = "sign in there with the account that sent it" if signs_in else "ask me for a private link"
    return (
        f"{asked} on {visible(label)}:\n\n{told}\n\nA new round or a comment here answers it. "
        f"You can also answer on the site where we review: {how}.\n{address}"
    )


def shown_lines(text: str) -> str:
    """Return a person's text with its lines kept and the characters that hide in them spelled out."""
    return "\n".join(visible(line) for line in text.replace("\r\n", "\n").split("\n"))


def _line(row: Mapping[str, Any]) -> str:
    told = {name: value for name, value in row.items() if value is not None}
    text = visible(json.dumps(told, ensure_ascii=False, default=str))
    return text if len(text) <= ROW_SHOWN else f"{text[:ROW_SHOWN]}…"
