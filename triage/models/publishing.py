"""Tables of what this site publishes: the account as which it does, its records, and the points that they cost."""

import uuid
from typing import Any, ClassVar

from django.db import models

from triage.models.accounts import Row
from triage.models.oauth import OAuthSession


class ServiceAccount(Row):
    """The one account as which this site publishes, by a grant (`session`) or with an app password (`sealed`).

    `server` is the origin of its data server. `retracting`: everything is being taken back, and nothing new is
    published. Nothing is sent before `paused_until`; `failures` counts what went wrong in a row, and `problem` says in
    one sentence what did last.
    """

    id: Any = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    did: Any = models.CharField(max_length=2048)
    handle: Any = models.CharField(max_length=253, blank=True)
    server: Any = models.CharField(max_length=2048)
    # Without a constraint: a backup holds this row, and no session.
    session: Any = models.ForeignKey(
        OAuthSession, on_delete=models.SET_NULL, null=True, related_name="service_accounts", db_constraint=False
    )
    sealed: Any = models.BinaryField(null=True)
    connected_at: Any = models.DateTimeField()
    retracting: Any = models.BooleanField(default=False)
    paused_until: Any = models.DateTimeField(null=True)
    failures: Any = models.PositiveIntegerField(default=0)
    problem: Any = models.CharField(max_length=500, blank=True)


class PublishedRecord(Row):
    """One record as it should be in the service account's repository, and whether it is (`waits`: not yet).

    `record` is None where it should not be there any more; the row goes once it is not. `cid` names what is there as
    far as known, "" for nothing. `pull_uri`, `author` and `repo_key` are empty for the record of the service, and once
    a person was erased: then the row only says what is to be deleted. `tries` and `problem` are of the newest state,
    and it is not tried before `due_at`.
    """

    collection: Any = models.CharField(max_length=320)
    rkey: Any = models.CharField(max_length=64)
    pull_uri: Any = models.CharField(max_length=2048, blank=True, db_index=True)
    author: Any = models.CharField(max_length=2048, blank=True, db_index=True)
    repo_key: Any = models.CharField(max_length=2048, blank=True)
    record: Any = models.JSONField(null=True)
    cid: Any = models.CharField(max_length=200, blank=True, default="")
    waits: Any = models.BooleanField(db_index=True)
    changed_at: Any = models.DateTimeField()
    due_at: Any = models.DateTimeField()
    sent_at: Any = models.DateTimeField(null=True)
    tries: Any = models.PositiveIntegerField(default=0)
    problem: Any = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["collection", "rkey"], name="one_published_record")]


class PublishingPoints(Row):
    """The points that were spent in one minute: data servers allow so many an hour and a day."""

    minute: Any = models.DateTimeField(unique=True)
    points: Any = models.PositiveIntegerField()
