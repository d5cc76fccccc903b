"""Tell maintainers by push what they chose: counts of what is new, at most once an hour, never in their quiet hours.

A message is shown on locked screens, so it holds counts and nothing else: no name, title, repository or reason. What
came is read from the noted state (`triage.services.notifying.webhooks`), so what was undone meanwhile is not told.

A browser has one waiting message at most: what comes later is counted into it. A person counts as told once a push
service accepted a message, so what was given up is counted into the next one.

Addresses come from browsers and are strangers' words: they are called through the guarded fetcher alone, each message
a bounded number of times. A browser that its push service no longer knows is forgotten at once.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q
from django.urls import reverse

from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.push.message import (
    Browser,
    MalformedSubscription,
    authorize,
    encode_text,
    encrypt,
    make_key,
    private_key,
    public_text,
    read_browser,
)
from scoring.formatting import things
from triage.access.permissions import Role, Roles, roles_of
from triage.models import Action, Delivery, OAuthSession, Person, PushChoice, PushSubscription, Snooze, ToldState
from triage.services.notifying.sending import Now, new_id, send_waiting

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

Event = Literal["flagged", "audit", "closed"]
EVENTS: tuple[Event, ...] = ("flagged", "audit", "closed")
NOTED: Mapping[Event, Q] = {
    "flagged": Q(kind="lane", value="needs_human"),
    "audit": Q(kind="audit"),
    "closed": Q(kind="gate", value="closed") | Q(kind="closure", value__in=("site", "repository")),
}
QUIET_FROM, QUIET_UNTIL, ZONE = 22, 7, "UTC"  # of somebody who chose nothing yet
APART = timedelta(hours=1)  # between two pushes to one person
LIFETIME = timedelta(hours=12)  # of a message, which also ends with the next quiet hours
MOST_BROWSERS = 5  # of one person
MOST_LOST = 5  # messages given up, and none accepted, of those that are kept: then the browser is forgotten
GONE = (404, 410)
TOPIC = "sunstead"  # a message replaces the one that still waits at the push service (RFC 8030, section 5.4)
SECONDS, ANSWER_LIMIT = 5.0, 16 * 1024  # of one request, and bytes of its answer


class PushProblem(Exception):
    """This browser cannot be told; the message is one sentence with the remedy."""


def is_offered() -> bool:
    """Return whether this site sends pushes: browsers take them over https alone, and services ask who sends."""
    return bool(settings.PUBLIC_ORIGIN)


def is_wanted() -> bool:
    """Return whether anybody is told by push. Forgets browsers that may not be told any more."""
    if PushSubscription.objects.exists():
        _forget_refused()
    return is_offered() and PushSubscription.objects.exists()


def site_key() -> str:
    """Return the public key that a browser is given when it subscribes."""
    return public_text(_key())


def subscribe(
    person: Person, browser: Browser, name: str, time_zone: str, now: datetime, session: OAuthSession | None = None
) -> PushSubscription:
    """Have a person told in this browser, too, until `session` ends. Raises PushProblem.

    `time_zone` counts where they chose nothing yet. Whoever signs in after somebody else in the same browser takes it
    over, without what waits there; an address with other keys is not theirs.
    """
    keys = {"p256dh": encode_text(browser.point), "auth": encode_text(browser.secret)}
    fields = {**keys, "person": person, "server_key": site_key(), "browser": name, "made_at": now}
    fields["oauth_session"] = session
    with transaction.atomic():
        known = PushSubscription.objects.filter(endpoint=browser.endpoint).first()
        if known is not None and (known.p256dh, known.auth) != (keys["p256dh"], keys["auth"]):
            raise PushProblem("This browser's address belongs to another subscription. Load the page and try again.")
        others = PushSubscription.objects.filter(person=person).exclude(endpoint=browser.endpoint)
        if others.count() >= MOST_BROWSERS:
            raise PushProblem(f"You are told in {MOST_BROWSERS} browsers already. End one of them first.")
        choice = choice_of(person, now, time_zone)
        if not others.exists():
            choice.told_at = now  # what came while no browser was told is old
        choice.save()
        if known is not None and known.person_id != person.pk:
            known.deliveries.all().delete()
        row, _ = PushSubscription.objects.update_or_create(endpoint=browser.endpoint, defaults=fields)
    return row


def choice_of(person: Person, now: datetime, time_zone: str = ZONE) -> PushChoice:
    """Return what a person chose, or else an unsaved choice of everything."""
    saved = PushChoice.objects.filter(person=person).first()
    hours = {"quiet_from": QUIET_FROM, "quiet_until": QUIET_UNTIL, "time_zone": time_zone}
    return saved or PushChoice(person=person, events=sorted(EVENTS), told_at=now, **hours)


def choose(
    person: Person, events: Iterable[Event], quiet: tuple[int, int], time_zone: str, now: datetime
) -> PushChoice:
    """Save what a person is told of and when not; of what they choose anew they are told from now on."""
    with transaction.atomic():
        choice, chosen = choice_of(person, now), sorted(events)
        if not set(chosen) <= set(choice.events):
            choice.told_at = now
        choice.events = chosen
        Delivery.objects.filter(subscription__person=person).exclude(due_at=None).delete()
        (choice.quiet_from, choice.quiet_until), choice.time_zone = quiet, time_zone
        choice.save()
    return choice


def note_pushes(now: datetime) -> int:
    """Write one message to each browser of everybody who is due one, or into what waits there; return how many."""
    choices = PushChoice.objects.filter(person__push_subscriptions__isnull=False).distinct()
    return sum(_note(choice, now) for choice in choices.select_related("person") if _is_due(choice, now))


def send_pushes(fetcher: Fetcher, now: Now) -> int:
    """Send what is due to browsers; return how many messages their services accepted."""
    rows = Delivery.objects.exclude(subscription=None).select_related("subscription")
    return send_waiting(rows, partial(_send, fetcher, _key()), now)


def waits() -> bool:
    """Return whether a message waits for a browser."""
    return Delivery.objects.exclude(subscription=None).exclude(due_at=None).exists()


def words_of(counts: Mapping[Event, int]) -> str:
    """Return the sentences of a message from how many of each event came."""
    sentences = {
        "flagged": things(counts.get("flagged", 0), "pull request needs", "pull requests need") + " a human.",
        "audit": things(counts.get("audit", 0), "audit is due.", "audits are due."),
        "closed": f"The fast lane was closed in {things(counts.get('closed', 0), 'place')}.",
    }
    return " ".join(sentences[event] for event in EVENTS if counts.get(event))


def is_quiet(choice: PushChoice, now: datetime) -> bool:
    """Return whether now is in the quiet hours of whoever chose."""
    first, end, hour = choice.quiet_from, choice.quiet_until, now.astimezone(_zone(choice)).hour
    return first <= hour < end if first <= end else hour >= first or hour < end


def _is_due(choice: PushChoice, now: datetime) -> bool:
    return (choice.pushed_at is None or now >= choice.pushed_at + APART) and not is_quiet(choice, now)


def _note(choice: PushChoice, now: datetime) -> int:
    """Write the messages of one person in one transaction."""
    counts = _count(choice, roles_of(choice.person), now)
    if not counts:
        return 0
    with transaction.atomic():
        browsers = PushSubscription.objects.filter(person=choice.person)
        message = {"made_at": now, "body": _body(counts)}
        times = {"due_at": now, "ends_at": _end_of(choice, now)}
        for browser in browsers:
            if not browser.deliveries.exclude(due_at=None).update(**message):
                Delivery.objects.create(key=new_id(), event="push", subscription=browser, **message, **times)
        PushChoice.objects.filter(pk=choice.pk).update(pushed_at=now)
    return len(browsers)


def _count(choice: PushChoice, roles: Roles, now: datetime) -> Counter[Event]:
    """Count what came since the person was told and waits for somebody, in the repositories that they maintain."""
    acted = Action.objects.filter(pull_uri=OuterRef("key"), undone_at=None, made_at__gte=OuterRef("since"))
    acted = acted.exclude(kind=Action.Kind.ANSWER)  # the author's own
    snoozed = Snooze.objects.filter(Q(until=None) | Q(until__gt=now), pull_uri=OuterRef("key"))
    counts = Counter[Event]()
    for event in EVENTS:
        if event in choice.events:
            came = ToldState.objects.filter(NOTED[event], since__gt=choice.told_at)
            came = came.exclude(Exists(acted)).exclude(Exists(snoozed))
            keys = came.values_list("repo_key", flat=True)
            counts[event] = sum(not key or roles.role(key) >= Role.MAINTAINER for key in keys)
    return +counts


def _body(counts: Counter[Event]) -> str:
    paths = {"flagged": f"{reverse('queue')}?bucket=needs_human", "audit": reverse("audits"), "closed": reverse("lane")}
    path = paths[next(iter(counts))] if len(counts) == 1 else reverse("queue")
    return json.dumps({"text": words_of(counts), "path": path})


def _end_of(choice: PushChoice, now: datetime) -> datetime:
    """Return when a message ends: with the next quiet hours, in which a phone that was off would otherwise show it."""
    if choice.quiet_from == choice.quiet_until:
        return now + LIFETIME
    local = now.astimezone(_zone(choice))
    quiet = local.replace(hour=choice.quiet_from, minute=0, second=0, microsecond=0)
    return min(now + LIFETIME, quiet if quiet > local else quiet + timedelta(days=1))


def _send(fetcher: Fetcher, key: "EllipticCurvePrivateKey", delivery: Delivery, now: datetime) -> tuple[str, float]:
    """Try one message, as `sending.Send` says; forget a browser that its service no longer knows."""
    row, seconds = delivery.subscription, int((delivery.ends_at - now).total_seconds())
    if seconds <= 0:
        return "it waited for too long", 0.0
    host = urlsplit(row.endpoint).hostname
    try:
        browser = read_browser(row.endpoint, row.p256dh, row.auth)
        body = encrypt(delivery.body.encode(), browser, make_key(), os.urandom(16))
        headers = _headers(authorize(key, browser.endpoint, _contact(), int(now.timestamp())), seconds)
        answer = fetcher.exchange("POST", browser.endpoint, headers, body, ANSWER_LIMIT, SECONDS)
    except FetchProblem as problem:
        if problem.closed:
            raise
        if problem.status in GONE:
            row.delete()
        return f"{host} answered {problem.status}" if problem.status else str(problem)[:300], problem.after or 0.0
    except MalformedSubscription as problem:
        row.delete()
        return str(problem), 0.0
    if answer.status in GONE:
        row.delete()
    if answer.status >= 400:
        return f"{host} answered {answer.status}", 0.0
    PushChoice.objects.filter(person=row.person_id).update(told_at=delivery.made_at, pushed_at=now)
    return "", 0.0


def _headers(authorization: str, seconds: int) -> Mapping[str, str]:
    return {
        "Authorization": authorization,
        "TTL": str(seconds),
        "Urgency": "normal",
        "Topic": TOPIC,
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
    }


def _contact() -> str:
    return str(settings.OPERATOR_CONTACT or settings.PUBLIC_ORIGIN)


def _key() -> "EllipticCurvePrivateKey":
    return private_key(str(settings.PUSH_KEY))


def _zone(choice: PushChoice) -> ZoneInfo:
    """Return the time zone that was chosen, or UTC where this machine does not know it any more."""
    try:
        return ZoneInfo(choice.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo(ZONE)


def _forget_refused() -> None:
    """Delete browsers of people who maintain nothing, of ended sessions or another key, and those that take nothing."""
    PushSubscription.objects.filter(oauth_session__ended_at__isnull=False).delete()
    PushSubscription.objects.exclude(server_key=site_key()).delete()
    people = Person.objects.filter(push_subscriptions__isnull=False).distinct()
    refused = [person.pk for person in people if roles_of(person).highest() < Role.MAINTAINER]
    PushSubscription.objects.filter(person__in=refused).delete()
    given_up, accepted = Q(deliveries__given_up_at__isnull=False), Q(deliveries__delivered_at__isnull=False)
    counted = PushSubscription.objects.annotate(lost=Count("pk", filter=given_up), told=Count("pk", filter=accepted))
    dead = list(counted.filter(lost__gte=MOST_LOST, told=0).values_list("pk", flat=True))
    PushSubscription.objects.filter(pk__in=dead).delete()
