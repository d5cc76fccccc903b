"""The Huey tasks of the pages' side: decisions come to the worker, changes go to the webhook, ended sessions go."""

import logging
import sqlite3
from pathlib import Path

from django.conf import settings
from django.db import close_old_connections, connection
from django.utils import timezone
from huey import crontab

from ingest.http.fetcher import Receiver
from ingest.worker.runtime import current, huey
from triage import middleware
from triage.models.outbox import next_due
from triage.services import snoozing
from triage.services.deliveries import deliver
from triage.services.webhooks import forget, note_changes, send_due

log = logging.getLogger(__name__)
EVERY_SECONDS = 60.0  # the sweep comes that often anyway
NEWEST_TABLE = "triage_webhookdelivery"
ON_THE_QUEUE = 1_000  # where no worker runs nobody takes anything off it


@huey.task()
@huey.lock_task("deliver_outbox")
def deliver_outbox() -> None:
    """Deliver what is due, and come again when the next message is."""
    if not _has_tables():
        return  # no web process made its tables here yet, so nobody decided anything
    runtime = current()
    try:
        if deliver(runtime, timezone.now()):
            runtime.changed("deliver_outbox")
        due_at = next_due()
    finally:
        close_old_connections()
    seconds = (due_at - timezone.now()).total_seconds() if due_at else EVERY_SECONDS
    if seconds < EVERY_SECONDS:
        deliver_outbox.schedule(delay=max(seconds, 1.0))


@huey.task()
@huey.lock_task("tell_webhook")
def tell_webhook() -> None:
    """Write down what changed since the webhook's receiver was told, and send what is due; nothing without one.

    It is a hop of its own, which no other waits for: it lasts half a minute and one try at most.
    """
    if not _has_tables():
        return
    try:
        if settings.WEBHOOK_URL:
            runtime = current()
            note_changes(runtime.store, timezone.now())
            send_due(Receiver(settings.WEBHOOK_URL, runtime.fetcher.leash), timezone.now)
        else:
            forget()
    finally:
        close_old_connections()


@huey.periodic_task(crontab(minute="51"))
def drop_what_ended() -> None:
    """Once an hour remove the sessions that have ended and the snoozes that hide nothing any more."""
    from django.contrib.sessions.backends.db import SessionStore

    if not _has_tables():
        return
    try:
        SessionStore.clear_expired()
        with middleware.snapshot_reader().pin() as snapshot:
            if snapshot is not None:
                snoozing.forget_ended(snapshot, timezone.now())
    finally:
        close_old_connections()


def _has_tables() -> bool:
    """Return whether the newest table that these tasks read is there: the web process makes them when it starts."""
    is_there = Path(settings.DATABASES["default"]["NAME"]).exists()
    return is_there and NEWEST_TABLE in connection.introspection.table_names()


def wake() -> None:
    """Have the worker look into the outbox; where the queue cannot be written its sweep finds it within a minute."""
    try:
        if huey.pending_count() < ON_THE_QUEUE:
            deliver_outbox()
    except sqlite3.Error as problem:
        log.warning("the worker could not be woken and looks again within a minute: %s", problem)
