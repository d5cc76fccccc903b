"""The web's Huey tasks: deliver decisions and webhook messages, revoke and delete ended sessions."""

import logging
import sqlite3
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from django.conf import settings
from django.db import close_old_connections, connection
from django.utils import timezone
from huey import crontab

from ingest.http.fetcher import Receiver
from ingest.oauth.dpop import DpopSender
from ingest.worker.runtime import current, huey
from triage import middleware
from triage.access.oauth.attempts import forget_expired
from triage.access.oauth.keys import remove_unbound_keys
from triage.access.oauth.sessions import end_unused, revoke_ended
from triage.models import Label
from triage.models.outbox import next_due
from triage.services import snoozing
from triage.services.actions import WINDOW
from triage.services.notifying import push
from triage.services.notifying.deliveries import deliver
from triage.services.notifying.webhooks import forget, note_changes, send_due
from triage.services.own_name import own_records
from triage.services.publishing.labels import update_labels
from triage.services.publishing.public_lanes import public_lanes, published_mode
from triage.services.publishing.publisher import Publisher
from triage.services.publishing.records import note_lanes, service_account

log = logging.getLogger(__name__)
EVERY_SECONDS = 60.0  # the sweep comes that often anyway
NEWEST_TABLE = "triage_pushsubscription"
ON_THE_QUEUE = 1_000  # without a worker nothing is taken off the queue


def with_accounts(task: Callable[[], None]) -> Callable[[], None]:
    """Run a task on the accounts' database; do nothing before the web process has created its tables."""

    @wraps(task)
    def run() -> None:
        if not _has_tables():
            return
        try:
            task()
        finally:
            close_old_connections()

    return run


def _has_tables() -> bool:
    """Return whether the newest table that these tasks read exists."""
    is_there = Path(settings.DATABASES["default"]["NAME"]).exists()
    return is_there and NEWEST_TABLE in connection.introspection.table_names()


@huey.task()
@huey.lock_task("deliver_outbox")
@with_accounts
def deliver_outbox() -> None:
    """Deliver what is due, and run again when the next message is due."""
    runtime = current()
    if deliver(runtime, timezone.now()):
        runtime.changed("deliver_outbox")
    due_at = next_due()
    seconds = (due_at - timezone.now()).total_seconds() if due_at else EVERY_SECONDS
    if seconds < EVERY_SECONDS:
        deliver_outbox.schedule(delay=max(seconds, 1.0))


@huey.task()
@huey.lock_task("tell_webhook")
@with_accounts
def tell_webhook() -> None:
    """Note what changed, write what the webhook and people's browsers are told, and send the webhook's due messages.

    Do nothing where nobody is told. It has its own hop, for which nothing else waits: it takes half a minute and one
    try at most.
    """
    runtime, now = current(), timezone.now()
    if push.is_wanted():
        note_changes(runtime.store, now, bool(settings.WEBHOOK_URL))
        push.note_pushes(now)
        if push.waits():
            send_pushes()
    elif settings.WEBHOOK_URL:
        note_changes(runtime.store, now)
    else:
        forget()
    if settings.WEBHOOK_URL:
        send_due(Receiver(settings.WEBHOOK_URL, runtime.fetcher.leash), timezone.now)


@huey.task()
@huey.lock_task("send_pushes")
@with_accounts
def send_pushes() -> None:
    """Send what is due to people's browsers; slow push services keep nobody else waiting."""
    push.send_pushes(current().fetcher, timezone.now)


_publishers: list[Publisher] = []  # of this process: a new one compares first


@huey.task()
@huey.lock_task("publish_assessments")
@with_accounts
def publish_assessments() -> None:
    """Write down what should be public, and bring the service account's repository to it; nothing without one."""
    if service_account() is None:
        return
    runtime = current()
    with runtime.store.read() as rows:
        lanes, publishes = public_lanes(rows, runtime.clock.now()), published_mode(rows)
    note_lanes(lanes, publishes, timezone.now())
    if not _publishers:
        _publishers.append(Publisher(DpopSender(runtime.fetcher), timezone.now))
    _publishers[0].send_waiting()


@huey.task()
@huey.lock_task("send_own_records")
@with_accounts
def send_own_records() -> None:
    """Write the records that are due into people's own repositories, and run again when the next one is due."""
    own_records.send_due(DpopSender(current().fetcher), timezone.now)
    due_at = own_records.next_due()
    seconds = (due_at - timezone.now()).total_seconds() if due_at else EVERY_SECONDS
    if seconds < EVERY_SECONDS:
        send_own_records.schedule(delay=max(seconds, 1.0))


@huey.periodic_task(crontab(minute="*"))
def look_for_own_records() -> None:
    """Send what no wake-up came for."""
    send_own_records()


@huey.periodic_task(crontab(minute="*"))
@huey.lock_task("label_lanes")
@with_accounts
def label_lanes() -> None:
    """Bring the labels to what may be told publicly now; where none are served, take back those that were."""
    runtime = current()
    now = runtime.clock.now()
    if settings.LABELER_BIND:
        with runtime.store.read() as rows:
            lanes = public_lanes(rows, now)
        update_labels(lanes, now)
    elif Label.objects.exists():
        update_labels((), now)


@huey.periodic_task(crontab(minute="*"))
@huey.lock_task("revoke_sessions")
@with_accounts
def revoke_sessions() -> None:
    """Tell people's own servers of the sessions that ended here, within a minute."""
    revoke_ended(DpopSender(current().fetcher), timezone.now())


@huey.periodic_task(crontab(minute="51"))
@with_accounts
def drop_what_ended() -> None:
    """Delete expired sessions, sign-ins that nobody finished, unused keys and ended snoozes once an hour."""
    from django.contrib.sessions.backends.db import SessionStore

    SessionStore.clear_expired()
    end_unused(timezone.now())
    forget_expired(timezone.now())
    with middleware.snapshot_reader().pin() as snapshot:
        if snapshot is not None:
            snoozing.forget_ended(snapshot, timezone.now())
    remove_unbound_keys()  # last: a damaged key file ends this in an exception, which the log tells


def wake_sender() -> None:
    """Have the worker send what is asked for now, once it cannot be withdrawn any more."""
    _queue(lambda: send_own_records.schedule(delay=WINDOW.total_seconds() + 0.1))


def wake_publisher() -> None:
    """Have the worker publish what changed."""
    _queue(publish_assessments)


def wake() -> None:
    """Ask the worker to check the outbox; where the queue cannot be written its sweep finds it within a minute."""
    _queue(deliver_outbox)


def _queue(task: Callable[[], object]) -> None:
    try:
        if huey.pending_count() < ON_THE_QUEUE:
            task()
    except sqlite3.Error as problem:
        log.warning("the worker could not be woken and looks again within a minute: %s", problem)
