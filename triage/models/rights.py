"""Tables of contributors' rights: links to the data stored about them, objections, wishes."""

from typing import Any

from django.db import models

from triage.models.accounts import Person, Row


class ContributorLink(Row):
    """A signed link that opens one page about one contributor for its holder. Only its hash is stored.

    `pull_uri` is "" for everything stored about them; else the link opens only that decision. `repo_key` is the
    repository as whose maintainer it was made, "" for the whole site.
    """

    class Purpose(models.TextChoices):
        """The one page that it opens."""

        DATA = "data"
        DECISION = "decision"

    did = models.CharField(max_length=2048, db_index=True)
    purpose = models.CharField(max_length=20, choices=Purpose.choices)
    pull_uri = models.CharField(max_length=2048, blank=True)
    repo_key = models.CharField(max_length=2048, blank=True, default="")
    secret_hash = models.CharField(max_length=64, unique=True)
    made_by: Any = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True, related_name="+")
    made_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)


class Objection(Row):
    """A contributor's objection to a decision, or to being scored at all (`pull_uri` ""), and the answer.

    `key` names it to the worker: 'page:' and a random name, or the at-uri of a record once somebody has answered it.
    """

    class State(models.TextChoices):
        """The state of the objection."""

        OPEN = "open"
        ACCEPTED = "accepted"
        REJECTED = "rejected"

    class Source(models.TextChoices):
        """The channel of the objection."""

        LINK = "link"
        SELF = "self"
        MAINTAINER = "maintainer"
        RECORD = "record"

    key = models.CharField(max_length=2048, unique=True)
    did = models.CharField(max_length=2048, db_index=True)
    pull_uri = models.CharField(max_length=2048, blank=True, db_index=True)
    repo_key = models.CharField(max_length=2048, blank=True, db_index=True)
    record_cid = models.CharField(max_length=256, blank=True)
    text = models.TextField()
    source = models.CharField(max_length=20, choices=Source.choices)
    made_at = models.DateTimeField()
    due_at = models.DateTimeField()
    state = models.CharField(max_length=20, choices=State.choices, default=State.OPEN)
    answer = models.TextField(blank=True)
    answered_by: Any = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True, related_name="+")
    answered_at = models.DateTimeField(null=True)


class LeaderboardWish(Row):
    """A contributor's last wish on the leaderboard, to be left out or not, as they or a maintainer gave it here."""

    did = models.CharField(max_length=2048, unique=True)
    left_out = models.BooleanField()
    source = models.CharField(max_length=20, choices=Objection.Source.choices)
    told_at = models.DateTimeField()
