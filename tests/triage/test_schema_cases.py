"""Made-up requests to every operation, good and bad: each answer is one that the API's description names."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.core.cache import cache
from django.core.handlers.wsgi import WSGIHandler
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from pytest_django import Settings
from schemathesis import GenerationMode
from schemathesis.generation.case import Case
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ingest.worker.queue import huey
from tests.conftest import count
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED, STRANGER
from tests.triage.small_site import CABIN, OFFERED
from triage.access.tokens import create_token
from triage.api import api
from triage.models import Maintainer, Person

CHECKS: list[Any] = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
CASES = count(144, 2112)  # in all
OPEN = {"GET /health"}
NEVER_GOOD = {"GET /health", "GET /thresholds", "GET /review/pr/{job}"}  # no worker, no model and no job in that world
# A client that decodes nothing: the bodies of long answers are compressed for those that ask.
PLAIN_JSON = {"Accept": "application/json", "Accept-Encoding": "identity"}
CALLERS = ("nobody", "reader", "one repository", "admin")
KNOWN: dict[str, list[Any]] = {
    "did": [ANA, MARA, SEED, STRANGER, "did:plc:nobody", "mara"],
    "dids": [[MARA], [ANA, MARA, "did:plc:nobody"], ["mara"]],
    "repo": [REPO, CABIN, "", "nobody/nothing"],
    "repository": [REPO, CABIN, ""],
    "uri": [OFFERED, "https://tangled.org/tangled.sh/core/pulls/12"],
    "cursor": ["", "made-up"],
}


def _operation(found: Any) -> Any:
    """The operation; it fails where the description cannot be read."""
    return found.ok()


schema = schemathesis.openapi.from_dict(json.loads(json.dumps(api.get_openapi_schema(path_prefix="/"))))
operations = {made.label: made for made in map(_operation, schema.get_all_operations())}
pytestmark = pytest.mark.django_db


@pytest.fixture(name="headers", autouse=True)
def headers_fixture(small: Path, settings: Settings) -> Iterator[dict[str, dict[str, str]]]:
    """What each caller sends, on the small world; what they send to be reviewed is dropped."""
    settings.REVIEW_WAIT_SECONDS = 0
    cache.clear()
    person = Person.objects.create(did=SEED)
    Maintainer.objects.create(person=person, role="admin")
    reader = create_token("reader", ["read"], timezone.now())
    admin = create_token("admin", ["read", "review"], timezone.now(), person)
    held = create_token("held", ["read"], timezone.now(), None, REPO)
    sent = zip(CALLERS, ("", reader, held, admin), strict=True)
    yield {caller: {**PLAIN_JSON, "Authorization": f"Bearer {token}"} for caller, token in sent}
    huey.flush()
    cache.clear()


def known(case: Case, number: int) -> Case:
    """The case with something that the small world knows in place of what was made up."""
    for told in (case.path_parameters, case.query, case.body):
        if isinstance(told, dict):
            told.update({name: KNOWN[name][number % len(KNOWN[name])] for name in KNOWN.keys() & told.keys()})
    return case


def cases_of(label: str) -> some.SearchStrategy[Case]:
    """Requests as the description has them, about what is there and what is not, and such as it does not allow."""
    right = operations[label].as_strategy(generation_mode=GenerationMode.POSITIVE)
    wrong = operations[label].as_strategy(generation_mode=GenerationMode.NEGATIVE)
    return some.one_of(some.builds(known, right, some.integers(0, 11)), right, wrong)


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("label", operations)
def test_every_answer_is_described(label: str, caller: str, headers: dict[str, dict[str, str]]) -> None:
    # Not that of `trustsite.wsgi`, which begins a log and a thread that reads snapshots, in all tests that follow.
    application, seen = WSGIHandler(), Counter[int]()

    @settings(max_examples=CASES // len(operations) // len(CALLERS), suppress_health_check=list(HealthCheck))
    @given(case=cases_of(label))
    def play(case: Case) -> None:
        answer = case.call(base_url="http://testserver", app=application, headers=headers[caller])
        assert answer.status_code != 500
        case.validate_response(answer, checks=CHECKS)
        seen[answer.status_code] += 1

    play()
    if caller == "nobody":
        assert label in OPEN or set(seen) == {401}
    elif caller == "admin":
        assert seen.keys() & {200, 202} or label in NEVER_GOOD
