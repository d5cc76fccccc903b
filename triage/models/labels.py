"""The table of labels of `com.atproto.label`, which the label server reads (`ingest/labels/table.py`)."""

from typing import Any, ClassVar

from django.db import models

from triage.models.accounts import Row


class Label(Row):
    """A label in force, or what took one back (`neg`); `seq` is its place in the stream and when it was made.

    `seq` and `exp` are microseconds since 1970. A negation stays until `exp`, when the label that it takes back would
    have expired with everybody who read it. `signer` names the DID and the key of `sig`, "" before the first sending.
    """

    seq: Any = models.BigIntegerField(primary_key=True)
    uri: Any = models.CharField(max_length=2048)
    cid: Any = models.CharField(max_length=200)
    val: Any = models.CharField(max_length=128)
    neg: Any = models.BooleanField(default=False)
    exp: Any = models.BigIntegerField(db_index=True)
    signer: Any = models.CharField(max_length=400, blank=True)
    sig: Any = models.BinaryField(default=b"")

    class Meta:
        indexes: ClassVar = [models.Index(fields=["uri"], name="label_uri")]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["uri"], condition=models.Q(neg=False), name="one_label_in_force")
        ]
