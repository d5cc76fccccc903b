"""API tokens: made once, kept as a hash, good for their scopes until revoked."""

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from tests.triage.worlds.acting_site import invited
from triage.access import tokens
from triage.access.tokens import (
    BELIEVED,
    UnknownScope,
    count_refused,
    create_token,
    find_token,
    revoke_token,
    secret_hash,
)
from triage.models import ApiToken, Person
from triage.services.erasure import forget_account

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANA = "did:plc:ana222222222222222222222"
SCORE = f"/score/{ANA}"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def closed_site(settings: Settings) -> None:
    """Reading needs a person or a token."""
    settings.PUBLIC_READ = False


def bearer(secret: str) -> dict[str, str]:
    """The header that carries a token."""
    return {"authorization": f"Bearer {secret}"}


def test_only_the_hash_of_a_token_is_kept() -> None:
    secret = create_token("overlay", ["read"], NOON)
    kept = ApiToken.objects.values_list().get()
    assert secret_hash(secret) in kept
    assert secret not in repr(kept)
    assert len(secret) == len("sunstead_") + 43


def test_a_token_is_good_for_its_scopes_alone() -> None:
    secret = create_token("robot", ["review", "read", "read"], NOON)
    assert ApiToken.objects.get().scopes == ["read", "review"]
    assert find_token(secret, "read", NOON) is not None
    assert find_token(secret, "review", NOON) is not None
    assert find_token(create_token("overlay", ["read"], NOON), "review", NOON) is None


@pytest.mark.parametrize("scopes", [[], ["admin"], ["read", "act"]])
def test_a_scope_that_does_not_exist_is_refused(scopes: list[str]) -> None:
    with pytest.raises(UnknownScope, match="choose from read, review"):
        create_token("robot", scopes, NOON)
    assert not ApiToken.objects.exists()


def test_a_revoked_token_is_nothing() -> None:
    secret = create_token("overlay", ["read"], NOON)
    ApiToken.objects.update(revoked_at=NOON)
    assert find_token(secret, "read", NOON) is None


def test_a_token_dies_with_the_account_of_its_person_within_a_second() -> None:
    ana = invited(ANA)
    secret = create_token("overlay", ["read"], NOON, ana)
    assert find_token(secret, "read", NOON) is not None
    Person.objects.update(is_active=False)
    assert find_token(secret, "read", NOON + BELIEVED) is None
    assert find_token(secret, "read", NOON) is None, "it was believed again, by a clock that was put back"


def test_what_another_process_revokes_ends_within_a_second() -> None:
    secret = create_token("overlay", ["read"], NOON)
    assert find_token(secret, "read", NOON) is not None
    ApiToken.objects.update(revoked_at=NOON)
    assert find_token(secret, "read", NOON + BELIEVED) is None


def test_what_is_revoked_here_ends_at_once() -> None:
    ana = invited(ANA)
    secret = create_token("overlay", ["read"], NOON, ana)
    token = find_token(secret, "read", NOON)
    assert token is not None
    revoke_token(token, ana, NOON)
    assert find_token(secret, "read", NOON) is None


def test_what_is_revoked_while_another_thread_reads_it_is_not_believed_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ana = invited(ANA)
    secret = create_token("overlay", ["read"], NOON, ana)

    def revoke_meanwhile(left: str, right: str) -> bool:
        revoke_token(ApiToken.objects.get(), ana, NOON)
        return left == right

    with monkeypatch.context() as patch:
        patch.setattr(tokens, "same_hash", revoke_meanwhile)
        assert find_token(secret, "read", NOON) is not None, "it was valid when it was read"
    assert find_token(secret, "read", NOON) is None


@pytest.mark.django_db(transaction=True)
def test_a_token_is_never_revoked_in_a_transaction_that_others_do_not_see_yet() -> None:
    ana = invited(ANA)
    create_token("overlay", ["read"], NOON, ana)
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        revoke_token(ApiToken.objects.get(), ana, NOON)


