"""Tables of push notifications: what a person is told of and when, and the browsers that they are told in."""

from typing import Any

from django.contrib.sessions.backends.base import SessionBase
from django.db import models

from triage.models.accounts import Person, Row
from triage.models.oauth import OAuthSession

IN_BROWSER = "push_subscription"  # key in a browser's session: the number of its row here


class PushChoice(Row):
    """What one person is told of by push, and when not.

    `events` is a sorted list from `triage.services.notifying.push.EVENTS`. No push comes from the hour
    `quiet_from` until the hour `quiet_until` in `time_zone`; equal hours: at any time. Changes up to
    `told_at` were accepted by a push service, or are not to be told.
    """

    person: Any = models.OneToOneField(Person, on_delete=models.CASCADE, related_name="push_choice")
    events: Any = models.JSONField(default=list)
    quiet_from: Any = models.PositiveSmallIntegerField()
    quiet_until: Any = models.PositiveSmallIntegerField()
    time_zone: Any = models.CharField(max_length=64)
    told_at: Any = models.DateTimeField()
    pushed_at: Any = models.DateTimeField(null=True)


class PushSubscription(Row):
    """A browser in which a person is told, by the address and the keys that it sent (RFC 8291, base64url).

    Whoever knows the address can send there, so it is shown nowhere. `server_key` is the public key of this site with
    which it was made; the browser takes messages of no other. `browser` names it in words of our own. It ends with
    `oauth_session`, which is null where the person signed in otherwise.
    """

    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="push_subscriptions")
    oauth_session: Any = models.ForeignKey(
        OAuthSession, null=True, on_delete=models.CASCADE, related_name="push_subscriptions"
    )
    endpoint: Any = models.CharField(max_length=1_000, unique=True)
    p256dh: Any = models.CharField(max_length=100)
    auth: Any = models.CharField(max_length=100)
    server_key: Any = models.CharField(max_length=100)
    browser: Any = models.CharField(max_length=100)
    made_at: Any = models.DateTimeField()


def forget_browser(session: SessionBase, keep: Person | None = None) -> None:
    """End the notifications in the browser of this session, if it has any and they are not those of `keep`."""
    PushSubscription.objects.filter(pk=session.get(IN_BROWSER)).exclude(person=keep).delete()
