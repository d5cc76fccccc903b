"""The token that came with a request: looked up once, and what a token for one repository may read."""

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from triage.models import ApiToken
from triage.requests import Request
from triage.tokens import valid_token


def bearer_secret(request: HttpRequest) -> str:
    """What came as a bearer token in the Authorization header; "" for nothing."""
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
