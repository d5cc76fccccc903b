"""A small world drawn by hand behind `scoring.queries.read`, for tests of what pages do with any text and any figure.

Its people and rows are those of `tests/triage/worlds/drawn_rows.py`.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import get_args

import pytest
from django.test import Client

from scoring.explain.decided import explain
from scoring.queries import read
from scoring.queries.changes import Reread
from scoring.queries.queue import LANE_KEYS
from scoring.queries.read import QueueQuery, QueueRow
from tests.triage.worlds.drawn_rows import ANA, HOSTILE, MALLORY, MARA, NOW, SEED, drawn_rows, judged
from triage import context, middleware
from triage.models import Maintainer
from triage.models import Person as Account
from triage.presenters import lane_heads
from triage.presenters.queue import queue as as_shown
from triage.services import audit, objections, snoozing
from triage.views.inbox import inbox
from triage.views.lanes import lane_offers


def sign_in(client: Client, role: str = "", repo_key: str = "") -> Account:
    """A person who is signed in, with this role there; "" for no role anywhere."""
    person, _ = Account.objects.get_or_create(did="did:plc:viewerviewerviewerviewer", handle="viewer.example")
    if role:
        Maintainer.objects.create(person=person, repo_key=repo_key, role=role)
    client.force_login(person)
    return person


def reader() -> Client:
    """The browser of a person who may read everything and do nothing."""
    client = Client()
    person, _ = Account.objects.get_or_create(did="did:plc:viewerviewerviewerviewer", handle="viewer.example")
    Maintainer.objects.get_or_create(person=person, repo_key="", role="viewer")
    client.force_login(person)
    return client


NO_QUERY = QueueQuery()


@dataclass(frozen=True, slots=True)
class DrawnSnapshot:
    """Stands where the pinned snapshot does; nothing is read from it."""

    number: int = 1
    published_at: datetime = NOW


# A number of its own, since results are cached by it and the tests of one process share the caches.
_NUMBERS = count(1_000_000)


@dataclass(slots=True)
class DrawnWorld:
    """Answers what `scoring.queries.read` answers, from a list of rows."""

    rows: tuple[QueueRow, ...] = field(default_factory=drawn_rows)
    t_high: float | None = 0.90
    t_low: float = 0.30
    newest: datetime | None = NOW
    notice: str = "The fast lane's threshold 90 % is not certified."
    gaps_open: int = 0
    asks_claude: int = 0
    results: tuple[read.LaneMonth, ...] = ()

    def queue(self, snapshot: object, query: QueueQuery) -> read.Queue:
        """The rows that match, in groups."""
        found = [row for row in self.rows if self._matches(row, query)]
        found.sort(key=lambda row: row.opened_at, reverse=query.sort == "newest")
        groups = tuple(
            read.QueueGroup(
                key,
                (rows := tuple(row for row in found if ("own" if row.own else row.verdict.lane.value) == key))[
                    self._page(query, len(rows))
                ],
                len(rows),
                min((row.opened_at for row in rows), default=None),
                min((row.opened_at for row in rows if row.first_timer), default=None),
            )
            for key in get_args(read.GroupKey)
        )
        own = sum(row.own for row in self.rows if self._matches(row, replace(query, bucket=None)))
        return read.Queue(self._counts(query), own, groups, (("did:plc:corecorecorecorecorecore", "core"),))

    @staticmethod
    def _page(query: QueueQuery, total: int) -> slice:
        size = query.size or max(total, 1)
        page = min(query.page, max(1, -(-total // size)))
        return slice((page - 1) * size, page * size)

    @staticmethod
    def _matches(row: QueueRow, query: QueueQuery) -> bool:
        in_bucket = query.bucket in (None, "own" if row.own else row.verdict.lane.value)
        in_text = query.text.lower() in f"{row.title} {row.author.name} {row.repository_name}".lower()
        return in_bucket and in_text and query.repository in ("", row.repository_key)

    def _counts(self, query: QueueQuery = NO_QUERY) -> dict[read.GroupKey, int]:
        rows = [row for row in self.rows if not row.own and self._matches(row, replace(query, bucket=None))]
        return {key: sum(row.verdict.lane == key for row in rows) for key in LANE_KEYS}

    def pull(self, snapshot: object, uri: str) -> QueueRow | None:
        """The row of that address."""
        return next((row for row in self.rows if row.uri == uri), None)

    def longest_waiting(self, snapshot: object, query: QueueQuery) -> str | None:
        """The oldest that does not wait for its author."""
        waiting = [row for row in self.rows if not (row.own or row.on_author) and self._matches(row, query)]
        return min(waiting, key=lambda row: row.opened_at).uri if waiting else None

    def reread(self, snapshot: object, r_low: float, r_high: float) -> Reread:
        """A newer model has read forty changes again."""
        return Reread(40, 0.21, 0.25, 3)

    def content_review(self, snapshot: object, uri: str) -> read.ContentReview | None:
        """Nobody has read the norwegian one; all others hold a secret and every hostile text there is."""
        if "did:web" in uri:
            return None
        notes = tuple(
            read.ShownFinding("secrets", "token", "secret_leak", "high", text, text, 3, False, text) for text in HOSTILE
        )
        flags = tuple(read.ShownFlag("subtle_bug", "med", text, text) for text in HOSTILE)
        return read.ContentReview(
            risk=0.83,
            recommended=True,
            coverage=0.5,
            has_verdict=False,
            missing="refused",
            reviewer="claude-sonnet-4-6",
            asked_because="below_t_low",
            summary=" ".join(HOSTILE),
            flags=flags,
            findings=notes,
            dollars=0.0123,
        )

    def newest_patch(self, snapshot: object, uri: str, size: int) -> str | None:
        """None is kept."""
        return None

    def rounds(self, snapshot: object, uri: str) -> tuple[read.Round, ...]:
        """None is kept, so no page shows lines."""
        return ()

    def change_facts(self, snapshot: object, uri: str, left_out: object = ()) -> read.ChangeFacts:
        """A CI run that failed, and one owner of its files beside the author."""
        return read.ChangeFacts(read.CiRun("failed", ("test",)), (read.FileOwner(ANA, 3),), 1)

    def upstream_facts(self, snapshot: object, repository_key: str) -> tuple[read.Signal, ...]:
        """No repository links one."""
        return ()

    def forge_home(self, snapshot: object, uri: str, author: str, repository_key: str) -> read.ForgeHome:
        """Where each stands, under its number."""
        row = self.pull(snapshot, uri)
        number = int((row.page or "").rpartition("/")[2]) if row else None
        return read.ForgeHome(author, SEED.did, "seed.example.test", "core", number)

    def pulls(self, snapshot: object, uris: Sequence[str]) -> tuple[QueueRow, ...]:
        """The rows of those addresses."""
        return tuple(row for row in self.rows if row.uri in uris)

    def subjects(self, snapshot: object, uris: Iterable[str]) -> dict[str, read.Subject]:
        """The same as what an action is about."""
        return {row.uri: _subject(row) for row in self.pulls(snapshot, tuple(uris))}

    def decided_subjects(self, snapshot: object, uris: Iterable[str]) -> dict[str, read.Subject]:
        """The same; no decision here has a number."""
        return self.subjects(snapshot, uris)

    def lanes(self, snapshot: object, uris: Sequence[str], query: QueueQuery = NO_QUERY) -> dict[str, read.GroupKey]:
        """The lane of each that matches."""
        found = [row for row in self.pulls(snapshot, uris) if self._matches(row, replace(query, bucket=None))]
        return {row.uri: "own" if row.own else row.verdict.lane.value for row in found}

    def labels(self, snapshot: object, uris: Sequence[str]) -> dict[str, str]:
        """The short name of each."""
        return {row.uri: row.label for row in self.pulls(snapshot, uris)}

    def changed_after(self, snapshot: object) -> dict[str, read.ChangedApproval]:
        """Nothing changed after it was approved."""
        return {}

    def approved(self, snapshot: object) -> tuple[read.Approved, ...]:
        """Nothing is approved."""
        return ()

    def past_actions(self, snapshot: object, uri: str) -> tuple[read.PastAction, ...]:
        """Nothing took effect."""
        return ()

    def taken_keys(self, snapshot: object, keys: Sequence[str]) -> set[str]:
        """Nothing took effect."""
        return set()

    def leaderboard(
        self, snapshot: object, sort: str, descending: bool, page: int, hidden: Mapping[str, read.DueAudit]
    ) -> read.Leaderboard:
        """Four people on three pages."""
        people = ((SEED, 9, 0), (ANA, 120, 1), (MARA, 3, 1), (MALLORY, 0, 0))
        rows = tuple(
            read.LeaderboardRow(
                rank if clean + bad >= 5 else None, person, judged(clean, bad, ())[0], clean, bad, None, clean + bad < 5
            )
            for rank, (person, clean, bad) in enumerate(people, 1)
        )
        return read.Leaderboard(rows, 1218, page, 3, (SEED,))

    def dashboard(self, snapshot: object) -> read.Dashboard:
        """Aggregates with a figure in every place."""
        bins = tuple(read.Bin(index / 10, (index + 1) / 10, index * index) for index in range(10))
        return read.Dashboard(
            lanes=self._counts(),
            own=1,
            histogram=bins,
            scored=1218,
            not_enough_evidence=933,
            contributors=1218,
            vouches=184,
            denounces=1,
            seeds=4,
            events=9622,
            pull_requests=4802,
            repositories=4,
            watched=4,
            dead_letters=0,
            dropped_strangers=162,
            gaps_open=self.gaps_open,
            unknown_shapes=7,
            newest_event_at=self.newest,
            t_low=self.t_low,
            t_high=self.t_high,
            lane_notice=self.notice,
            has_threshold=self.t_high is not None,
            asks_claude=self.asks_claude,
        )

    def contributor(self, snapshot: object, did: str, viewer: str | None = None) -> read.ContributorPage | None:
        """Mara or mallory; nobody else is known."""
        person = next((person for person in (MARA, MALLORY) if person.did == did), None)
        if person is None:
            return None
        path = (SEED, ANA, MARA) if person is MARA else ()
        verdict, evidence = judged(3, 1, path)
        sentence = explain(verdict, evidence)
        score = read.ContributorScore(
            person, None, verdict.lane, verdict, 0.4, 0.01, None, 2, path, (SEED,), sentence, NOW, "beta-1"
        )
        return read.ContributorPage(
            score=score,
            per_repository=(replace(score, repository="core"),),
            vouches=(read.VouchLine(ANA, "vouch", "<i>solid</i>\u202e", NOW),),
            pulls=(
                read.PullLine(
                    self.rows[1].uri, HOSTILE[0], "core", NOW, "open", "open", True, "open", "core #7", 4, 1, True
                ),
                read.PullLine(self.rows[0].uri, HOSTILE[1], "core", NOW, "merged", "clean merge", True, "clean"),
            ),
            history=tuple(
                read.HistoryPoint(NOW - timedelta(days=day), 0.6, 0.4, 0.8, verdict.lane) for day in range(3)
            ),
            did_created_at=None,
            first_seen_at=NOW,
            account_status="active",
            stored=(("events in the log", 31), ("pull requests", 2)),
            record=read.Record({"open": 1, "clean": 1}, NOW - timedelta(days=400), NOW),
            signals=(
                read.Signal(f"Handle {HOSTILE[0]}", "declared", HOSTILE[1], f"https://evil.example/{HOSTILE[0]}"),
            ),
        )

    def explain_trust(
        self, snapshot: object, did: str, repository: str | None, policy: object
    ) -> read.TrustExplanation | None:
        """Mara is reached over ana and over an unreadable name, and one person hangs on her; of others nothing."""
        if did != MARA.did:
            return None
        return read.TrustExplanation(
            distance=2,
            paths=((SEED, ANA, MARA), (SEED, MALLORY, MARA)),
            dominator=ANA if repository else None,
            vouchers=(read.Contribution(ANA, 0.996, 0), read.Contribution(MALLORY, 0.004, 7)),
            dependents=(MALLORY,),
            dependents_total=1,
            threshold=0.5,
            weights=((1.0, 0.7), (0.9, 0.31)),
        )

    def fares(self, snapshot: object) -> tuple[read.Fare, read.Fare]:
        """Two first-timers and nine regulars."""
        newcomers: dict[read.GroupKey, int] = {"normal_queue": 2}
        regulars: dict[read.GroupKey, int] = {"needs_human": 3, "normal_queue": 3, "fast_lane": 3}
        waits = (NOW - timedelta(days=3), NOW - timedelta(days=16))
        return read.Fare(True, newcomers, *waits, 7, 2.5), read.Fare(False, regulars, *waits, 0, None)

    def quiet(self, snapshot: object, since: datetime) -> tuple[read.Quiet, ...]:
        """Nothing is that old."""
        return ()

    def training_need(self, snapshot: object, now: datetime, folder: Path, days: int, window: int) -> read.TrainingNeed:
        """Twelve settled; the worker is due in two days, or never trains."""
        return read.TrainingNeed(12, 3, days, NOW + timedelta(days=2))

    def lane_results(self, snapshot: object) -> tuple[read.LaneMonth, ...]:
        """As the test that drew it says."""
        return self.results

    def open_below(self, snapshot: object, chance: float) -> tuple[int, int]:
        """None of the open ones has a number."""
        return 0, 0

    def lane_audits(self, snapshot: object) -> tuple[int, int]:
        """No audit was answered."""
        return 0, 0

    def lane_states(self, snapshot: object) -> tuple[read.LaneState, ...]:
        """Open in the one repository from a threshold that was set by hand, or shut there."""
        is_open = self.t_high is not None
        basis = "by_hand" if is_open else "shut"
        return (read.LaneState("did:plc:corecorecorecorecorecore", is_open, "", basis, t_high=self.t_high),)

    def lane_sum(self, snapshot: object, repositories: Iterable[str], shadow: bool, now: datetime) -> read.LaneSum:
        """Nothing went through lately."""
        return read.LaneSum(0, 0, 0, 0)

    def opening_keys(self, snapshot: object, now: datetime) -> dict[str, str]:
        """Nobody opened a lane on an estimate."""
        return {}

    def seeds_in_force(self, snapshot: object, repository: int) -> tuple[read.Person, ...]:
        """One seed."""
        return (SEED,)

    def estimated_lanes(self, snapshot: object, now: datetime) -> tuple[read.EstimatedLane, ...]:
        """Nobody opened one."""
        return ()

    def lane_past(self, snapshot: object, key: str, policy: object, now: datetime) -> None:
        """Nothing is settled."""
        return

    def due_audits(self, snapshot: object) -> Sequence[tuple[read.Subject, read.DueAudit]]:
        """Nothing was drawn."""
        return ()

    def record_objections(self, snapshot: object) -> tuple[read.RecordObjection, ...]:
        """Nobody objected by a record."""
        return ()

    def row_states(self, snapshot: object, uris: Sequence[str]) -> dict[str, read.RowState]:
        """Nobody commented on anything."""
        stand = self.lanes(snapshot, uris)
        return {uri: read.RowState(one.seen, stand[uri], 0) for uri, one in self.subjects(snapshot, uris).items()}

    def unmarked_merges(self, snapshot: object, *asked: object) -> dict[str, datetime]:
        """Nothing was merged two weeks ago."""
        return {}

    def settled(self, snapshot: object, query: read.SettledQuery) -> read.Settled:
        """One of mara's for each hostile text, all of them closed."""
        told = ("core", None, MARA)
        rows = (read.SettledRow(self.rows[1].uri, text, *told, text, NOW) for text in HOSTILE)
        return read.Settled(tuple(rows), 5_000, query.page, 100, (("did:plc:corecorecorecorecorecore", HOSTILE[0]),))

    def watched_repositories(self, snapshot: object) -> tuple[read.WatchedRepository, ...]:
        """None that a viewer of these pages maintains."""
        return ()

    def score(self, snapshot: object, did: str, repository: str | None = None) -> None:
        """Nobody wrote anything."""
        return

    def weeks(self, snapshot: object, now: datetime, repository: str = "") -> tuple[read.Week, ...]:
        """A backlog that shrank."""
        return tuple(read.Week(now - timedelta(weeks=12 - at), 71 - at, 20 + at, 21 + at) for at in range(13))

    def answers(self, snapshot: object, now: datetime, repository: str = "") -> tuple[read.Answers, read.Answers]:
        """First-timers wait twice as long as regulars; two wait still."""
        months = [datetime(2026, month, 1) for month in (1, 2, 3)]
        slow, fast = (
            tuple(read.AnswerMonth(month, 12, days, days / 2, 3 * days) for month in months) for days in (2.1, 1.4)
        )
        uri = self.rows[0].uri if self.rows else ""
        return (
            read.Answers(True, slow, slow[0], 2, now - timedelta(days=5), uri, HOSTILE[0]),
            read.Answers(False, fast, fast[0]),
        )

    def scores(self, snapshot: object, dids: Sequence[str]) -> dict[str, read.ContributorScore]:
        """Nobody but mara."""
        page = self.contributor(snapshot, MARA.did)
        return {MARA.did: page.score} if page and MARA.did in dids else {}

    def persons(self, snapshot: object, dids: Iterable[str]) -> dict[str, read.Person]:
        """Ana, mara and mallory by their DIDs."""
        return {one.did: one for one in (ANA, MARA, MALLORY) if one.did in set(dids)}

    def dids_of_handles(self, snapshot: object, handles: Iterable[str]) -> dict[str, str]:
        """Ana and mara by their handles."""
        return {one.name: one.did for one in (ANA, MARA) if one.name in set(handles)}

    def vouches_worth_making(
        self, snapshot: object, did: str, repositories: Sequence[str], policy: object
    ) -> tuple[read.VouchesWorth, ...]:
        """One, for mallory, from the site's seeds and from those of each repository."""
        vouch = read.VouchWorth(MALLORY, 7, 6, 7, 0.0, 0.909, 2, 1, 0.5)
        return tuple(read.VouchesWorth(name, (vouch,)) for name in (None, *repositories))