def test_the_person_of_a_token_is_read_with_it_and_may_be_erased_meanwhile() -> None:
    ana = invited(ANA)
    secret = create_token("overlay", ["read"], NOON, ana)
    assert find_token(secret, "read", NOON) is not None
    forget_account(ANA, None)
    believed = find_token(secret, "read", NOON)
    assert believed is not None
    assert believed.person.did == ANA
    assert find_token(secret, "read", NOON + BELIEVED) is None


def test_a_valid_token_is_read_once_a_second_however_often_it_comes(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    secret = create_token("overlay", ["read"], NOON)
    find_token(secret, "read", NOON)
    with django_assert_num_queries(1):
        for milliseconds in (0, 400, 999, 1000, 1999):
            assert find_token(secret, "read", NOON + timedelta(milliseconds=milliseconds)) is not None


def test_a_token_that_was_never_made_is_asked_for_each_time(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(2):
        assert find_token("sunstead_guess", "read", NOON) is find_token("sunstead_guess", "read", NOON) is None


def test_no_more_tokens_are_believed_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST_BELIEVED", 3)
    secrets = [create_token(f"overlay {number}", ["read"], NOON) for number in range(7)]
    assert all(find_token(secret, "read", NOON) is not None for secret in secrets * 2)
    assert len(tokens._believed.held) <= 3


def test_last_use_is_written_at_most_once_a_minute() -> None:
    secret = create_token("overlay", ["read"], NOON)
    for seconds, expected in ((5, 5), (64, 5), (65, 65)):
        find_token(secret, "read", NOON + timedelta(seconds=seconds))
        assert ApiToken.objects.get().last_used_at == NOON + timedelta(seconds=expected)


def test_a_drive_that_takes_nothing_more_keeps_nobody_from_reading() -> None:
    good, revoked = create_token("good", ["read"], NOON), create_token("revoked", ["read"], NOON)
    ApiToken.objects.filter(name="revoked").update(revoked_at=NOON)
    with connection.cursor() as cursor:
        cursor.execute("pragma query_only = on")
        try:
            assert find_token(good, "read", NOON) is not None
            count_refused(revoked)
        finally:
            cursor.execute("pragma query_only = off")
    assert set(ApiToken.objects.values_list("last_used_at", "refused")) == {(None, 0)}


def test_a_read_token_opens_the_api_and_the_pages(client: Client) -> None:
    headers = bearer(create_token("overlay", ["read"], timezone.now()))
    assert client.get(SCORE, headers=headers).status_code != 401
    assert client.get("/leaderboard", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer made-up", "Basic made-up", "made-up", "Bearer sunstead_\u00e9"]
)
def test_without_a_good_token_the_api_says_how_to_get_in(client: Client, header: str) -> None:
    answer = client.get(SCORE, headers={"authorization": header})
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == 'Bearer realm="Sunstead"'
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["status"] == 401


def test_a_token_without_the_read_scope_cannot_read(client: Client) -> None:
    headers = bearer(create_token("robot", ["review"], timezone.now()))
    assert client.get(SCORE, headers=headers).status_code == 401


def test_create_token_prints_it_once_and_nothing_else() -> None:
    printed = StringIO()
    call_command("create_token", "overlay", "--scopes", "read,review", stdout=printed)
    token = find_token(printed.getvalue().strip(), "review", timezone.now())
    assert token is not None
    assert token.name == "overlay"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["overlay", "--scopes", "read,root"], "'root' is not a scope"),
        (["overlay", "--scopes", ","], "A token needs a scope"),
        (["overlay", "--person", "did:plc:nobody"], "has no account here"),
        (["  "], "1 to 100 characters"),
    ],
)
def test_create_token_refuses_in_one_sentence(arguments: list[str], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        call_command("create_token", *arguments)
    assert not ApiToken.objects.exists()
