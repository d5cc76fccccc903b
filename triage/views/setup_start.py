"""Starts the watching of repositories chosen on /setup, and looks up somebody's repositories for it.

Rows, log and messages to the worker are written all or none. The worker asks the network, and its answer waits in the
queue's file. What was typed and ticked stays in the session, so that nothing of it is lost where an answer is.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from django.conf import settings
from django.db import transaction

from ingest.atproto.syntax import MalformedDid, parse_did, parse_handle
from ingest.store.snapshots import Snapshot
from ingest.tasks import run_job
from ingest.worker.queue import huey
from scoring.config.repository import DEFAULTS
from scoring.handlers.actions import read_run
from scoring.queries.read import WatchedRepository
from scoring.review.by_hand import LOOKED_UP, new_job, reply_key
from triage.access.requests import Request
from triage.access.roles import keep_watched
from triage.context import worker_status
from triage.models import DeliveryRun, OutboxEntry, Person
from triage.models.change_log import log_change
from triage.models.outbox import put
from triage.presenters import freshness
from triage.presenters.setup import Choice
from triage.services import repository_settings

KINDS = ("watched", "settings.changed", "first_reading")
LONGEST_RUN = timedelta(minutes=1)  # 500 messages take 3 s


def start_watching(
    person: Person, owner: str, chosen: Sequence[tuple[Choice, str]], holders: Sequence[str], now: datetime
) -> None:
    """Have these repositories of `owner` (a DID) watched, each with its review mode, and their people read first.

    Each is in shadow mode until a maintainer says otherwise. Raises ChangedMeanwhile, with nothing changed, where
    somebody saved settings of one at this moment.
    """
    with transaction.atomic():
        for choice, review in chosen:
            keep_watched(choice.record, now)
            log_change(person, "repository.watched", now, choice.repo_key, choice.record)
            found = WatchedRepository(0, choice.repo_key, choice.name, owner, DEFAULTS)
            before = repository_settings.newest(found)
            repository_settings.save(person, found, replace(before, review=review), before.version, now)
        records = sorted(choice.record for choice, _ in chosen)
        name = blake2b("\n".join(records).encode(), digest_size=16).hexdigest()
        put("first_reading", f"first_reading:{name}", {"dids": list(dict.fromkeys((owner, *holders)))}, now)


def handed_over(snapshot: Snapshot | None) -> tuple[int, str]:
    """Return how many of these messages the snapshot does not show, and why the last try of one failed, "" where
    none did.
    """
    waiting: Mapping[str, str] = dict(
        OutboxEntry.objects.filter(kind__in=KINDS, delivered_at=None).values_list("key", "problem")
    )
    return len(waiting) + _taken_since(snapshot), next(filter(None, waiting.values()), "")


def _taken_since(snapshot: Snapshot | None) -> int:
    """Return how many the worker has taken that no snapshot shows yet: a page that counts them as shown says that
    all is done.

    A snapshot that names the newest run of deliveries shows everything; in another, whatever was taken from a minute
    before it on may be missing, as a message bears the time at which its run began.
    """
    run = DeliveryRun.objects.first()
    if run is None or (snapshot and read_run(snapshot) == (run.store, run.number)):
        return 0
    taken = OutboxEntry.objects.filter(kind__in=KINDS).exclude(delivered_at=None)
    since = snapshot.published_at.replace(tzinfo=UTC) - LONGEST_RUN if snapshot else None
    return (taken.filter(delivered_at__gte=since) if since else taken).count()


LOST = "The answer has expired: look again. What you typed and ticked is still here."
MALFORMED = "This is neither a handle such as ana.example.com nor a DID such as did:plc:ewvi7nxzyoun6zhxrhs64oiz."
RECORDED = "This is a recording: everything in it is watched already, and nothing can be added."
KEY = "setup"


@dataclass(slots=True)
class Search:
    """A maintainer's search: as typed, the name of the job, and the review mode of each record ticked so far."""

    who: str = ""
    job: str = ""
    ticked: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, request: Request) -> "Search":
        """The one of this session, or an empty one."""
        return cls(**request.session.get(KEY, {}))

    def keep(self, request: Request) -> None:
        """Write it to the session."""
        request.session[KEY] = {"who": self.who, "job": self.job, "ticked": self.ticked}


@dataclass(frozen=True, slots=True)
class Answer:
    """The state of a search: `step` while it goes on, then a `problem`, or `found`; nothing where none was begun.

    `found` are the JSON values of `ingest.backfill.owners.Owner`.
    """

    step: str = ""
    problem: str = ""
    found: Mapping[str, Any] | None = None


def account_of(typed: str) -> str | None:
    """The handle or DID that was typed; None where it is neither."""
    text = typed.strip()
    if not text.startswith(("did:plc:", "did:web:")):
        return parse_handle(text)
    try:
        return parse_did(text)
    except MalformedDid:
        return None


def worker_trouble() -> str:
    """Return why nothing can be looked up now, "" where the worker runs and stores and this is no recording."""
    if settings.STREAM_CLOCK:
        return RECORDED
    found = freshness.troubles(worker_status(), time.time(), 0, recorded=False)
    return next((one.sentence for one in found if one.tone == "stopped"), "")


def look_up(who: str) -> str:
    """Have the worker list the repositories of a handle or DID; the name of the job."""
    job = new_job(time.time())
    key = reply_key(job, LOOKED_UP)
    huey.put(key, {"progress": {"step": "Asking the worker."}})
    run_job("find_owned", {"who": who}, key)
    return job


def answer_of(search: Search) -> Answer:
    """Return what is known of the search now."""
    if not search.job:
        return Answer()
    told = huey.get(reply_key(search.job, LOOKED_UP), peek=True)
    if not isinstance(told, dict):
        return Answer(problem=LOST)
    if "progress" in told:
        trouble = worker_trouble()
        return Answer(problem=trouble) if trouble else Answer(step=told["progress"]["step"])
    return Answer(problem=told.get("problem", ""), found=told.get("done"))
