"""Secrets that this site hands out: API tokens, and links that a maintainer hands a contributor.

The token that came with a request is looked up once; one for a repository may read of that one alone. A link is signed,
for one purpose, for 30 days, and revocable. Where no request tells the address of this site, the settings do.
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
from django.db.models import F, Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from triage.access.permissions import Role, Roles
from triage.access.requests import Request
from triage.models import ApiToken, ContributorLink, Person
from triage.models.accounts import log_change

SCOPES = ("read", "review")  # none that acts: what changes something needs a person who is signed in
PREFIX = "sunstead_"  # lets a secret scanner recognise one that leaked
LAST_USED_STEP = timedelta(minutes=1)  # a write for each request would queue readers behind one SQLite writer

# A statement lets other threads in 14 times, more often than all else of a request together: with 8 at once these
# hand-overs were half of its CPU, so a valid token is believed for a second.
BELIEVED = timedelta(seconds=1)
MOST_BELIEVED = 1_000
# With its person, who is read in the same statement: threads share what is believed, and whoever was erased since is
# not looked up again.
VALID = ApiToken.objects.select_related("person").filter(Q(person=None) | Q(person__is_active=True), revoked_at=None)
DAYS = 30
LONGEST = 200  # characters of a token: one of ours has 91 to 95
SIGNER = TimestampSigner(salt="triage.contributor_links", sep=".")
ASK = "Ask the maintainer who sent it for a new one."


class _Believed:
    """Valid tokens by hash, each with the moment at which it was read.

    Forgetting begins another mapping: who read a token before it was revoked keeps it in one that nobody asks again.
    """

    def __init__(self) -> None:
        self.held: dict[str, tuple[ApiToken, datetime]] = {}

    def forget(self) -> None:
        """Believe nothing any more."""
        self.held = {}


_believed = _Believed()


class UnknownScope(ValueError):
    """A scope that does not exist; the message names those that do."""


def new_secret() -> str:
    """256 random bits, safe in a URL."""
    return secrets.token_urlsafe(32)


def secret_hash(secret: str) -> str:
    """SHA-256 in hex. No salt and no stretching: what is hashed has 256 random bits, so nobody can try them all."""
    return hashlib.sha256(secret.encode()).hexdigest()


def same_hash(left: str, right: str) -> bool:
    """Return whether two hashes are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(left, right)


def create_token(
    name: str, scopes: Iterable[str], now: datetime, person: Person | None = None, repo_key: str = ""
) -> str:
    """Make a token, log that, and return its secret, which is not kept; UnknownScope if a scope does not exist.

    `person`: whose it is, None for the operator's. `repo_key`: the one repository that it reads, "" for all.
    """
    wanted = sorted(set(scopes))
    unknown = [scope for scope in wanted if scope not in SCOPES]
    if unknown or not wanted:
        said = f"{', '.join(unknown)!r} is not a scope" if unknown else "A token needs a scope"
        raise UnknownScope(f"{said}; choose from {', '.join(SCOPES)}.")
    secret = PREFIX + new_secret()
    kept = {"name": name, "scopes": wanted, "person": person, "repo_key": repo_key, "made_at": now}
    with transaction.atomic():
        ApiToken.objects.create(secret_hash=secret_hash(secret), **kept)
        log_change(person, "token.made", now, repo_key, name, scopes=", ".join(wanted))
    return secret


def revoke_token(token: ApiToken, by: Person, now: datetime) -> None:
    """End a token and log that; again is harmless. Never within a transaction: others would read and believe it."""
    with transaction.atomic(durable=True):
        if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            log_change(by, "token.revoked", now, str(token.repo_key), str(token.name))
    _believed.forget()


def valid_token(secret: str, now: datetime) -> ApiToken | None:
    """The token with this secret, if it is not revoked and its person may still sign in; notes that it was used.

    What this process revokes is refused once `revoke_token` returns. What else ends a token is seen a second of the
    clock later at most: another process that revokes it, a restored database, a person deactivated or erased.
    """
    hashed, held = secret_hash(secret), _believed.held
    known, read_at = held.get(hashed, (None, now))
    if known is not None and timedelta(0) <= now - read_at < BELIEVED:
        return known
    token = next(iter(VALID.filter(secret_hash=hashed)), None)
    if token is None or not same_hash(token.secret_hash, hashed):
        held.pop(hashed, None)
        return None
    if token.last_used_at is None or now - token.last_used_at >= LAST_USED_STEP:
        with suppress(OperationalError), transaction.atomic():  # a full or read-only drive is no reason not to read
            ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    if len(held) >= MOST_BELIEVED:
        held.clear()
    held[hashed] = (token, now)
    return token


