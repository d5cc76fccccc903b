"""Secrets that this site gives out: API tokens, and a maintainer's links for contributors.

A request's token is looked up once; a token for one repository reads only that one. A link is signed, valid for one
purpose and 30 days, and can be revoked. Without a request the settings give the address of this site.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from django.conf import settings
from django.core.signing import BadSignature, TimestampSigner
from django.db import OperationalError, transaction
from django.db.models import Exists, F, OuterRef, Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from triage.access.permissions import Role, Roles, is_invited
from triage.access.requests import Request
from triage.models import ApiToken, ContributorLink, Maintainer, Person
from triage.models.accounts import log_change

SCOPES = ("read", "review")  # no scope acts: changes need a signed-in person
PREFIX = "sunstead_"  # lets secret scanners recognise a leaked token
LAST_USED_STEP = timedelta(minutes=1)  # a write per request would queue readers behind SQLite's one writer

# A statement lets other threads run 14 times, more often than the rest of a request together: with 8 at once these
# switches were half of its CPU, so a valid token is trusted for a second.
BELIEVED = timedelta(seconds=1)
MOST_BELIEVED = 1_000
# The person is read in the same statement: threads share the cached token, and an erased person is not looked up again.
# A token reads as its person does, so one of somebody without a role opens nothing.
READS = Q(person__is_active=True) & Exists(Maintainer.objects.filter(person=OuterRef("person")))
VALID = ApiToken.objects.select_related("person").filter(Q(person=None) | READS, revoked_at=None)
DAYS = 30
LONGEST = 200  # characters of a token: ours have 91 to 95
SIGNER = TimestampSigner(salt="triage.contributor_links", sep=".")
ASK = "Ask the maintainer who sent it for a new one."


class _TokenCache:
    """Valid tokens by hash, each with the time at which it was read.

    `forget` starts another mapping: a thread that read a token before its revocation stores it in one that is no longer
    used.
    """

    def __init__(self) -> None:
        self.held: dict[str, tuple[ApiToken, datetime]] = {}

    def forget(self) -> None:
        """Forget all cached tokens."""
        self.held = {}


_believed = _TokenCache()


class UnknownScope(ValueError):
    """A scope that does not exist; the message names the valid ones."""


def new_secret() -> str:
    """Return 256 random bits, safe in a URL."""
    return secrets.token_urlsafe(32)


def secret_hash(secret: str) -> str:
    """Return the SHA-256 in hex. It needs no salt and no stretching: a secret has 256 random bits, too many to try."""
    return hashlib.sha256(secret.encode()).hexdigest()


def same_hash(left: str, right: str) -> bool:
    """Return whether two hashes are equal, in a time independent of where they differ."""
    return hmac.compare_digest(left, right)


def create_token(
    name: str, scopes: Iterable[str], now: datetime, person: Person | None = None, repo_key: str = ""
) -> str:
    """Create and log a token, and return its secret, which is not stored; UnknownScope if a scope does not exist.

    `person`: its owner, None for the operator. `repo_key`: the one repository that it reads, "" for all.
    """
    sorted_scopes = sorted(set(scopes))
    unknown = [scope for scope in sorted_scopes if scope not in SCOPES]
    if unknown or not sorted_scopes:
        problem = f"{', '.join(unknown)!r} is not a scope" if unknown else "A token needs a scope"
        raise UnknownScope(f"{problem}; choose from {', '.join(SCOPES)}.")
    secret = PREFIX + new_secret()
    columns = {"name": name, "scopes": sorted_scopes, "person": person, "repo_key": repo_key, "made_at": now}
    with transaction.atomic():
        ApiToken.objects.create(secret_hash=secret_hash(secret), **columns)
        log_change(person, "token.made", now, repo_key, name, scopes=", ".join(sorted_scopes))
    return secret


def revoke_token(token: ApiToken, by: Person, now: datetime) -> None:
    """Revoke and log a token; repeating it is harmless.

    Never call it within a transaction: others would read and cache it.
    """
    with transaction.atomic(durable=True):
        if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            log_change(by, "token.revoked", now, str(token.repo_key), str(token.name))
    _believed.forget()


def valid_token(secret: str, now: datetime) -> ApiToken | None:
    """Return the token with this secret, unless it is revoked or its person may not read; note that it was used.

    A revocation in this process applies once `revoke_token` returns. Other causes apply within a second: a revocation
    in another process, a restored database, a person deactivated, erased or left without a role.
    """
    hashed, cache = secret_hash(secret), _believed.held
    cached, read_at = cache.get(hashed, (None, now))
    if cached is not None and timedelta(0) <= now - read_at < BELIEVED:
        return cached
    token = next(iter(VALID.filter(secret_hash=hashed)), None)
    if token is None or not same_hash(token.secret_hash, hashed):
        cache.pop(hashed, None)
        return None
    if token.last_used_at is None or now - token.last_used_at >= LAST_USED_STEP:
        with suppress(OperationalError), transaction.atomic():  # a full or read-only drive must not prevent reading
            ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    if len(cache) >= MOST_BELIEVED:
        cache.clear()
    cache[hashed] = (token, now)
    return token


def find_token(secret: str, scope: str, now: datetime) -> ApiToken | None:
    """Return the valid token with this secret, where it has `scope`."""
    token = valid_token(secret, now)
    return token if token is not None and scope in token.scopes else None


def count_refused(secret: str) -> None:
    """Count the use of a revoked token; unknown tokens are not counted."""
    revoked = ApiToken.objects.filter(secret_hash=secret_hash(secret), revoked_at__isnull=False)
    if revoked.exists():  # an update takes SQLite's one writer, whether or not it finds a row
        with suppress(OperationalError), transaction.atomic():  # the refusal does not depend on the count
            revoked.update(refused=F("refused") + 1)


def bearer_secret(request: HttpRequest) -> str:
    """Return the bearer token of the Authorization header; "" for none."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def token_of(request: Request) -> ApiToken | None:
    """Return the request's valid token, with any scopes; looked up once for a request."""
    if not hasattr(request, "token"):
        secret = bearer_secret(request)
        request.token = valid_token(secret, timezone.now()) if secret else None
    return request.token


