"""Secrets that this site hands out: how they are made, kept and recognised."""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import Q

from triage.models import ApiToken, Person

SCOPES = ("read", "review", "act")
PREFIX = "sunstead_"  # lets a secret scanner recognise one that leaked
LAST_USED_STEP = timedelta(minutes=1)  # a write for each request would queue readers behind one SQLite writer


class UnknownScope(ValueError):
    """A scope that does not exist; the message names those that do."""


def new_secret() -> str:
    """256 random bits, safe in a URL."""
    return secrets.token_urlsafe(32)


def secret_hash(secret: str) -> str:
    """SHA-256 in hex. No salt and no stretching: what is hashed has 256 random bits, so nobody can try them all."""
    return hashlib.sha256(secret.encode()).hexdigest()


def same_hash(left: str, right: str) -> bool:
    """Whether two hashes are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(left, right)


def create_token(name: str, scopes: Iterable[str], now: datetime, person: Person | None = None) -> str:
    """Make a token and return its secret, which is not kept; UnknownScope if a scope does not exist."""
    wanted = sorted(set(scopes))
    unknown = [scope for scope in wanted if scope not in SCOPES]
    if unknown or not wanted:
        said = f"{', '.join(unknown)!r} is not a scope" if unknown else "A token needs a scope"
        raise UnknownScope(f"{said}; choose from {', '.join(SCOPES)}.")
    secret = PREFIX + new_secret()
    ApiToken.objects.create(name=name, scopes=wanted, person=person, made_at=now, secret_hash=secret_hash(secret))
    return secret


def find_token(secret: str, scope: str, now: datetime) -> ApiToken | None:
    """The token with this secret, if it is not revoked, has `scope` and its person may still sign in."""
    hashed = secret_hash(secret)
    active = Q(person__isnull=True) | Q(person__is_active=True)
    token = ApiToken.objects.filter(active, secret_hash=hashed, revoked_at=None).first()
    if token is None or not same_hash(token.secret_hash, hashed) or scope not in token.scopes:
        return None
    if token.last_used_at is None or now - token.last_used_at >= LAST_USED_STEP:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token
