"""Having chosen repositories watched: their rows, the log and the messages to the worker, all or none."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

from django.db import transaction

from ingest.snapshot import Snapshot
from scoring.read import WatchedRepository
from scoring.repository_settings import DEFAULTS
from scoring.told_runs import held_run
from triage import repository_choices
from triage.changes import log_change
from triage.models import DeliveryRun, OutboxEntry, Person
from triage.outbox import put
from triage.roles import keep_watched
from triage.setup_words import Choice

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
            before = repository_choices.newest(found)
            repository_choices.save(person, found, replace(before, review=review), before.version, now)
        records = sorted(choice.record for choice, _ in chosen)
        name = blake2b("\n".join(records).encode(), digest_size=16).hexdigest()
        put("first_reading", f"first_reading:{name}", {"dids": list(dict.fromkeys((owner, *holders)))}, now)


def handed_over(snapshot: Snapshot | None) -> tuple[int, str]:
    """How many of these messages the snapshot does not show, and why the last try of one failed, "" where none did."""
    waiting: Mapping[str, str] = dict(
        OutboxEntry.objects.filter(kind__in=KINDS, delivered_at=None).values_list("key", "problem")
    )
    return len(waiting) + _taken_since(snapshot), next(filter(None, waiting.values()), "")


def _taken_since(snapshot: Snapshot | None) -> int:
    """How many the worker has taken that no snapshot shows yet: a page that counts them as shown says that all is done.

    A snapshot that names the newest run of deliveries shows everything; in another, whatever was taken from a minute
    before it on may be missing, as a message bears the time at which its run began.
    """
    run = DeliveryRun.objects.first()
    if run is None or (snapshot and held_run(snapshot) == (run.store, run.number)):
        return 0
    taken = OutboxEntry.objects.filter(kind__in=KINDS).exclude(delivered_at=None)
    since = snapshot.published_at.replace(tzinfo=UTC) - LONGEST_RUN if snapshot else None
    return (taken.filter(delivered_at__gte=since) if since else taken).count()