def _subject(row: QueueRow) -> read.Subject:
    seen = read.Seen(row.record_cid, row.round, row.patch_id)
    where = (row.repository_key, row.repository_name)
    return read.Subject(
        row.uri,
        row.title,
        *where,
        row.author,
        "open",
        seen,
        "main",
        row.opened_at,
        None,
        None,
        2,
        row.added,
        row.removed,
    )


class _DrawnReader:
    is_unreadable = False

    def __init__(self, snapshot: DrawnSnapshot | None) -> None:
        self._snapshot = snapshot

    @contextmanager
    def pin(self) -> Generator[DrawnSnapshot | None]:
        yield self._snapshot


def draw(monkeypatch: pytest.MonkeyPatch, world: DrawnWorld | None) -> None:
    """Put a world behind `scoring.queries.read` for one test; None: nothing was published yet."""
    reader = _DrawnReader(DrawnSnapshot(next(_NUMBERS)) if world else None)
    monkeypatch.setattr(middleware, "snapshot_reader", lambda: reader)
    monkeypatch.setattr(context, "_newest", None)
    held = (as_shown._queues, as_shown._approved, as_shown._changed, lane_heads._states, lane_heads._heads)
    held += (
        lane_offers._watched,
        lane_offers._pasts,
        lane_offers._offers,
        audit._drawn,
        inbox._due,
        snoozing._states,
        objections._records,
    )
    held += (context._need_cache,)
    for kept in held:
        monkeypatch.setattr(kept, "get", lambda snapshot, key, make: make())  # a drawn one changes
    monkeypatch.setattr(read, "hidden_because", lambda snapshot, did: None)
    pages = ("queue", "pull", "leaderboard", "dashboard", "contributor")
    pages += ("pulls", "subjects", "decided_subjects", "labels", "lanes", "changed_after", "approved")
    pages += ("past_actions", "taken_keys", "content_review", "change_facts", "forge_home", "newest_patch", "reread")
    pages += ("upstream_facts", "quiet", "longest_waiting")
    pages += (
        "rounds",
        "explain_trust",
        "vouches_worth_making",
        "due_audits",
        "record_objections",
        "row_states",
        "unmarked_merges",
        "settled",
    )
    pages += ("lane_states", "lane_sum", "estimated_lanes", "opening_keys", "lane_past", "watched_repositories")
    pages += ("weeks", "answers", "scores", "persons", "dids_of_handles", "seeds_in_force")
    for name in (*pages, "fares", "lane_audits", "open_below", "lane_results", "score", "training_need"):
        if world:
            monkeypatch.setattr(read, name, getattr(world, name), raising=False)
