"""People who come in by a one-time link, as the tests of roles need them."""

from typing import Any

from django.test import Client

from triage.access.sign_in import issue_link
from triage.models import Maintainer, Person


def somebody(did: str, **columns: Any) -> Person:
    return Person.objects.get_or_create(did=did, defaults=columns)[0]


def enter(did: str, client: Client | None = None, **body: str) -> Client:
    """The browser of whoever came in as this DID by a one-time link."""
    client = client or Client()
    client.post(f"/sign-in/{issue_link(somebody(did))}", body)
    return client


def admin(did: str = "did:plc:" + "k" * 24, repo_key: str = "") -> Client:
    Maintainer.objects.create(person=somebody(did), repo_key=repo_key, role="admin")
    return enter(did)


def text(answer: Any) -> str:
    return (b"".join(answer) if answer.streaming else answer.content).decode()


def is_in(client: Client) -> bool:
    return "_auth_user_id" in client.session
