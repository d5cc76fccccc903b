"""The labels of this site: how their server is started, and the doctor's check that they are served and found."""

import http.client
from typing import TYPE_CHECKING, Any

from django.conf import settings

from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.labels.keys import LabelKeyProblem, read_key
from ingest.labels.server import QUERY, Config
from ingest.labels.signing import did_document, did_of

if TYPE_CHECKING:  # the worker imports this, and the doctor imports much
    from trustsite.doctor import Check, Patient

DOCUMENT = "/.well-known/did.json"
NOTHING = f"{QUERY}?uriPatterns=at://did:web:nobody.invalid"  # a query that finds no label
BYTES = 100_000
SECONDS = 5.0


def label_config() -> Config:
    """Return what the label server is told."""
    host, _, port = settings.LABELER_BIND.rpartition(":")
    return Config(
        host=host.strip("[]"),
        port=int(port),
        database=str(settings.DATABASES["default"]["NAME"]),
        key=str(settings.LABEL_KEY),
        source=did_of(settings.PUBLIC_ORIGIN),
        proxy=settings.TRUSTED_PROXY,
    )


def labels_check(fetcher: Fetcher, network: bool) -> "Check":
    """Return the doctor's check of the key, the server and, if asked, of what the world finds at PUBLIC_ORIGIN."""

    def check(patient: "Patient") -> tuple[bool, str]:
        if not settings.LABELER_BIND:
            return True, "none are served: LABELER_BIND is empty"
        if not settings.LABEL_KEY.exists():
            return True, "no key yet: it is made when somebody asks for it or for a label"
        try:
            public = read_key(settings.LABEL_KEY).public
        except LabelKeyProblem as problem:
            return False, str(problem)
        if patient.works and (problem := _ask_server()):
            return False, problem
        if network and (problem := _ask_world(fetcher, public)):
            return False, problem
        return True, f"{did_of(settings.PUBLIC_ORIGIN)} signs with {public}"

    return check


def _ask_server() -> str:
    """Return the problem with the server at LABELER_BIND, "" for none."""
    config = label_config()
    server = http.client.HTTPConnection(config.host, config.port, timeout=SECONDS)
    try:
        server.request("GET", NOTHING)
        status = server.getresponse().status
    except (OSError, http.client.HTTPException) as problem:
        return f"the label server at {settings.LABELER_BIND} does not answer ({problem}): see the worker's log"
    finally:
        server.close()
    return "" if status == 200 else f"the label server answers {status}: see the worker's log"


def _ask_world(fetcher: Fetcher, public: str) -> str:
    """Return the problem with what the proxy shows, "" for none."""
    origin = settings.PUBLIC_ORIGIN
    try:
        document = fetcher.get_json(f"{origin}{DOCUMENT}", dict[str, Any], BYTES)
        fetcher.get_json(f"{origin}{NOTHING}", dict[str, Any], BYTES)
    except FetchProblem as problem:
        return f"{origin} does not lead to the labels ({problem}): see docs/deploy.md for the proxy"
    if document != did_document(origin, public):
        return f"{origin}{DOCUMENT} shows another key than this site's: see the proxy, and restart the web process"
    return ""
