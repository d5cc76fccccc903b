"""Tables of signing in with an AT Protocol account: attempts that are under way, and sessions.

Every secret of a row is in `sealed`, encrypted by `triage.access.oauth.encryption` under the row's own id.
"""

import uuid
from typing import Any

from django.db import models

from triage.models.accounts import Person, Row


class OAuthRequest(Row):
    """An attempt to sign in: a browser was sent to its authorization server and is awaited once.

    `state_hash` and `browser_hash` are SHA-256 of what comes back in the address and in the browser's cookie. `key_id`
    names the client's key ("" for the public client). `purpose` is "" for a sign-in, "service" where an admin connects
    the account as which the site publishes.
    """

    id: Any = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    state_hash = models.CharField(max_length=64, unique=True)
    browser_hash = models.CharField(max_length=64)
    did: Any = models.CharField(max_length=2048, db_index=True)
    client_id: Any = models.CharField(max_length=2048)
    key_id: Any = models.CharField(max_length=64, blank=True)
    next: Any = models.CharField(max_length=2048)
    purpose: Any = models.CharField(max_length=20, blank=True, default="")
    sealed: Any = models.BinaryField()
    expires_at: Any = models.DateTimeField(db_index=True)


class OAuthSession(Row):
    """A session that a person's authorization server granted to this site, from one browser.

    It is bound for life to the client (`client_id`) and the client's key (`key_id`, "" for the public client) that
    began it. `scope`: what was granted. Whoever writes their `lease` while `lease_until` is past may refresh the
    tokens. An ended session is kept until its server was told; then `lease_until` is when that was last tried.
    """

    class Ended(models.TextChoices):
        """The reason why a session ended."""

        PERSON = "person"  # signed out, or ended from the list
        SERVER = "server"  # the authorization server takes its tokens no more
        ACCOUNT = "account"  # the account here was switched off
        SECRET = "secret"  # noqa: S105 - the secrets cannot be decrypted, or their key is gone

    id: Any = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="oauth_sessions")
    issuer: Any = models.CharField(max_length=2048)
    server: Any = models.CharField(max_length=2048)  # origin of the person's data server
    client_id: Any = models.CharField(max_length=2048)
    key_id: Any = models.CharField(max_length=64, blank=True)
    scope: Any = models.TextField()
    browser: Any = models.CharField(max_length=100)  # such as "Firefox on Linux"
    sealed: Any = models.BinaryField()
    tokens_expire_at: Any = models.DateTimeField()
    lease = models.CharField(max_length=64, blank=True, default="")
    lease_until: Any = models.DateTimeField()
    made_at: Any = models.DateTimeField()
    last_used_at: Any = models.DateTimeField()
    ended_at: Any = models.DateTimeField(null=True, db_index=True)
    ended_because: Any = models.CharField(max_length=20, choices=Ended.choices, blank=True, default="")
