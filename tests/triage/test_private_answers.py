"""No answer that shows who is signed in is kept by a cache for somebody else, whatever page it is."""

from itertools import product

import pytest
from django.test import Client

from tests.ingest.stream.frames import ANA
from triage.models import Person

pytestmark = pytest.mark.django_db
PATHS = ("/", "/about", "/api", "/queue", "/no-such-page", "/leaderboard", "/sign-in", "/help", "/c/did:plc:nobody")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("is_signed_in", [True, False])
def test_an_answer_is_private_and_varies_by_cookie(client: Client, is_signed_in: bool) -> None:
    if is_signed_in:
        client.force_login(Person.objects.create(did=ANA))
    for path, accept in product(PATHS, ("text/html", "application/json")):
        answer = client.get(path, headers={"Accept": accept})
        kept = {part.strip() for part in answer["Cache-Control"].split(",")}
        assert "no-store" in kept or {"private", "no-cache"} <= kept, (path, accept)
        assert "cookie" in {part.strip().lower() for part in answer["Vary"].split(",")}, (path, accept)


def test_a_refused_form_and_a_foreign_host_are_private_too(client: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    refused = strict.post("/sign-in", {"secret": "x"})
    assert (refused.status_code, refused["Cache-Control"]) == (403, "private, no-cache")
    foreign = client.get("/", headers={"Host": "elsewhere.example"})
    assert (foreign.status_code, foreign["Cache-Control"]) == (400, "private, no-cache")
