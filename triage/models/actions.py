"""Tables of people's actions on pull requests, of lanes closed and opened, and of answers to audits.

Actions are kept before and after delivery to the worker.
"""

from typing import Any, ClassVar

from django.db import models

from triage.models.accounts import Person, Row


class Action(Row):
    """One action of a person on a pull request, with the version that they saw. Never altered except by an undo.

    `key` is also that of its message in the outbox, which is due at `effective_at`; until then it can be undone. A
    correction is another action. `batch` is shared by the actions of one bulk approval, "" elsewhere. `findings` are
    the digests of the findings that it dismisses or restores, with the `scanner` of the first. An answer is by the pull
    request's author; `by_link`: whoever held a private link of theirs sent it.
    """

    class Kind(models.TextChoices):
        """The kind of the action."""

        APPROVE = "approve"
        PULL_FOR_REVIEW = "pull_for_review"
        RELEASE = "release"  # ends an assignment or an approval
        OUTCOME = "outcome"
        NOTE = "note"
        COMMENT = "comment"  # these three stay here until people can write to the forge themselves
        REQUEST_CHANGES = "request_changes"
        CLOSE = "close"
        DISMISS_FINDING = "dismiss_finding"
        RESTORE_FINDING = "restore_finding"
        CONFIRM_MERGE = "confirm_merge"  # these two settle what an author claims
        DENY_MERGE = "deny_merge"
        ANSWER = "answer"  # the author's, to a comment or a request

    class Outcome(models.TextChoices):
        """A person's judgement of a change's outcome."""

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
    record_cid: Any = models.CharField(max_length=200, null=True)  # the displayed record
    round: Any = models.PositiveIntegerField()
    patch_id: Any = models.CharField(max_length=64, null=True)
    decision: Any = models.CharField(max_length=40, blank=True)  # score_id of the decision at that time; "": unknown
    findings: Any = models.CharField(max_length=2000, blank=True)
    scanner: Any = models.CharField(max_length=60, blank=True)
    batch: Any = models.CharField(max_length=40, blank=True, db_index=True)
    by_link: Any = models.BooleanField(default=False)
    made_at: Any = models.DateTimeField(db_index=True)
    effective_at: Any = models.DateTimeField()
    undone_at: Any = models.DateTimeField(null=True)


class Lease(Row):
    """A note that a person is looking at a pull request. It blocks nobody; it informs others."""

    pull_uri: Any = models.CharField(max_length=2048, unique=True)
    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="leases")
    expires_at: Any = models.DateTimeField()


class ReadingTime(Row):
    """The time between one person's opening of a change and their verdict; stored only while they are opted in.

    `seconds` is None until the verdict.
    """

    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="reading_times")
    pull_uri: Any = models.CharField(max_length=2048, db_index=True)
    opened_at: Any = models.DateTimeField()
    seconds: Any = models.PositiveIntegerField(null=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["person", "pull_uri"], name="one_reading_time")]


class Snooze(Row):
    """A row that a person hid from everybody's queue, until a day or until it changes.

    It stores the row's state at that time; `triage.services.snoozing` compares. `until` is None where only a change
    ends it. `key` names it in forms. A later snooze replaces it.
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
    comments: Any = models.PositiveIntegerField()  # their number at that time


class LaneClosure(Row):
    """The fast lane closed by a person, for changes that match every field; "" matches anything.

    `key` is that of its message in the outbox. It is in force until a person opens the lane again, and is kept
    afterwards.
    """

    key: Any = models.CharField(max_length=40, unique=True)
    repo_key: Any = models.CharField(max_length=2048, blank=True)
    author: Any = models.CharField(max_length=2048, blank=True)  # a DID
    voucher: Any = models.CharField(max_length=2048, blank=True)  # DID of a voucher on the trust path
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
    """A repository's fast lane opened by a maintainer on an estimate, with the displayed figures.

    The figures are those of `scoring.certificates.lane_counts.Offer`. `key` is that of its message in the outbox. It is
    in force until a person ends it or opens another one there, and is kept afterwards.
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
    ended_because: Any = models.CharField(max_length=500, blank=True)  # "" where another opening replaced it

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["repo_key"], condition=models.Q(ended_at=None), name="one_standing_estimated_lane"
            )
        ]


class AuditAnswer(Row):
    """A person's answer whether they would merge a drawn pull request, given before lane and score were shown.

    There is one for each round: anybody answering later has seen the rest. `key` is that of its message in the outbox.
    """

    key: Any = models.CharField(max_length=40, unique=True)
    pull_uri: Any = models.CharField(max_length=2048, db_index=True)
    repo_key: Any = models.CharField(max_length=2048)
    record_cid: Any = models.CharField(max_length=200, blank=True)  # the displayed record; "" where unknown
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
    """A person's statement that an incident needs no more work; deleted when somebody opens it again.

    `mark` is the action that opened the incident; `conclusion` says how it ended, "" of those from before it was asked.
    """

    mark: Any = models.OneToOneField(Action, on_delete=models.CASCADE, related_name="handled")
    person: Any = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True, related_name="handled_incidents")
    handled_at: Any = models.DateTimeField()
    conclusion: Any = models.CharField(max_length=500, blank=True, default="")
