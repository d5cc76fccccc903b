"""A maintainer of one repository decides nothing that holds in another, whoever it is about."""

from datetime import datetime
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone

from tests.ingest.stream.frames import ANA, MARA, REPO, SEED
from tests.triage.worlds.acting_site import maintainer
from tests.triage.worlds.small_site import CABIN, OFFERED
from triage.access.tokens import make_link
from triage.models import ContributorLink, LeaderboardWish, Objection, Person
from triage.services.erasure import forget_account
from triage.services.objections import object_to

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small")]
BEN = "did:plc:benbenbenbenbenbenbenben"


@pytest.fixture(name="now")
def now_fixture() -> datetime:
    return timezone.now()


def text(client: Client, address: str) -> str:
    return unescape(client.get(address).content.decode())


def test_who_stands_on_the_leaderboard_of_all_is_not_for_a_maintainer_of_one_repository() -> None:
    of_one, of_all, address = maintainer(SEED, REPO), maintainer(ANA, ""), f"/c/{MARA}/leaderboard"
    assert of_one.post(address, {"out": "yes"}).status_code == 403
    assert not LeaderboardWish.objects.exists()
    assert f'action="{address}"' not in text(of_one, f"/c/{MARA}/data"), "nor is it offered"
    assert f'action="{address}"' in text(of_all, f"/c/{MARA}/data")
    assert of_all.post(address, {"out": "yes"}).status_code == 302
    assert LeaderboardWish.objects.get().left_out


def test_an_objection_that_holds_everywhere_is_answered_by_a_maintainer_of_the_site(now: datetime) -> None:
    of_one, of_all = maintainer(SEED, REPO), maintainer(ANA, "")
    object_to(MARA, "", "", "Leave me out of all this.", "self", None, now)
    told = {"key": Objection.objects.get().key, "state": "rejected", "answer": "No"}
    assert of_one.post("/objections/answer", told).status_code == 403
    assert Objection.objects.get().state == "open"
    for page in ("/objections", f"/c/{MARA}/rights"):
        shown = text(of_one, page)
        assert "Leave me out of all this." in shown, "it holds pull requests of theirs too"
        assert "A maintainer of the whole site answers it." in shown
        assert "Reject" not in shown
    assert "Reject" in text(of_all, "/objections")
    assert of_all.post("/objections/answer", told).status_code == 302


def test_a_link_is_taken_back_where_it_was_handed_out(now: datetime) -> None:
    """Mara offered to lantern alone, so of two who may speak with her one does so for the site."""
    of_all, of_one, colleague = maintainer(ANA, ""), maintainer(SEED, REPO), maintainer(BEN, REPO)
    for maker, key, pull in ((ANA, "", ""), (SEED, REPO, ""), (SEED, REPO, OFFERED)):
        make_link(Person.objects.get(did=maker), MARA, key, pull, now)
    of_site, data, decision = ContributorLink.objects.order_by("pk").values_list("pk", flat=True)
    assert of_one.post(f"/c/{MARA}/links/{of_site}/revoke").status_code == 403
    assert text(of_one, f"/c/{MARA}/rights").count(">Revoke</button>") == 2
    assert colleague.post(f"/c/{MARA}/links/{data}/revoke").status_code == 302
    assert of_all.post(f"/c/{MARA}/links/{decision}/revoke").status_code == 302
    assert list(ContributorLink.objects.filter(revoked_at=None).values_list("pk", flat=True)) == [of_site]


def test_a_link_made_for_a_repository_of_somebody_who_is_erased_names_them_no_more(now: datetime) -> None:
    make_link(Person.objects.create(did=SEED), MARA, f"at://{ANA}/sh.tangled.repo/one", "", now)
    forget_account(ANA, None)
    assert ContributorLink.objects.get().repo_key == ""


def test_a_maintainer_of_cabin_reaches_nothing_in_lantern(now: datetime) -> None:
    """Mara offered cabin nothing: every form about her, sent by its maintainer, changes nothing."""
    ana = maintainer(ANA, CABIN)
    make_link(Person.objects.create(did=SEED), MARA, REPO, OFFERED, now)
    object_to(MARA, OFFERED, REPO, "No", "link", None, now)
    key = Objection.objects.get().key
    forms = {
        f"/c/{MARA}/leaderboard": {"out": "yes"},
        f"/c/{MARA}/objection": {"pull": "", "text": "No"},
        f"/c/{MARA}/links": {"pull": OFFERED},
        f"/c/{MARA}/links/{ContributorLink.objects.get().pk}/revoke": {},
        "/objections/answer": {"key": key, "state": "rejected", "answer": "No"},
        "/lane/close": {"author": MARA, "scope": "everywhere", "because": "So"},
        "/lane/close?": {"repo_key": REPO, "voucher": SEED, "scope": "voucher", "because": "So"},
        "/settings/shadow": {"repository": REPO, "shadow": "on", "version": "0"},
        "/people/role": {"repo_key": REPO, "did": ANA, "role": "maintainer"},
        "/people/role?": {"repo_key": "", "did": ANA, "role": "maintainer"},
        "/act": {"uri": OFFERED, "kind": "outcome", "outcome": "reverted", "round": "0", "version": "0"},
        "/audit": {"uri": OFFERED, "answer": "no", "because": "So"},
    }
    answered = {address: ana.post(address, told).status_code for address, told in forms.items()}
    assert answered == dict.fromkeys(forms, 403)