def find_token(secret: str, scope: str, now: datetime) -> ApiToken | None:
    """The same, where it has `scope`."""
    token = valid_token(secret, now)
    return token if token is not None and scope in token.scopes else None


def count_refused(secret: str) -> None:
    """Count the use of a token that was revoked; one that never was is not counted anywhere."""
    revoked = ApiToken.objects.filter(secret_hash=secret_hash(secret), revoked_at__isnull=False)
    if revoked.exists():  # an update takes SQLite's one writer, whether or not it finds a row
        with suppress(OperationalError), transaction.atomic():  # as above: who is refused is refused, counted or not
            revoked.update(refused=F("refused") + 1)


def bearer_secret(request: HttpRequest) -> str:
    """Return what came as a bearer token in the Authorization header; "" for nothing."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def token_of(request: Request) -> ApiToken | None:
    """The valid token that came, whatever its scopes; asked once for a request."""
    if not hasattr(request, "token"):
        secret = bearer_secret(request)
        request.token = valid_token(secret, timezone.now()) if secret else None
    return request.token


def counted_as(token: ApiToken) -> str:
    """Return whom limits count for a token: its person, so that a new token begins no new count, else the token."""
    return f"person:{token.person.pk}" if token.person else f"token:{token.pk}"


def bearer_token(request: Request, scope: str) -> ApiToken | None:
    """The valid token that came, where it has `scope`."""
    token = token_of(request)
    return token if token is not None and scope in token.scopes else None


def held_to(request: Request) -> str:
    """The key of the one repository that whoever asks may read; "" for all.

    A person who is signed in and a site that anybody may read are held to none: without the token they read the same.
    """
    if settings.PUBLIC_READ or request.user.is_authenticated:
        return ""
    token = bearer_token(request, "read")
    return str(token.repo_key) if token is not None else ""


class LinkProblem(Exception):
    """The reason why a link opens nothing: an HTTP status and one sentence for whoever holds it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def make_link(by: Person, did: str, repo_key: str, pull_uri: str, now: datetime) -> str:
    """The token of a new link to a contributor's data, or with `pull_uri` to that decision alone; shown only once.

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
    """The link that this token is, if it opens this page of this contributor at `now`; else LinkProblem.

    What is not ours, another's and of another purpose is 403 in the same words; 410 once it is over.
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
    """Tell whether somebody may take a link back: its maker, and maintainers of the repository it was made for."""
    return link.made_by == by or roles.role(str(link.repo_key)) >= Role.MAINTAINER


def revoke_link(link: ContributorLink, by: Person, now: datetime) -> None:
    """Take a link back; again is harmless."""
    with transaction.atomic():
        if ContributorLink.objects.filter(pk=link.pk, revoked_at=None).update(revoked_at=now):
            log_change(by, "link.revoked", now, str(link.repo_key), str(link.did), purpose=str(link.purpose))


def own_origin() -> str:
    """The first origin of CSRF_TRUSTED_ORIGINS, which a proxy serves, else where the web process listens.

    A wildcard address means every address of this machine, of which loopback is one.
    """
    named = [origin for origin in settings.CSRF_TRUSTED_ORIGINS if "*" not in origin]
    return named[0].rstrip("/") if named else listening_origin()


def listening_origin() -> str:
    """Return where the web process of this machine is reached on it."""
    host, _, port = settings.BIND.rpartition(":")
    reachable = "127.0.0.1" if host in ("0.0.0.0", "[::]", "*", "") else host  # noqa: S104 - compared, not bound
    return f"http://{reachable}:{port}"


def pull_address(uri: str) -> str:
    """The address of a pull request's page here."""
    return own_origin() + reverse("pull", args=[uri])
