"""Links that a maintainer hands to a contributor, and what the contributor sends by one."""

from datetime import timedelta
from html import unescape
from typing import Any

from django.test import Client
from django.utils import timezone

from tests.ingest.stream.frames import MARA, REPO, SEED
from tests.triage.worlds.small_site import OFFERED
from triage.access.tokens import make_link
from triage.models import Person

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202egpj {{ settings.SECRET_KEY }}"


def data_address(token: str, did: str = MARA) -> str:
    return f"/c/{did}/data/{token}"


def link(by: Person, pull: str = "", did: str = MARA, days_ago: float = 0) -> str:
    return make_link(by, did, REPO, pull, timezone.now() - timedelta(days=days_ago))


def keeper(client: Client, did: str = SEED) -> Client:
    client.force_login(Person.objects.get(did=did))
    return client


def text(answer: Any) -> str:
    return unescape(answer.content.decode())


def objecting(client: Client, token: str, said: str = "I object.", pull: str = OFFERED) -> Any:
    return client.post(f"/c/{MARA}/objection", {"link": token, "text": said, "pull": pull})
