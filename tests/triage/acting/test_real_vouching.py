"""Vouching from a contributor's page in a maintainer's own name, at the real data server."""

from collections.abc import Callable
from typing import Any

import pytest

from ingest.oauth.records import VOUCH
from ingest.oauth.resource import OwnServer
from scoring.queries import read
from tests.ingest.stream.frames import MARA
from tests.peers.network import Account
from tests.scoring.small import OFFERED
from tests.triage.access.oauth.conftest import Site
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.maintaining import Maintaining
from triage.access.oauth.client import web_sender
from triage.models import Change, OAuthSession, OwnRecord
from triage.services.actions import ActionProblem
from triage.services.own_name import vouching

pytestmark = pytest.mark.django_db
PAGE, FORM = f"/c/{MARA}", f"/c/{MARA}/vouch"


@pytest.fixture
def ana(oauth_site: Site, site: ActingSite, join: Callable[[str], Account]) -> Maintaining:
    site.merge(OFFERED)
    ana = Maintaining(oauth_site, site, join("vch"))
    ana.allow("vouch")
    return ana


def page(ana: Maintaining) -> str:
    return ana.browser.get(PAGE).content.decode()


def vouches(ana: Maintaining) -> list[dict[str, Any]]:
    return ana.records(VOUCH)


def ask(ana: Maintaining, **fields: Any) -> None:
    assert ana.browser.post(FORM, fields | {"next": PAGE})["Location"] == PAGE


def test_a_vouch_names_the_merged_work_replaces_itself_and_is_taken_back(ana: Maintaining) -> None:
    assert f"into your repository at <bdi>pds.example.test</bdi>, as <bdi>{ana.account.handle}" in page(ana)
    ask(ana, reason="Careful <i>work</i>", evidence=[OFFERED, "at://did:plc:eve/sh.tangled.repo.pull/made-up"])
    assert ("Your vouch is being sent." in page(ana), vouches(ana)) == (True, [])
    assert (ana.send(9.9), ana.send(0.1), ana.send(60)) == (0, 1, 0)
    (first,) = vouches(ana)
    assert first["uri"] == f"at://{ana.account.did}/{VOUCH}/{MARA}"
    assert {key: first["value"][key] for key in ("kind", "reason", "evidences")} == {
        "kind": "vouch",
        "reason": "Careful <i>work</i>",
        "evidences": [OFFERED],
    }
    assert Change.objects.get(what="record.written").details == {"record": first["uri"]}
    assert "Careful &lt;i&gt;work&lt;/i&gt;" in page(ana)
    ask(ana, reason="")
    assert ana.send() == 1
    (second,) = vouches(ana)
    assert ("reason" in second["value"], second["cid"] != first["cid"]) == (False, True)
    answer = ana.browser.post(FORM, {"back": "1"})
    assert answer["Location"].startswith("/oauth/grant?act=take_back_vouch")
    ana.allow("take_back_vouch")
    ask(ana, back="1")
    assert (ana.send(), vouches(ana)) == (1, [])
    assert ("Taken back." in page(ana), "Take my vouch back" in page(ana)) == (True, False)
    ask(ana, back="1")
    assert "your server has no vouch of yours for them" in page(ana)


def test_an_undo_within_ten_seconds_sends_nothing(ana: Maintaining) -> None:
    ask(ana, reason="Hasty")
    ana.browser.post("/act/undo", {"key": OwnRecord.objects.latest("pk").key})
    assert (ana.send(), vouches(ana)) == (0, [])


def test_a_warning_made_elsewhere_is_not_replaced(ana: Maintaining) -> None:
    ask(ana, reason="Fine")
    denounce = {"kind": "denounce", "createdAt": "2026-11-20T12:00:00Z"}
    ana.account.create(VOUCH, denounce, MARA)
    assert ana.send() == 0
    assert "the record changed meanwhile" in page(ana)
    assert ">Fine</textarea>" in page(ana), "the text stays"
    ask(ana, reason="Fine")
    assert "you warn about them on Tangled" in page(ana)
    assert [one["value"]["kind"] for one in vouches(ana)] == ["denounce"]