def counted_as(token: ApiToken) -> str:
    """Return the key of a token's limits: its person, so that a new token starts no new count, else the token."""
    return f"person:{token.person.pk}" if token.person else f"token:{token.pk}"


def bearer_token(request: Request, scope: str) -> ApiToken | None:
    """Return the request's valid token, where it has `scope`."""
    token = token_of(request)
    return token if token is not None and scope in token.scopes else None


def held_to(request: Request) -> str:
    """Return the key of the one repository that the caller may read; "" for all.

    Signed-in readers and callers of a public site are not limited: without the token they could read the same.
    """
    if settings.PUBLIC_READ or is_invited(request):
        return ""
    token = bearer_token(request, "read")
    return str(token.repo_key) if token is not None else ""


class LinkProblem(Exception):
    """The reason why a link opens nothing: an HTTP status and one sentence for its holder."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def make_link(by: Person, did: str, repo_key: str, pull_uri: str, now: datetime) -> str:
    """Return the token of a new link to a contributor's data, or with `pull_uri` to that decision.

    It is shown only once.

    `repo_key` is the repository as whose maintainer somebody makes it, "" for the whole site.
    """
    purpose = ContributorLink.Purpose.DECISION if pull_uri else ContributorLink.Purpose.DATA
    token = SIGNER.sign(f"{purpose}~{new_secret()}")
    with transaction.atomic():
        ContributorLink.objects.create(
            did=did,
            purpose=purpose,
            pull_uri=pull_uri,
            repo_key=repo_key,
            secret_hash=secret_hash(token),
            made_by=by,
            made_at=now,
            expires_at=now + timedelta(days=DAYS),
        )
        log_change(by, "link.made", now, repo_key, did, purpose=purpose, pull_uri=pull_uri)
    return token


def open_link(token: str, did: str, purpose: str, now: datetime) -> ContributorLink:
    """Return the link of this token, if it opens this page of this contributor at `now`; else raise LinkProblem.

    Foreign tokens, other contributors' links and links of another purpose are 403 with one sentence; 410 once it has
    expired.
    """
    if len(token) > LONGEST:
        raise LinkProblem(403, f"This link opens nothing here. {ASK}")
    try:
        signed_for = SIGNER.unsign(token).partition("~")[0]
    except BadSignature as problem:
        raise LinkProblem(403, f"This link opens nothing here. {ASK}") from problem
    hashed = secret_hash(token)
    link = ContributorLink.objects.filter(secret_hash=hashed, did=did, purpose=purpose).first()
    if link is None or not same_hash(link.secret_hash, hashed) or signed_for != purpose:
        raise LinkProblem(403, f"This link opens nothing here. {ASK}")
    if link.revoked_at is not None:
        raise LinkProblem(410, f"This link was revoked. {ASK}")
    if link.expires_at <= now:
        raise LinkProblem(410, f"This link has expired. {ASK}")
    return link


def may_revoke(link: ContributorLink, by: Person, roles: Roles) -> bool:
    """Return whether somebody may revoke a link: its maker, or a maintainer of its repository."""
    return link.made_by == by or roles.role(str(link.repo_key)) >= Role.MAINTAINER


def revoke_link(link: ContributorLink, by: Person, now: datetime) -> None:
    """Revoke a link; repeating it is harmless."""
    with transaction.atomic():
        if ContributorLink.objects.filter(pk=link.pk, revoked_at=None).update(revoked_at=now):
            log_change(by, "link.revoked", now, str(link.repo_key), str(link.did), purpose=str(link.purpose))


def own_origin() -> str:
    """Return PUBLIC_ORIGIN, else the first origin of CSRF_TRUSTED_ORIGINS, else where the web process listens.

    A wildcard address covers every address of this machine, including loopback.
    """
    if settings.PUBLIC_ORIGIN:
        return str(settings.PUBLIC_ORIGIN)
    origins = [origin for origin in settings.CSRF_TRUSTED_ORIGINS if "*" not in origin]
    return origins[0].rstrip("/") if origins else listening_origin()


def listening_origin() -> str:
    """Return the local address of this machine's web process."""
    host, _, port = settings.BIND.rpartition(":")
    reachable = "127.0.0.1" if host in ("0.0.0.0", "[::]", "*", "") else host  # noqa: S104 - compared, not bound
    return f"http://{reachable}:{port}"


def pull_address(uri: str) -> str:
    """Return the address of a pull request's page on this site."""
    return own_origin() + reverse("pull", args=[uri])


def author_address(uri: str) -> str:
    """Return the address at which a pull request's author answers; whoever else opens it learns what anybody may."""
    return own_origin() + reverse("own_decision", args=[uri])
