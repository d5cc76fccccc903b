"""Table of the records that people have this site write into their own repositories, or take out of them."""

from collections.abc import Iterable
from typing import Any, ClassVar

from django.db import models, transaction

from triage.models.accounts import Person, Row
from triage.models.actions import Action
from triage.models.oauth import OAuthSession


class OwnRecord(Row):
    """One record of a person's own, to be written once `due_at` is past; until it is begun it can be withdrawn.

    `rkey` is chosen before the record is sent, so that sending it again after a kill writes the same one. `record` is
    None for a deletion, `replaces` the CID of what the key held ("" for nothing). `action` is what it tells of, if it
    is an action on a pull request; `subject` is the pull request or the person concerned. `tries` counts before each
    try, and `problem` is why the last one failed.
    """

    class State(models.TextChoices):
        """How far it is."""

        WAITING = "waiting"
        WRITTEN = "written"
        REFUSED = "refused"
        WITHDRAWN = "withdrawn"  # before it was sent, or deleted since
        MERGING = "merging"  # a status record whose merge was begun
        UNKNOWN = "unknown"  # the answer to the merge was lost

    key: Any = models.CharField(max_length=40, unique=True)
    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="own_records")
    # Without a constraint: a backup holds this row, and no session.
    session: Any = models.ForeignKey(
        OAuthSession, on_delete=models.SET_NULL, null=True, related_name="own_records", db_constraint=False
    )
    action: Any = models.ForeignKey(Action, on_delete=models.CASCADE, null=True, related_name="own_records")
    act: Any = models.CharField(max_length=40)
    repo_key: Any = models.CharField(max_length=2048, blank=True)
    subject: Any = models.CharField(max_length=2048, db_index=True)
    collection: Any = models.CharField(max_length=320)
    rkey: Any = models.CharField(max_length=512)
    record: Any = models.JSONField(null=True)
    replaces: Any = models.CharField(max_length=200, blank=True)
    state: Any = models.CharField(max_length=20, choices=State.choices, default=State.WAITING, db_index=True)
    problem: Any = models.CharField(max_length=500, blank=True)
    made_at: Any = models.DateTimeField()
    due_at: Any = models.DateTimeField()
    tries: Any = models.PositiveIntegerField(default=0)
    settled_at: Any = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["action", "act"],
                condition=models.Q(state__in=("waiting", "written")),
                name="one_standing_record",
            )
        ]

    @property
    def uri(self) -> str:
        """Return the at-uri of the record."""
        return f"at://{self.person.did}/{self.collection}/{self.rkey}"


def withdraw_records(actions: Iterable[Action]) -> bool:
    """Withdraw the waiting records of these actions; False where one was begun, and then none is withdrawn."""
    standing = OwnRecord.objects.filter(action__in=actions, state__in=("waiting", "written"))
    with transaction.atomic():
        if standing.filter(tries__gt=0).exists():
            return False
        standing.update(state=OwnRecord.State.WITHDRAWN)
    return True
