"""`manage.py add_maintainer`: accounts, what they maintain, the printed link, and refusals in one sentence."""

from functools import partial
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from pytest_django import Settings

from ingest.http.fetcher import Fetcher
from tests.triage.site import Site
from triage.models import Maintainer, Person, SignInMethod

ANA = "did:plc:ana222222222222222222222"

pytestmark = pytest.mark.django_db


def add(*arguments: str) -> str:
    """What the command prints on stdout."""
    printed = StringIO()
    call_command("add_maintainer", *arguments, stdout=printed, stderr=StringIO())
    return printed.getvalue()


def test_a_maintainer_of_the_site_gets_a_link_that_signs_in(client: Client, site: Site) -> None:
    link = add(ANA)
    assert link.startswith("http://127.0.0.1:8000/sign-in/")
    assert link.count("\n") == 1
    assert client.post(link.strip().removeprefix("http://127.0.0.1:8000")).status_code == 302
    assert client.session["_auth_user_id"] == str(Person.objects.get(did=ANA).pk)
    assert list(Maintainer.objects.values_list("person__did", "repo_key")) == [(ANA, "")]


def test_behind_a_proxy_the_link_is_one_of_the_public_name(settings: Settings, site: Site) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://sunstead.example"]
    assert add(ANA).startswith("https://sunstead.example/sign-in/")


def test_adding_someone_again_changes_nothing_but_makes_a_new_link(site: Site) -> None:
    assert add(ANA) != add(ANA)
    assert (Person.objects.count(), Maintainer.objects.count(), SignInMethod.objects.count()) == (1, 1, 2)


def test_without_a_network_a_handle_is_not_called_misspelt(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(host: str) -> list[str]:
        raise OSError("no network")

    offline = partial(Fetcher, resolver=nobody, texts=lambda name: [])
    monkeypatch.setattr("trustsite.management.commands.add_maintainer.Fetcher", offline)
    with pytest.raises(CommandError, match=r"No server can be reached from here \(plc\.directory .* or give the DID\."):
        add("ana.example.com")
    assert not Person.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ana"], "'ana' is not a handle"),
        (["did:plc:"], "This is not a DID"),
        (["did:plc:foo"], "did:plc: needs 24 characters"),
        (["did:key:z6MkhaXgBZD"], "This is not a DID"),
        ([ANA, "--repo", "lantern"], "'lantern' is not a repository"),
        ([ANA, "--repo", "at://ana.example"], "is not a repository"),
        (
            [ANA, "--repo", "did:plc:rrrr"],
            "name it as OWNER/NAME or by the at-uri of its record: anybody can claim a DID",
        ),
        ([ANA, "--repo", f"{ANA}/lantern", "did:plc:rrrr"], "'did:plc:rrrr' is a repository's bare DID"),
    ],
)
def test_a_refusal_is_one_sentence_and_makes_no_account(arguments: list[str], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        add(*arguments)
    assert not Person.objects.exists()
