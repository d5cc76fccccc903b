"""The two documents that this site publishes about itself as a client, and a look at them from outside.

A person's data server fetches them from PUBLIC_ORIGIN; where it finds something else, nobody signs in.
"""

from typing import Any

import msgspec
from django.conf import settings

from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.json_decoding import decode_json
from ingest.oauth.client import JWKS_PATH, METADATA_PATH, client_metadata, key_set
from ingest.oauth.scopes import every_scope
from triage.access.oauth.keys import KeyProblem, read_keys

NAME = "Sunstead"  # as servers show it to people
LIMIT = 100_000  # bytes


def metadata_document(origin: str) -> dict[str, Any]:
    """Return the document that names the site at this origin to authorization servers."""
    return client_metadata(origin, every_scope(settings.LEXICON_AUTHORITY), NAME)


def keys_document() -> dict[str, Any]:
    """Return the public keys of this site, also retired ones to which a session is bound. Raises KeyProblem."""
    return key_set(key.load() for key in read_keys())


def check_documents(origin: str, fetcher: Fetcher) -> tuple[bool, str]:
    """Ask for both documents as a data server does; return whether it takes this site, and one sentence."""
    try:
        problem = _find_problem(origin, fetcher)
    except KeyProblem as problem_of_file:
        problem = str(problem_of_file)
    return not problem, problem or f"data servers find this site at {origin}"


def _find_problem(origin: str, fetcher: Fetcher) -> str:
    """Return why a data server would refuse this site, "" for no reason. Raises KeyProblem."""
    served, expected = _read_served(fetcher, f"{origin}{METADATA_PATH}"), metadata_document(origin)
    if isinstance(served, str):
        return served
    if served != expected:
        names = sorted(name for name in expected.keys() | served.keys() if served.get(name) != expected.get(name))
        return (
            f"{origin}{METADATA_PATH} is of another site or of older settings ({', '.join(names)[:100]}): lead this "
            "name to this site, and start the web process anew"
        )
    served = _read_served(fetcher, f"{origin}{JWKS_PATH}")
    if isinstance(served, str):
        return served
    path = settings.OAUTH_CLIENT_KEYS  # a look makes no key
    if not path.exists() or served != keys_document():
        return f"{origin}{JWKS_PATH} has other keys than {path}: another site answers, or the wrong file was put there"
    return ""


def _read_served(fetcher: Fetcher, url: str) -> dict[str, Any] | str:
    """Return the document at an address, or one sentence that says why there is none."""
    try:
        answer = fetcher.exchange("GET", url, {"Accept": "application/json"}, limit=LIMIT)
    except FetchProblem as problem:
        return f"{url} cannot be read ({problem}): see its name in DNS, its certificate and the proxy"
    if answer.status != 200:
        return f"{url} answers {answer.status}: the proxy has to pass it on to everybody, without a password"
    if answer.headers["content-type"].partition(";")[0].strip().lower() != "application/json":
        return f"{url} is not served as JSON: something else than this site answers"
    try:
        return decode_json(answer.body, dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return f"{url} is not a JSON object: something else than this site answers"
