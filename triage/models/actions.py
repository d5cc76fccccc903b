"""Tables of people's actions on pull requests, of lanes closed and opened, and of answers to the audit.

Actions are kept before and after the worker was told.
"""

from typing import Any, ClassVar

from django.db import models

from triage.models.accounts import Person, Row


class Action(Row):
    """One thing that a person did with a pull request, naming what they saw. Never altered but for an undo.

    `key` is also that of its message in the outbox, which is due at `effective_at`; until then it can be undone. A
    correction is a further action. `batch` is shared by those of one bulk approval, "" elsewhere. `findings` are the
    digests of the findings that it calls false alarms, or no longer, with the `scanner` of the first.
    """

    class Kind(models.TextChoices):
        """The kind of the action."""

        APPROVE = "approve"
        PULL_FOR_REVIEW = "pull_for_review"
        RELEASE = "release"  # of what was pulled for review, or of an approval
        OUTCOME = "outcome"
        NOTE = "note"
        COMMENT = "comment"  # the last three wait here until people can write to the forge themselves
        REQUEST_CHANGES = "request_changes"
        CLOSE = "close"
        DISMISS_FINDING = "dismiss_finding"
        RESTORE_FINDING = "restore_finding"

    class Outcome(models.TextChoices):
        """The outcome of a change, in a person's eyes."""

        CLEAN = "clean"
        NEEDED_FIX = "needed_fix"
        REVERTED = "reverted"

    key: Any = models.CharField(max_length=40, unique=True)
    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="actions")
    pull_uri: Any = models.CharField(max_length=2048, db_index=True)
    repo_key: Any = models.CharField(max_length=2048)
    kind: Any = models.CharField(max_length=20, choices=Kind.choices)
    outcome: Any = models.CharField(max_length=20, choices=Outcome.choices, blank=True)
    note: Any = models.CharField(max_length=2000, blank=True)
    record_cid: Any = models.CharField(max_length=200, null=True)  # what was seen
    round: Any = models.PositiveIntegerField()
    patch_id: Any = models.CharField(max_length=64, null=True)
    decision: Any = models.CharField(max_length=40, blank=True)  # score_id of the decision that stood; "": not known
    findings: Any = models.CharField(max_length=2000, blank=True)
    scanner: Any = models.CharField(max_length=60, blank=True)
    batch: Any = models.CharField(max_length=40, blank=True, db_index=True)
    made_at: Any = models.DateTimeField(db_index=True)
    effective_at: Any = models.DateTimeField()
    undone_at: Any = models.DateTimeField(null=True)


class Lease(Row):
    """A note that a person looks at a pull request now. It stops nobody: it tells whoever else comes."""

    pull_uri: Any = models.CharField(max_length=2048, unique=True)
    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="leases")
    expires_at: Any = models.DateTimeField()


class ReadingTime(Row):
    """The time that one person had one change open before their verdict; kept only while they want it measured.

    `seconds` is None until the verdict.
    """

    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="reading_times")
    pull_uri: Any = models.CharField(max_length=2048, db_index=True)
    opened_at: Any = models.DateTimeField()
    seconds: Any = models.PositiveIntegerField(null=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["person", "pull_uri"], name="one_reading_time")]


class Snooze(Row):
    """A row that a person hid from the queue, until a day or until it changes, for everybody who reads the queue.

    It says how the row was then; `triage.services.snoozing` compares. `until` is None where only a change ends it.
    `key` names it in forms. A later snooze takes its place.
    """

    key: Any = models.CharField(max_length=40, unique=True)
    pull_uri: Any = models.CharField(max_length=2048, unique=True)
    repo_key: Any = models.CharField(max_length=2048)
    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="snoozes")
    made_at: Any = models.DateTimeField()
    until: Any = models.DateTimeField(null=True)
    record_cid: Any = models.CharField(max_length=200, null=True)
    round: Any = models.PositiveIntegerField()
    patch_id: Any = models.CharField(max_length=64, null=True)
    lane: Any = models.CharField(max_length=20)  # the row's group in the queue
    comments: Any = models.PositiveIntegerField()  # how many there were


class LaneClosure(Row):
    """The fast lane closed by a person, for every change that is all of what is named; "" names anything.

    `key` is that of its message in the outbox. It stands until a person opens the lane again, and is kept then.
    """

    key: Any = models.CharField(max_length=40, unique=True)
    repo_key: Any = models.CharField(max_length=2048, blank=True)
    author: Any = models.CharField(max_length=2048, blank=True)  # a DID
    voucher: Any = models.CharField(max_length=2048, blank=True)  # a DID through which trust comes
    because: Any = models.CharField(max_length=500)
    person: Any = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True, related_name="closures")
    closed_at: Any = models.DateTimeField()
    opened_at: Any = models.DateTimeField(null=True, db_index=True)
    opened_by: Any = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True, related_name="openings")
    opened_because: Any = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["repo_key", "author", "voucher"],
                condition=models.Q(opened_at=None),
                name="one_standing_closure",
            )
        ]


class EstimatedLane(Row):
    """The fast lane of one repository opened by a maintainer on an estimate, with the figures that were shown.

    The figures are those of `scoring.certificates.lane_counts.Offer`. `key` is that of its message in the outbox. It
    stands until a person ends it or opens another one there, and is kept then.
    """

    key: Any = models.CharField(max_length=40, unique=True)
    repo_key: Any = models.CharField(max_length=2048)
    threshold: Any = models.FloatField()
    source: Any = models.CharField(max_length=10)
    cases: Any = models.FloatField()
    let_through: Any = models.FloatField()
    bad: Any = models.FloatField()
    bad_low: Any = models.FloatField()
    bad_high: Any = models.FloatField()
    model: Any = models.CharField(max_length=200, blank=True, default="")
    person: Any = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True, related_name="estimated_lanes")
    opened_at: Any = models.DateTimeField()
    was_shadow: Any = models.BooleanField()  # the repository was in shadow mode when it was opened
    ended_at: Any = models.DateTimeField(null=True, db_index=True)
    ended_by: Any = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True, related_name="ended_lanes")
    ended_because: Any = models.CharField(max_length=500, blank=True)  # "" where another opening took its place

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["repo_key"], condition=models.Q(ended_at=None), name="one_standing_estimated_lane"
            )
        ]


class AuditAnswer(Row):
    """A person's answer on whether they would merge a drawn pull request as sent, given before lane and score.

    There is one on each round: whoever answers later has seen the rest. `key` is that of its message in the outbox.
    """

    key: Any = models.CharField(max_length=40, unique=True)
    pull_uri: Any = models.CharField(max_length=2048, db_index=True)
    repo_key: Any = models.CharField(max_length=2048)
    record_cid: Any = models.CharField(max_length=200, blank=True)  # what was read; "" where it is not known
    round: Any = models.PositiveIntegerField()
    patch_id: Any = models.CharField(max_length=64, blank=True)
    would_merge: Any = models.BooleanField()
    because: Any = models.CharField(max_length=500)
    person: Any = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True, related_name="audit_answers")
    made_at: Any = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["pull_uri", "round", "record_cid", "patch_id"], name="one_audit_answer")
        ]


class HandledIncident(Row):
    """A person's word that nothing is left to do about an incident; deleted when somebody opens it again.

    `mark` is the action that opened the incident.
    """

    mark: Any = models.OneToOneField(Action, on_delete=models.CASCADE, related_name="handled")
    person: Any = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True, related_name="handled_incidents")
    handled_at: Any = models.DateTimeField()
