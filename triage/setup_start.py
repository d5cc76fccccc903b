"""Having chosen repositories watched: their rows, the log and the messages to the worker, all or none."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b

from django.db import transaction

from scoring.read import WatchedRepository
from scoring.repository_settings import DEFAULTS
from triage import repository_choices
from triage.changes import log_change
from triage.models import OutboxEntry, Person
from triage.outbox import put
from triage.roles import keep_watched
from triage.setup_words import Choice

KINDS = ("watched", "settings.changed", "first_reading")


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


def handed_over() -> tuple[int, str]:
    """How many of these messages the worker has not taken, and why the last try of one failed, "" where none did."""
    waiting: Mapping[str, str] = dict(
        OutboxEntry.objects.filter(kind__in=KINDS, delivered_at=None).values_list("key", "problem")
    )
    return len(waiting), next(filter(None, waiting.values()), "")
