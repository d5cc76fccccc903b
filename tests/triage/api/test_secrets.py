"""Secrets that are planted everywhere come out nowhere: no answer, no error, no log, no snapshot."""

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.ingest.erasure.planted import traces
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED
from tests.triage.access.test_permissions import TABLE, Asked, send
from tests.triage.worlds.small_site import OFFERED
from triage.access.sign_in import issue_link
from triage.access.tokens import create_token, make_link
from triage.api import scores
from triage.models import Maintainer, Person
from triage.views.people import contributor

pytestmark = pytest.mark.django_db
NAMED = {  # what only the environment holds
    "ANTHROPIC_API_KEY": "sk-ant-planted-0123456789",
    "ELEVENLABS_API_KEY": "sk_planted-voice",
    "WEBHOOK_URL": "https://hooks.example.test/planted-hook",
    "OTLP_HEADERS": {"Authorization": "Basic planted-traces"},
}
KEYS = ("SECRET_KEY", "AUDIT_KEY", "WEBHOOK_KEY", "PUSH_KEY")


def broken(*args: object) -> None:
    raise RuntimeError("broken on purpose")


@pytest.fixture
def admin(small: Path, settings: Settings) -> Client:
    """Somebody with every role, signed in."""
    settings.REVIEW_WAIT_SECONDS = 0
    person = Person.objects.create(did=SEED)
    Maintainer.objects.create(person=person, role="admin")
    client = Client(raise_request_exception=False)
    client.force_login(person)
    return client


@pytest.fixture
def planted(admin: Client, settings: Settings) -> Mapping[str, str]:
    """One secret of every kind, by name; each opens something but the token that was never made."""
    for name, value in NAMED.items():
        setattr(settings, name, value)
    person, now = Person.objects.get(), timezone.now()
    return {
        "token": create_token("robot", ["read", "review"], now, person),
        "never made": "sunstead_" + "r" * 43,
        "sign-in link": issue_link(person),
        "data link": make_link(person, MARA, REPO, "", now),
        "decision link": make_link(person, MARA, REPO, OFFERED, now),
        "session": str(admin.session.session_key),
        "Claude": "sk-ant-planted-0123456789",
        "ElevenLabs": "sk_planted-voice",
        "webhook": "planted-hook",
        "traces": "planted-traces",
    } | {name: str(getattr(configured, name)) for name in KEYS}


def test_no_secret_comes_out_of_any_address_nor_stands_in_the_log_or_the_snapshot(
    admin: Client, planted: Mapping[str, str], small: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told = [send(admin, Asked.of(line), {}) for name, (line, _) in TABLE.items() if name != "sign_out"]
    assert admin.get("/people").status_code == 200, "signed in to the end"
    for secret in (planted["token"], planted["never made"]):
        client = Client(headers={"authorization": f"Bearer {secret}"}, raise_request_exception=False)
        told += [send(client, Asked.of(line), {}) for line, _ in TABLE.values()]
    assert found_in(told, caplog, planted) == []
    copied = shutil.copytree(small, tmp_path / "copy")  # where rows can be read: their texts lie packed
    assert traces(copied, tuple(planted.values())) == []


def test_a_secret_that_is_the_address_of_a_page_which_is_refused_is_in_no_line_of_the_log(
    planted: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    nobody = Client(enforce_csrf_checks=True)
    opened = [f"/c/{ANA}/data/{planted['data link']}", f"/c/{MARA}/data/{planted['decision link']}"]
    opened += [f"/c/{ANA}/decision/{planted['decision link']}", f"/feed/{planted['never made']}.atom"]
    told = [nobody.get(path) for path in opened]  # another's, of another purpose, another's, nobody's
    assert [answer.status_code for answer in told] == [403, 403, 403, 404]
    told += [nobody.post(f"/sign-in/{planted['sign-in link']}"), nobody.post(opened[0])]
    told += [Client().post(f"/c/{ANA}/objection", {"text": "No", "link": planted["data link"]})]
    assert [answer.status_code for answer in told[4:]] == [403, 403, 403]
    for place in (f"/c/{ANA}/data/", f"/c/{MARA}/data/", f"/c/{ANA}/decision/", "/sign-in/"):
        assert f"{place}(hidden)" in caplog.text
    assert "Not Found: /feed/\n" in caplog.text
    assert found_in(told[-1:], caplog, planted) == []  # the others name their own address, to whoever asked for it


@pytest.mark.parametrize("name", ["data link", "decision link"])
def test_a_page_that_fails_tells_nobody_the_link_that_opened_it(
    name: str, planted: Mapping[str, str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contributor, "_unlisted", broken)  # what both pages end with
    place = f"/c/{MARA}/{name.split()[0]}/"
    failed = Client(raise_request_exception=False).get(place + planted[name])
    assert_fails_without_a_word(failed, caplog, planted)
    assert f"{place}(hidden)" in caplog.text


def test_an_operation_that_fails_tells_nobody_the_token_that_opened_it(
    planted: Mapping[str, str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scores, "read_did", broken)
    failed = Client(headers={"authorization": f"Bearer {planted['token']}"}).get("/score/x")
    assert_fails_without_a_word(failed, caplog, planted)


def assert_fails_without_a_word(failed: Any, caplog: pytest.LogCaptureFixture, planted: Mapping[str, str]) -> None:
    """Assert that it failed on purpose, which the log says and the answer does not, and that neither tells a secret."""
    assert (failed.status_code, "broken on purpose" in failed.content.decode()) == (500, False)
    assert "broken on purpose" in caplog.text
    assert found_in([failed], caplog, planted) == []


def found_in(told: list[Any], caplog: pytest.LogCaptureFixture, planted: Mapping[str, str]) -> list[tuple[str, str]]:
    """The secrets that answers or the log hold, by name, with the beginning of what holds them."""
    out = [repr(answer.headers) + answer.getvalue().decode(errors="replace") for answer in told]
    return [(name, text[:300]) for name, secret in planted.items() for text in (*out, caplog.text) if secret in text]
