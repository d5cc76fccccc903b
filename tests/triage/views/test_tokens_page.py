"""Tokens on their page: whose they are, what they may give away, that the secret is told once, and what is logged."""

import re
from datetime import datetime
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from tests.ingest.stream.frames import ANA, MARA, REPO, SEED
from tests.triage.worlds.small_site import CABIN
from triage.access.tokens import create_token, find_token
from triage.models import ApiToken, Change, Maintainer, Person
from triage.services.erasure import account_of, forget_account
from triage.views.people.people import MOST

pytestmark = pytest.mark.django_db
SECRET = re.compile(r"sunstead_[A-Za-z0-9_-]{43}")


@pytest.fixture(autouse=True)
def world(small: Path) -> None:
    """The small world, for readers only."""


def visitor(did: str, role: str = "", repo_key: str = REPO) -> Client:
    """Somebody signed in, with this role there, or who reads by a role elsewhere."""
    person = Person.objects.create(did=did)
    Maintainer.objects.create(person=person, repo_key=repo_key if role else CABIN, role=role or "viewer")
    client = Client()
    client.force_login(person)
    return client


def make(client: Client, **fields: object) -> str:
    """Make a token on the page; its secret, "" where none was made."""
    page = client.post("/tokens/make", {"name": "overlay", "scopes": ["read"], **fields}).content.decode()
    found = SECRET.findall(page)
    assert len(found) <= 1
    return found[0] if found else ""


def test_a_secret_is_shown_once_and_works_from_then_on() -> None:
    ana = visitor(ANA)
    secret = make(ana)
    assert find_token(secret, "read", timezone.now()) is not None
    assert SECRET.search(ana.get("/tokens").content.decode()) is None
    assert secret not in repr(list(Change.objects.values())) + repr(list(ApiToken.objects.values()))
    assert Client().get("/queue", headers={"authorization": f"Bearer {secret}"}).status_code == 200


def test_a_revoked_token_opens_nothing_and_what_is_tried_with_it_is_counted() -> None:
    ana = visitor(ANA)
    bearer = {"authorization": f"Bearer {make(ana)}"}
    ana.post(f"/tokens/{ApiToken.objects.get().pk}/revoke")
    for _ in range(3):
        assert Client().get("/queue", headers=bearer).status_code == 401
    assert "sent 3 times since" in ana.get("/tokens").content.decode()
    assert list(Change.objects.order_by("pk").values_list("what", "subject", "person__did")) == [
        ("token.made", "overlay", ANA),
        ("token.revoked", "overlay", ANA),
    ]


def test_a_person_sees_and_revokes_their_own_and_an_admin_of_the_site_everybodys() -> None:
    mine, admin = visitor(ANA), visitor(SEED, "admin", "")
    make(mine, name="of ana")
    create_token("of the operator", ["read"], timezone.now())
    operators = ApiToken.objects.get(name="of the operator")
    assert "of the operator" not in mine.get("/tokens").content.decode()
    assert mine.post(f"/tokens/{operators.pk}/revoke").status_code == 404
    page = admin.get("/tokens").content.decode()
    assert "of ana" in page
    assert "of the operator" in page
    assert admin.post(f"/tokens/{operators.pk}/revoke").status_code == 302
    assert ApiToken.objects.get(pk=operators.pk).revoked_at is not None


@pytest.mark.parametrize(
    ("role", "repo_key", "fields", "made"),
    [
        ("", "", {}, True),
        ("", "", {"repo_key": REPO}, False),  # no role there
        ("", "", {"scopes": ["review"]}, False),
        ("viewer", REPO, {"repo_key": REPO}, True),
        ("viewer", REPO, {"scopes": ["read", "review"]}, False),
        ("maintainer", REPO, {"scopes": ["read", "review"], "repo_key": REPO}, True),
        ("maintainer", REPO, {"repo_key": CABIN}, False),
        ("admin", "", {"repo_key": CABIN}, True),
        ("admin", "", {"repo_key": "did:plc:nothing"}, False),
        ("admin", "", {"scopes": ["act"]}, False),
        ("admin", "", {"scopes": []}, False),
        ("admin", "", {"name": " "}, False),
        ("admin", "", {"name": "x" * 101}, False),
        ("admin", "", {"name": "a\u202eb"}, False),  # a name that would turn its line round
    ],
)
def test_nobody_gives_away_what_they_may_not_do(
    role: str, repo_key: str, fields: dict[str, object], made: bool
) -> None:
    assert bool(make(visitor(ANA, role, repo_key), **fields)) is made
    assert ApiToken.objects.exists() is made


def test_a_token_reviews_only_while_its_person_maintains_something() -> None:
    bearer = {"authorization": f"Bearer {make(visitor(ANA, 'maintainer'), scopes=['review'])}"}
    job = f"/review/pr/{int(timezone.now().timestamp())}-{'0' * 32}"
    assert Client().get(job, headers=bearer).status_code == 404
    Maintainer.objects.update(role="viewer")
    assert Client().get(job, headers=bearer).status_code == 401


def test_one_person_has_so_many_tokens_at_once_and_no_more() -> None:
    ana = visitor(ANA)
    person, now = Person.objects.get(did=ANA), timezone.now()
    for number in range(MOST):
        ApiToken.objects.create(secret_hash=str(number), name="n", scopes=["read"], person=person, made_at=now)
    assert make(ana) == ""
    ApiToken.objects.filter(secret_hash="1").update(revoked_at=now)
    assert make(ana) != ""


def test_what_somebody_called_a_token_goes_with_them() -> None:
    make(visitor(MARA), name="marie's overlay")
    told = account_of(MARA)
    assert told is not None
    assert told["api_tokens"][0]["name"] == "marie's overlay"
    assert isinstance(told["api_tokens"][0]["made_at"], datetime)
    forget_account(MARA, None)
    assert not ApiToken.objects.exists()
    assert "marie" not in repr(list(Change.objects.values()))
