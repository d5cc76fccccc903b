"""Plain values for pages and JSON, shaped once and shown by both alike."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from scoring.review.store import ShownFlag
from scoring.types import Lane, Measure, Person, ShownFinding, Verdict

QueueSort = Literal["need", "oldest", "newest", "lowest"]
CiState = Literal["passed", "failed", "running", "never_ran"]
# In the order of the queue. What would be fast lane where the lane is not open is a group of its own everywhere.
GroupKey = Literal["needs_human", "normal_queue", "fast_lane", "would_be_fast_lane", "own"]
LeaderboardSort = Literal["score", "merged", "reverts", "hops"]
PullResult = Literal["open", "clean", "bad", "watching", "outside", "unmerged", "uncounted", "deleted"]
_NAMED = re.compile(r"(?:#([0-9]{1,9})|([2-7a-z]{5}))$")
# A pull request `p` that a search names by its label; parameters: what `named_by` returns.
IS_NAMED = "(ends_with(p.pull_uri, ?) or p.pull_uri in (select pull_uri from pull_pages where number = ?))"
NEVER = chr(10)  # in no at-uri


def pull_label(name: str, number: int | None, uri: str) -> str:
    """Return the short name of a pull request: "datasette #12", or the last five characters of its record key."""
    return f"{name} #{number}" if number else f"{name} \N{MIDDLE DOT} {uri[-5:]}"


def named_by(text: str) -> tuple[str, int]:
    """Return the end of a record key and the number that a search text names as labels do; neither matches where none.

    "6s5bg" and "lantern 6s5bg" name the end of a key, "#12" and "lantern #12" a number.
    """
    match = _NAMED.search(text.strip())
    return (match[2] or NEVER, int(match[1] or 0)) if match else (NEVER, 0)


@dataclass(frozen=True, slots=True)
class Contribution:
    """The part of one voucher: `share` in (0, 1] of the trust arrives over this vouch.

    `merges` counts the merges that it is, 0 for a vouch in a record; `evidence` the merged pull requests of its subject
    that it names and that were verified.
    """

    person: Person
    share: float
    merges: int
    evidence: int = 0


@dataclass(frozen=True, slots=True)
class TrustExplanation:
    """Explains why a seed set trusts somebody, and whose trust depends on them; all of it is first-passage trust."""

    distance: int | None
    paths: tuple[tuple[Person, ...], ...]  # at most three, seed first, which share nobody but seeds
    dominator: Person | None  # the account, no seed, whose loss would end this trust
    vouchers: tuple[Contribution, ...]  # the most first, at most 100
    dependents: tuple[Person, ...]  # who keeps s >= `threshold` only through this person's vouches, at most 20
    dependents_total: int
    threshold: float
    weights: tuple[tuple[float, ...], ...] = ()  # of each vouch of each path, in (0, 1]


@dataclass(frozen=True, slots=True)
class VouchWorth:
    """One vouch that a maintainer could make: s of `person` before and after, and what else would come of it."""

    person: Person
    merges: int  # verified, here
    clean: int  # of `cases` settled pull requests everywhere that counts
    cases: int
    before: float
    after: float
    opens: int  # others who reach the threshold with it
    exposure: int  # the most fakes that one compromised account among those who reach it could bring to the threshold
    threshold: float  # the s from which somebody counts as trusted


@dataclass(frozen=True, slots=True)
class VouchesWorth:
    """The vouches worth making as one seed set sees it (`repository` None: the site's), whoever has no path first."""

    repository: str | None
    vouches: tuple[VouchWorth, ...]


@dataclass(frozen=True, slots=True)
class DueAudit:
    """A pull request whose audit somebody has to answer before anybody is told the chance of its author."""

    uri: str
    label: str  # as in the queue


@dataclass(frozen=True, slots=True)
class ContributorScore:
    """One contributor as judged from one seed set (`repository` None: the site's seeds)."""

    person: Person
    repository: str | None
    decision: Lane  # lane of the newest open pull request there, else of the structural signals alone
    verdict: Verdict
    structural_trust: float
    eigentrust: float
    content_risk: float | None
    distance: int | None
    path: tuple[Person, ...]
    seeds: tuple[Person, ...]
    explanation: str
    as_of: datetime
    model_version: str
    trust_measure: Measure = "first_passage"
    shadow: bool = False  # the repository whose lane this is is in shadow mode
    newest: Verdict | None = None  # on the newest open pull request there, without what the audit keeps sealed
    hidden_by: DueAudit | None = None  # while it is due, `verdict` and `decision` say nothing


@dataclass(frozen=True, slots=True)
class QueueQuery:
    """A query for rows of the queue, and their order; the fields up to `size` come from the URL.

    `size`: at most so many rows of each group, None for all; `page` counts from 1. `snoozed` are at-uris of rows that
    people hid for now, which are in no group and no count; `only` are those of the rows that are asked for, None for
    all. `shut` are the keys of repositories whose lane was shut since the snapshot. `since`: only what was opened from
    then on, naive UTC, and nothing by people who may push.
    """

    bucket: GroupKey | None = None
    text: str = ""
    repository: str = ""  # repo_key
    sort: QueueSort = "need"
    page: int = 1
    size: int | None = None
    snoozed: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    shut: tuple[str, ...] = ()
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class AuditAnswer:
    """An answer about a drawn pull request, given before lane and score were known; `by` is the person as shown."""

    would_merge: bool
    because: str
    by: str
    answered_at: datetime


FINDING = 0.4  # content risk of a finding of medium severity or worse


@dataclass(frozen=True, slots=True)
class Place:
    """Why a row stands at its place: `number` of `total` in its lane, from 1, and the numbers that ordered it.

    `cause`: it changed after an approval, it is the turn of a first-timer, its author has the next word, another of
    theirs with its title stands above, its need of a person, or the order that somebody chose. `by` says where the need
    comes from. `need` and `raised`, the same with its waiting, are whole tenths; `waited` counts days.
    """

    number: int
    total: int
    cause: Literal["changed", "turn", "author", "copy", "need", "oldest", "newest", "lowest"]
    by: Literal["finding", "risk", "chance", "borrowed", "unknown"]
    need: int
    raised: int
    waited: int


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One open pull request with its decision.

    `is_sealed`: the audit drew it and nobody answered yet. Then nothing of its decision is told: the verdict says only
    that it was drawn, and figures, path and review are empty whatever is known.
    """

    uri: str
    title: str
    label: str  # "datasette #12" where the number is known, else "datasette · 7c222": the last five of the record key
    page: str | None  # its address on the forge's own site, where known
    repository_key: str
    repository_name: str
    author: Person
    own: bool  # the author may push here
    first_timer: bool  # no settled pull request here yet
    opened_at: datetime
    round: int
    record_cid: str | None
    patch_id: str | None
    files: int | None  # None: the patch was not read
    added: int | None
    removed: int | None
    verdict: Verdict
    structural_trust: float
    eigentrust: float
    content_risk: float | None
    path: tuple[Person, ...]
    sentence: str  # the one-line reason, which begins with `decided`
    would_change: str  # what would change the lane
    as_of: datetime
    model_version: str
    trust_measure: Measure = "first_passage"
    claim: str = ""  # what is said of a merge that nobody proves; "" where nobody says so
    shadow: bool = False  # its repository is in shadow mode: the lane is what it would be, and nobody acts on it
    is_sealed: bool = False
    audited: AuditAnswer | None = None  # what somebody answered before it was unsealed
    borrowed_from: int | None = None  # how many other projects say where it stands among the lowest; None: none does
    graph: float | None = None  # P(clean) by the graph network, which decides nothing; None where it is not shown
    decided: str = ""  # what decided its place, in at most 42 characters
    decided_exact: str = ""  # the same with the chance from which the fast lane starts, for maintainers
    lane_start: float | None = None  # the chance from which its repository's fast lane starts; None: it is shut there
    ci: CiState | None = None  # of the round that is shown; None where CI was not asked
    comments: int = 0
    on_author: bool = False  # a maintainer had the last word, so the author's comes next
    labels: tuple[str, ...] = ()  # that people who may push put on it, by name
    would_help: str = ""  # what would change the lane, to its author: no threshold; "" where they can do nothing
    hidden_by: DueAudit | None = None  # while it is due, neither the verdict nor a sentence names the chance
    place: Place | None = None  # in the list for which it was read; None outside lists
    reverted: int = 0  # of its author's merges, within the last 30 days
    alike: int = 1  # in the inbox by its author with its title, itself included; 1 outside lists

    @property
    def asks_reason(self) -> bool:
        """Whoever approves it has to say why: its CI failed, or its review found something."""
        return self.ci == "failed" or (self.content_risk or 0.0) >= FINDING


@dataclass(frozen=True, slots=True)
class ContentReview:
    """The review of the round that stands; every text in it may hold words of the change itself.

    `missing` is why there is no verdict, `asked_because` the cost gate's code, `dollars` what the reading cost.
    """

    risk: float
    recommended: bool
    coverage: float
    has_verdict: bool
    missing: str | None
    reviewer: str
    asked_because: str
    summary: str
    flags: tuple[ShownFlag, ...]
    findings: tuple[ShownFinding, ...]
    dollars: float


@dataclass(frozen=True, slots=True)
class QueueGroup:
    """Rows under one header: a lane, or "own" for push-holders' own pull requests.

    `rows` is the page asked for (the last one where there are fewer); `total` is of all that match, the ages of those
    among them that wait for a maintainer, not for their author.
    """

    key: GroupKey
    rows: tuple[QueueRow, ...]
    total: int
    oldest: datetime | None
    oldest_first_timer: datetime | None


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue for one query; counts are over what its repository and text leave of every lane, own ones apart."""

    counts: Mapping[GroupKey, int]
    own_count: int
    groups: tuple[QueueGroup, ...]
    repositories: tuple[tuple[str, str], ...]  # (repo_key, name) of watched repositories


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """One contributor in order; `provisional` under five settled pull requests.

    Equal numbers share a `rank`; None without a number.
    """

    rank: int | None
    person: Person
    verdict: Verdict
    merged: int
    reverts: int
    distance: int | None
    provisional: bool
    hidden_by: DueAudit | None = None  # as in ContributorScore


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """One page of the leaderboard, relative to the seeds named."""

    rows: tuple[LeaderboardRow, ...]
    total: int
    page: int
    pages: int
    seeds: tuple[Person, ...]
    left_out: int = 0  # on their own wish


@dataclass(frozen=True, slots=True)
class Bin:
    """One bar of the score histogram: contributors with low <= P < high (the last one includes 1), by lane."""

    low: float
    high: float
    count: int
    flagged: int = 0  # of the count
    fast: int = 0


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Aggregates for the dashboard and /metrics."""

    lanes: Mapping[GroupKey, int]  # open pull requests, approved and snoozed ones too, own ones apart
    own: int
    histogram: tuple[Bin, ...]  # ten bins of P(clean) at the site
    scored: int
    not_enough_evidence: int
    contributors: int
    vouches: int
    denounces: int
    seeds: int
    events: int
    pull_requests: int
    repositories: int
    watched: int
    dead_letters: int
    dropped_strangers: int
    gaps_open: int  # spans that the stream did not bring and no backfill has filled yet
    unknown_shapes: int  # collections, fields and values that the registry does not know, each counted once
    newest_event_at: datetime | None
    t_low: float | None  # None: not told to this viewer
    t_high: float | None  # None: the fast lane is shut, or as above
    lane_notice: str  # why the fast lane is shut, or that its threshold is not certified
    has_threshold: bool = False  # the whole site has one from which a lane may open; a repository may have its own
    reviewed: int = 0  # open pull requests whose content was read
    readings: int = 0  # by a model, in the thirty days up to the newest one
    reading_dollars: float = 0.0  # what these cost
    reading_median: float | None = None  # dollars of one reading; None without any
    reading_p95: float | None = None
    shadow: int = 0  # watched repositories in shadow mode
    asks_claude: int = 0  # watched repositories whose maintainers chose that Claude reads their changes
    gap_reason: str = ""  # how the newest open gap came about


@dataclass(frozen=True, slots=True)
class VouchLine:
    """A standing vouch or denounce as shown on a contributor's page."""

    person: Person  # the voucher
    kind: Literal["vouch", "denounce"]
    reason: str
    seen_at: datetime
    mutual: bool = False  # the person on whose page it stands vouches for the voucher too


@dataclass(frozen=True, slots=True)
class MergedWork:
    """A merged pull request that a vouch for its author can name."""

    uri: str
    title: str


@dataclass(frozen=True, slots=True)
class PullLine:
    """One pull request in a contributor's timeline."""

    uri: str
    title: str
    repository_name: str
    opened_at: datetime
    state: Literal["open", "merged", "closed", "abandoned"]
    outcome: str  # in words: "clean merge", "not merged", "open", …
    watched: bool = False  # whether its repository is, so that its history has a page
    result: PullResult = "open"
    label: str = ""  # as in the queue: "datasette #12", or the last five characters of the record key
    added: int | None = None  # None: the patch was not read
    removed: int | None = None
    flagged: bool = False  # open and flagged in the inbox; the other lanes may be an audit's secret


@dataclass(frozen=True, slots=True)
class Record:
    """A contributor's pull requests counted by result, and when the first and newest were opened."""

    results: Mapping[PullResult, int]
    first_at: datetime | None = None
    newest_at: datetime | None = None

    @property
    def total(self) -> int:
        return sum(self.results.values())


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that is known of a contributor, and whether more than their word proves it.

    `said_by` names who else says so, "" for nobody. `evidence` is an https address, perhaps a stranger's, at which a
    person can check it.
    """

    what: str
    proof: Literal["handle", "signed", "mutual", "attested", "checked", "read", "revoked", "unverifiable", "declared"]
    said_by: str = ""
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One recorded score of a contributor, with the 95 % interval of its probability."""

    as_of: datetime
    probability: float | None
    low: float
    high: float
    lane: Lane


@dataclass(frozen=True, slots=True)
class ContributorPage:
    """Everything shown about one DID."""

    score: ContributorScore
    per_repository: tuple[ContributorScore, ...]
    vouches: tuple[VouchLine, ...]  # inbound; denounces only by seeds and people whom they reach
    pulls: tuple[PullLine, ...]  # newest first, at most 100
    history: tuple[HistoryPoint, ...]
    did_created_at: datetime | None
    first_seen_at: datetime
    account_status: str
    stored: tuple[tuple[str, int], ...]  # (what, rows) held about this DID
    record: Record = field(default_factory=lambda: Record({}))
    signals: tuple[Signal, ...] = ()
