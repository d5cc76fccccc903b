"""Made-up requests to every operation, good and bad: each answer is one that the API's description names."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.core.cache import cache
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from pytest_django import Settings

from ingest.worker.runtime import huey
from tests.conftest import count
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED, STRANGER
from tests.triage.worlds.small_site import CABIN, OFFERED
from triage.access.tokens import create_token
from triage.api import api
from triage.models import Maintainer, Person

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


pytestmark = pytest.mark.django_db
if TYPE_CHECKING:
    from schemathesis.generation.case import Case


@pytest.fixture(scope="module", name="operations")
def operations_fixture() -> dict[str, Any]:
    """The operations by name; it fails where the description cannot be read."""
    import schemathesis  # 1 s of CPU, of which all processes but one are spared

    schema = schemathesis.openapi.from_dict(json.loads(json.dumps(api.get_openapi_schema(path_prefix="/"))))
    found: list[Any] = list(schema.get_all_operations())
    return {made.label: made for made in (one.ok() for one in found)}


@pytest.fixture(name="headers", autouse=True)
def headers_fixture(small: Path, settings: Settings) -> Iterator[dict[str, dict[str, str]]]:
    """What each caller sends, on the small world; what they send to be reviewed is dropped."""
    settings.REVIEW_WAIT_SECONDS = 0
    cache.clear()
    for signal in (request_started, request_finished):  # as Django's own client does: it is the test's transaction
        signal.disconnect(close_old_connections)
    person = Person.objects.create(did=SEED)
    Maintainer.objects.create(person=person, role="admin")
    reader = create_token("reader", ["read"], timezone.now())
    admin = create_token("admin", ["read", "review"], timezone.now(), person)
    held = create_token("held", ["read"], timezone.now(), None, REPO)
    sent = zip(CALLERS, ("", reader, held, admin), strict=True)
    yield {caller: {**PLAIN_JSON, "Authorization": f"Bearer {token}"} for caller, token in sent}
    huey.flush()
    cache.clear()
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def known(case: "Case", number: int) -> "Case":
    """The case with something that the small world knows in place of what was made up."""
    for told in (case.path_parameters, case.query, case.body):
        if isinstance(told, dict):
            told.update({name: KNOWN[name][number % len(KNOWN[name])] for name in KNOWN.keys() & told.keys()})
    return case


def cases_of(operation: Any) -> some.SearchStrategy["Case"]:
    """Requests as the description has them, about what is there and what is not, and such as it does not allow."""
    from schemathesis import GenerationMode

    right, wrong = (operation.as_strategy(generation_mode=mode) for mode in GenerationMode)
    return some.one_of(some.builds(known, right, some.integers(0, 11)), right, wrong)


def play(operation: Any, most: int, headers: dict[str, str]) -> Counter[int]:
    """How often each status was answered; AssertionError for an answer that is not described."""
    from schemathesis.specs.openapi import checks

    described: list[Any] = [
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
    ]
    # Not that of `trustsite.wsgi`, which begins a log and a thread that reads snapshots, in all tests that follow.
    application, seen = WSGIHandler(), Counter[int]()

    @settings(max_examples=most, suppress_health_check=list(HealthCheck))
    @given(case=cases_of(operation))
    def ask(case: "Case") -> None:
        answer = case.call(base_url="http://testserver", app=application, headers=headers)
        assert answer.status_code != 500
        case.validate_response(answer, checks=described)
        seen[answer.status_code] += 1

    ask()
    return seen


@pytest.mark.parametrize("caller", CALLERS)
def test_every_answer_is_described(operations: dict[str, Any], caller: str, headers: dict[str, dict[str, str]]) -> None:
    for label, operation in operations.items():
        seen = play(operation, CASES // len(operations) // len(CALLERS), headers[caller])
        if caller == "nobody":
            assert label in OPEN or set(seen) == {401}
        elif caller == "admin":
            assert seen.keys() & {200, 202} or label in NEVER_GOOD, label
