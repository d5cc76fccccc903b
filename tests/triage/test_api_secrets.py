"""Secrets that are planted everywhere come out nowhere: no answer, no error, no log, no snapshot."""

import logging
import shutil
from pathlib import Path

import pytest
from django.conf import settings as configured
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.ingest.planted import traces
from tests.ingest.stream import SEED
from tests.triage.test_permissions import TABLE, Asked, send
from triage.access import issue_link
from triage.api import scores
from triage.models import Maintainer, Person
from triage.tokens import create_token

pytestmark = pytest.mark.django_db
KEY = "sk-ant-planted-0123456789"


def test_no_secret_comes_out_of_any_address_nor_stands_in_the_log(
    small: Path, tmp_path: Path, settings: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    settings.ANTHROPIC_API_KEY = KEY
    settings.REVIEW_WAIT_SECONDS = 0
    seed = Person.objects.create(did=SEED)
    Maintainer.objects.create(person=seed, role="admin")
    token = create_token("robot", ["read", "review"], timezone.now(), seed)
    revoked, link = "sunstead_" + "r" * 43, issue_link(seed)
    planted = [token, revoked, link, KEY, str(configured.SECRET_KEY)]
    told = []

    def broken(*args: object) -> None:
        raise RuntimeError("broken on purpose")

    for secret in (token, revoked):
        client = Client(headers={"authorization": f"Bearer {secret}"}, raise_request_exception=False)
        told += [send(client, Asked.of(line), {}) for line, _ in TABLE.values()]
    refused = Client(enforce_csrf_checks=True).post(f"/sign-in/{link}")  # whoever holds a link may read it in its page
    assert refused.status_code == 403
    assert "(hidden)" in caplog.text
    monkeypatch.setattr(scores, "read_did", broken)
    failed = Client(headers={"authorization": f"Bearer {token}"}).get("/score/x")
    assert (failed.status_code, "broken on purpose" in failed.content.decode()) == (500, False)
    assert "broken on purpose" in caplog.text
    out = [repr(answer.headers) + answer.getvalue().decode(errors="replace") for answer in (*told, failed)]
    for secret in planted:
        assert [text[:300] for text in (*out, caplog.text) if secret in text] == []
    assert traces(shutil.copytree(small, tmp_path / "copy"), tuple(planted)) == []  # rows are read too: they lie packed
