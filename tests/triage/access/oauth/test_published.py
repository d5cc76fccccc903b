"""The documents that data servers fetch from this site's public address, as the doctor sees them from outside."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from ingest.http.fetcher import Fetcher
from tests.ingest.oauth.hostile_server import as_json
from tests.ingest.peer import Answer, Peer, Request, response
from triage.access.oauth.keys import add_key
from triage.access.oauth.published import check_documents

pytestmark = pytest.mark.django_db
METADATA, JWKS = "/oauth/client-metadata.json", "/oauth/jwks.json"
HOST = "triage.sunstead.org"
ORIGIN = f"https://{HOST}"


def answer_honestly(request: Request) -> bytes:
    answer = Client(headers={"host": HOST}).get(request.path)
    return response(answer.content, answer.status_code, Content_Type=answer["Content-Type"])


@pytest.fixture
def twists(settings: Settings, tmp_path: Path) -> dict[str, Callable[[Request], Answer]]:
    """The site at a public address; a test puts in what answers instead, by path."""
    settings.PUBLIC_ORIGIN, settings.ALLOWED_HOSTS = ORIGIN, [HOST]
    settings.OAUTH_CLIENT_KEYS = tmp_path / "keys" / "oauth_client.json"
    return {}


@pytest.fixture
def fetcher(twists: dict[str, Callable[[Request], Answer]]) -> Iterator[Fetcher]:
    with Peer(lambda request: twists.get(request.path, answer_honestly)(request)) as peer:
        fetcher = Fetcher(peer.origin)
        yield fetcher
        fetcher.close()


def test_documents_that_are_ours_are_found_and_looking_makes_no_key(twists: dict[str, Any], fetcher: Fetcher) -> None:
    twists[JWKS] = lambda _: as_json({"keys": []})
    ok, sentence = check_documents(ORIGIN, fetcher)
    assert (ok, "has other keys than" in sentence) == (False, True)
    assert not configured.OAUTH_CLIENT_KEYS.exists()
    del twists[JWKS]
    assert check_documents(ORIGIN, fetcher) == (True, f"data servers find this site at {ORIGIN}")


def changed_metadata(_: Request) -> bytes:
    answer = Client(headers={"host": HOST}).get(METADATA).json()
    return as_json(answer | {"jwks_uri": "https://elsewhere.example.org/jwks.json", "scope": "atproto"})


@pytest.mark.parametrize(
    ("path", "twist", "sentence"),
    [
        (METADATA, lambda _: response(b"", 302, Location="https://elsewhere.example.org/"), "cannot be read"),
        (METADATA, lambda _: response(b"", 502), "cannot be read"),
        (METADATA, lambda _: response(b"", 401), "answers 401: the proxy has to pass it on to everybody"),
        (JWKS, lambda _: response(b"", 404), "answers 404: the proxy has to pass it on to everybody"),
        (METADATA, lambda _: response(b"<p>Parked", Content_Type="text/html"), "is not served as JSON"),
        (METADATA, lambda _: response(b"[" * 5_000, Content_Type="application/json"), "is not a JSON object"),
        (JWKS, lambda _: response(b"x" * 200_000, Content_Type="application/json"), "cannot be read"),
        (METADATA, changed_metadata, "is of another site or of older settings (jwks_uri, scope)"),
        (JWKS, lambda _: as_json({"keys": [{"kid": "made up"}]}), "has other keys than"),
    ],
)
def test_each_way_in_which_data_servers_would_refuse_this_site_is_one_sentence(
    twists: dict[str, Any], fetcher: Fetcher, path: str, twist: Callable[[Request], Answer], sentence: str
) -> None:
    assert check_documents(ORIGIN, fetcher)[0]
    twists[path] = twist
    ok, told = check_documents(ORIGIN, fetcher)
    assert (ok, told.startswith(f"{ORIGIN}{path} "), "\n" in told) == (False, True, False)
    assert sentence in told


def test_keys_that_the_web_process_does_not_publish_and_a_file_that_is_damaged_are_told(
    twists: dict[str, Any], fetcher: Fetcher
) -> None:
    keys = Client(headers={"host": HOST}).get(JWKS).json()
    twists[JWKS] = lambda _: as_json(keys)
    assert check_documents(ORIGIN, fetcher)[0]
    add_key(timezone.now())
    assert "has other keys than" in check_documents(ORIGIN, fetcher)[1]
    configured.OAUTH_CLIENT_KEYS.write_text("damaged")
    assert "is damaged or cannot be read" in check_documents(ORIGIN, fetcher)[1]


def test_a_name_that_leads_to_a_private_address_is_told(settings: Settings) -> None:
    fetcher = Fetcher(timeout=1.0, resolver=lambda _: ["10.0.0.7"])
    ok, told = check_documents(ORIGIN, fetcher)
    fetcher.close()
    assert (ok, "see its name in DNS" in told) == (False, True)
