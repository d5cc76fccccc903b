"""A site shows the key of its labels where they are served, replaces it by a command, and the doctor asks for both."""

import io
import json
from pathlib import Path
from typing import Any, cast

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from pytest_django import Settings

from ingest.http.fetcher import Fetcher
from tests.ingest.labels.world import ORIGIN, SOURCE
from tests.ingest.peer import Peer, Request, response
from tests.trustsite.ports import free_port
from trustsite.doctor import Patient
from trustsite.labels import labels_check

pytestmark = pytest.mark.django_db
DOCUMENT = "/.well-known/did.json"


@pytest.fixture
def served(settings: Settings, tmp_path: Path) -> Settings:
    """The settings of a site that labels, with its key in a folder of its own."""
    settings.LABELER_BIND, settings.PUBLIC_ORIGIN = f"127.0.0.1:{free_port()}", ORIGIN
    settings.LABEL_KEY = tmp_path / "keys" / "label"
    return settings


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("label_key", *arguments, stdout=out)
    return out.getvalue().strip()


def test_the_document_names_key_and_service_and_shows_a_new_key_at_once(client: Client, served: Settings) -> None:
    answer = client.get(DOCUMENT)
    (method,), (service,) = answer.json()["verificationMethod"], answer.json()["service"]
    assert answer.json()["id"] == SOURCE
    assert method == {
        "id": f"{SOURCE}#atproto_label",
        "type": "Multikey",
        "controller": SOURCE,
        "publicKeyMultibase": method["publicKeyMultibase"],
    }
    assert service == {"id": "#atproto_labeler", "type": "AtprotoLabeler", "serviceEndpoint": ORIGIN}
    assert run() == f"{SOURCE}  {method['publicKeyMultibase']}"
    assert answer["Access-Control-Allow-Origin"] == "*"
    rotated = run("--rotate")
    assert rotated != f"{SOURCE}  {method['publicKeyMultibase']}"
    assert client.get(DOCUMENT).json()["verificationMethod"][0]["publicKeyMultibase"] in rotated
    assert served.LABEL_KEY.stat().st_mode & 0o077 == 0


def test_a_damaged_key_is_told_in_words_and_never_replaced_by_itself(client: Client, served: Settings) -> None:
    client.get(DOCUMENT)
    served.LABEL_KEY.write_text("damaged")
    assert client.get(DOCUMENT).status_code == 503
    with pytest.raises(CommandError, match="is damaged or cannot be read"):
        run()
    assert served.LABEL_KEY.read_text() == "damaged"
    run("--rotate")
    assert client.get(DOCUMENT).status_code == 200


def test_a_site_that_serves_no_labels_has_no_document(client: Client) -> None:
    assert client.get(DOCUMENT).status_code == 404


class Works:
    """All that the check asks of a patient: a worker runs."""

    works = True


def diagnosed(origin: str | None = None, patient: object = Works) -> tuple[bool, str]:
    fetcher = Fetcher(origin)
    try:
        return labels_check(fetcher, origin is not None)(cast(Patient, patient))
    finally:
        fetcher.close()


def test_the_doctor_asks_for_the_key_the_server_and_what_the_world_finds(
    client: Client, settings: Settings, served: Settings
) -> None:
    shown: dict[str, Any] = {}

    def answer(request: Request) -> bytes:
        return response(json.dumps(shown if request.path == DOCUMENT else {"labels": []}).encode())

    assert diagnosed()[0], "no key was needed yet"
    shown |= client.get(DOCUMENT).json()
    is_fine, told = diagnosed()
    assert (is_fine, "does not answer" in told) == (False, True)
    with Peer(answer) as peer:
        settings.LABELER_BIND = f"127.0.0.1:{peer.port}"
        assert diagnosed() == (True, f"{SOURCE} signs with {shown['verificationMethod'][0]['publicKeyMultibase']}")
        assert diagnosed(f"http://127.0.0.1:{peer.port}")[0]
        shown["id"] = "did:web:other.example"
        is_fine, told = diagnosed(f"http://127.0.0.1:{peer.port}")
        assert (is_fine, "shows another key" in told) == (False, True)
        shown.clear()
    with Peer(lambda _: response(status=404)) as peer:
        settings.LABELER_BIND = f"127.0.0.1:{peer.port}"
        assert diagnosed() == (False, "the label server answers 404: see the worker's log")
    served.LABEL_KEY.write_text("damaged")
    assert "is damaged or cannot be read" in diagnosed()[1]
    settings.LABELER_BIND = ""
    assert diagnosed() == (True, "none are served: LABELER_BIND is empty")
