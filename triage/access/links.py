"""Makes links that a maintainer hands a contributor: signed, for one purpose, for 30 days, revocable.

Where no request tells the address of this site, it is taken from the settings.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.core.signing import BadSignature, TimestampSigner
from django.db import transaction
from django.urls import reverse

from triage.access.permissions import Role, Roles
from triage.access.tokens import new_secret, same_hash, secret_hash
from triage.models import ContributorLink, Person
from triage.models.change_log import log_change

DAYS = 30
LONGEST = 200  # characters of a token: one of ours has 91 to 95
SIGNER = TimestampSigner(salt="triage.contributor_links", sep=".")
ASK = "Ask the maintainer who sent it for a new one."


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