def test_a_kill_between_writing_or_deleting_and_noting_does_it_once(
    ana: Maintaining, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killing(method: Callable[..., Any]) -> Callable[..., Any]:
        def killed(*told: Any) -> Any:
            method(*told)
            raise Killed

        return killed

    ana.allow("take_back_vouch")
    for method, fields, left in (("put_record", {"reason": "Good"}, 1), ("delete_record", {"back": "1"}, 0)):
        ask(ana, **fields)
        with monkeypatch.context() as patched:
            patched.setattr(OwnServer, method, killing(getattr(OwnServer, method)))
            with pytest.raises(Killed):
                ana.send()
        assert (len(vouches(ana)), OwnRecord.objects.latest("pk").state) == (left, "waiting")
        assert ana.send(60) == 1
        assert (len(vouches(ana)), OwnRecord.objects.latest("pk").state) == (left, "written")


def test_what_is_too_long_ones_own_or_somebody_elses_is_not_sent(
    ana: Maintaining, oauth_site: Site, site: ActingSite, join: Callable[[str], Account]
) -> None:
    ask(ana, reason="x" * 257)
    assert "a reason has at most 256 characters" in page(ana)
    assert ana.browser.post(f"/c/{ana.account.did}/vouch", {}).status_code in (302, 404)
    by_link = site.maintainer("did:plc:" + "2" * 24, "cy.example")
    assert 'id="vouch"' not in by_link.get(PAGE).content.decode()
    by_link.post(FORM, {"reason": "Hm"})
    strict = oauth_site.browser(enforce_csrf_checks=True)
    assert strict.post(FORM, {"reason": "Hm"}).status_code == 403
    assert (ana.send(), OwnRecord.objects.count()) == (0, 0)


def test_nobody_vouches_for_themselves_and_no_vouch_names_more_than_ten(ana: Maintaining) -> None:
    session, work = (
        OAuthSession.objects.get(ended_at=None),
        [f"at://{MARA}/sh.tangled.repo.pull/{n}" for n in range(11)],
    )
    for wanted, said in (
        (vouching.Vouch(ana.account.did), "nobody vouches for themselves"),
        (vouching.Vouch(MARA, evidence=tuple(work)), "at most 10 pull requests"),
    ):
        with pytest.raises(ActionProblem, match=said):
            vouching.vouch(session, wanted, web_sender(), lambda: ana.site.now)
    assert not OwnRecord.objects.exists()


def test_a_reason_is_kept_while_the_person_allows_it_at_their_server(
    oauth_site: Site, site: ActingSite, join: Callable[[str], Account]
) -> None:
    ben = Maintaining(oauth_site, site, join("vcb"))
    answer = ben.browser.post(FORM, {"reason": "Kept", "next": PAGE})
    assert answer["Location"].startswith("/oauth/grant?act=vouch&next=%2Fc%2F")
    assert ">Kept</textarea>" in page(ben)
    ben.allow("vouch")
    ask(ben, reason="Kept")
    assert ben.send() == 1
    assert [one["value"]["reason"] for one in vouches(ben)] == ["Kept"]


def test_vouches_worth_making_offer_the_vouch_and_list_it_with_the_way_back(
    ana: Maintaining, monkeypatch: pytest.MonkeyPatch
) -> None:
    worth = read.VouchWorth(read.Person(MARA, "mara.example"), 1, 1, 1, 0.0, 0.6, 0, 0, 0.5)
    proposed = [(read.VouchesWorth(None, (worth,)), read.VouchesWorth("driftwood", (worth,)))]
    monkeypatch.setattr(read, "vouches_worth_making", lambda *_: proposed[-1])
    form = {"reason": "Careful", "evidence": [OFFERED], "next": "/vouches"}

    def listed() -> str:
        return ana.browser.get("/vouches").content.decode().replace("<wbr>", "")

    offered = listed()
    assert offered.count(f'action="{FORM}"') == 2, "once for each seed set"
    assert offered.count(f'value="{OFFERED}" checked') == 2
    assert "(sh.tangled.graph.vouch) into your repository at <bdi>pds.example.test</bdi>" in offered
    assert "Vouches that you sent from here" not in offered
    assert ana.browser.post(FORM, form)["Location"] == "/vouches"
    assert "Your vouch is being sent." in listed()
    assert ana.send() == 1
    proposed.append(())
    sent = listed()
    assert "Vouches that you sent from here" in sent
    assert vouches(ana)[0]["uri"] in sent
    back = ana.browser.post(FORM, {"back": "1", "next": "/vouches"})
    assert back["Location"] == "/oauth/grant?act=take_back_vouch&next=%2Fvouches"
    ana.allow("take_back_vouch")
    assert ana.browser.post(FORM, {"back": "1", "next": "/vouches"})["Location"] == "/vouches"
    assert "Your vouch is being taken back." in listed()
    assert (ana.send(), vouches(ana)) == (1, [])
    assert "Vouches that you sent from here" not in listed()


def test_the_history_of_a_merged_one_offers_the_vouch_to_maintainers_with_an_account_alone(
    ana: Maintaining, site: ActingSite
) -> None:
    page_of_it = f"/history/{OFFERED}"
    assert f'action="{FORM}"' in ana.browser.get(page_of_it).content.decode()
    by_link = site.maintainer("did:plc:" + "2" * 24, "cy.example")
    assert f'action="{FORM}"' not in by_link.get(page_of_it).content.decode()
    assert f'action="{FORM}"' not in by_link.get("/vouches").content.decode()
