"""Only some people and forms act on a row: whatever else comes changes nothing."""

import json
import re
from urllib.parse import quote, quote_plus

import pytest
from django.test import Client
from pytest_django import Settings

from tests.ingest.stream.frames import MARA
from tests.scoring.pipeline.offered_world import SECOND, THIRD, a_new_round
from tests.scoring.small import OFFERED
from tests.sources import PROJECT
from tests.triage.worlds.acting_site import ANA, HTMX, ActingSite, approved, invited, last_key, signed_in
from triage.models import Action, Maintainer

pytestmark = pytest.mark.django_db


def test_what_has_no_patch_cannot_be_approved(site: ActingSite, ana: Client) -> None:
    with site.result.store.write() as txn:
        txn.execute("delete from patches where pull_uri = ?", [OFFERED])
    site.publish()
    answer = ana.post("/act", site.form(patch_id=""))
    assert answer.status_code == 409
    assert "its patch has not arrived yet or cannot be read" in answer.content.decode()


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_nobody_approves_what_they_sent(site: ActingSite, ben: Client, headers: dict[str, str]) -> None:
    mara = site.maintainer(MARA, "mara.example")
    shown = mara.get(f"/?open={quote(OFFERED)}").content.decode() + mara.get(f"/pull/{OFFERED}").content.decode()
    assert 'value="approve"' not in shown
    assert 'value="pull_for_review"' in shown, "everything else is theirs to do"
    assert 'value="approve"' in ben.get(f"/pull/{OFFERED}").content.decode()
    answer = mara.post("/act", site.form(), headers=headers)
    assert answer.status_code == 409
    said = re.sub('data-why="[^"]*"', "", answer.content.decode())
    assert said.count("You sent this pull request, so somebody else must approve it.") == (2 if headers else 1)
    assert not Action.objects.exists()
    assert mara.post("/act", site.form(uri=SECOND)).status_code == 302
    assert mara.post("/act", site.form("note", note="I shall mend it.")).status_code == 302


def test_what_is_flagged_is_approved_only_with_a_reason(site: ActingSite, ana: Client) -> None:
    with site.result.store.write() as txn:
        warned = json.dumps([{"code": "denounced_by_seed", "params": {}}])
        txn.execute(
            "update current_decisions set lane = 'needs_human', reasons = ? where pull_uri = ?", [warned, OFFERED]
        )
    site.publish()
    for note in ("", "  "):
        answer = ana.post("/act", site.form(note=note))
        assert (answer.status_code, "say why you approve it anyway" in answer.content.decode()) == (409, True)
    assert not Action.objects.exists()
    assert ana.post("/act", site.form(note="The token is a made-up one.")).status_code == 302
    assert ana.post("/act", site.form(uri=SECOND)).status_code == 302, "what is not flagged needs none"
    assert list(Action.objects.values_list("note", flat=True)) == ["The token is a made-up one.", ""]


@pytest.mark.parametrize(("risk", "asks"), [(None, False), (0.39, False), (0.4, True), (0.69, True)])
def test_what_a_review_found_something_in_is_approved_only_with_a_reason_in_any_lane(
    site: ActingSite, ana: Client, risk: float | None, asks: bool
) -> None:
    with site.result.store.write() as txn:
        txn.execute(
            "update current_decisions set lane = 'normal_queue', reasons = '[]', content_risk = ? where pull_uri = ?",
            [risk, OFFERED],
        )
    site.publish()
    assert ("Approve anyway…" in ana.get(f"/?open={quote(OFFERED)}").content.decode()) is asks
    answer = ana.post("/act", site.form())
    assert (answer.status_code == 409, "found something: say why" in answer.content.decode()) == (asks, asks)
    assert Action.objects.exists() is not asks
    if asks:
        assert ana.post("/act", site.form(note="The certificate is our own.")).status_code == 302


def test_an_older_approval_of_ones_own_work_is_void_on_the_row(
    site: ActingSite, ben: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older version took it; whoever reads the row is told that it counts for nothing, and may approve it."""
    mara = site.maintainer(MARA, "mara.example")
    with monkeypatch.context() as older:
        older.setattr("triage.services.actions._check", lambda *_: None)
        assert mara.post("/act", site.form()).status_code == 302
    for moment in ("before it is told", "after"):
        shown = ben.get(f"/pull/{OFFERED}").content.decode()
        assert "The approval by mara.example is void: they sent it." in shown, moment
        assert "Approved by mara.example" not in shown
        assert 'value="approve"' in shown
        assert "The approval by mara.example is void" in ben.get("/").content.decode()
        assert approved(ben) == []
        site.after(11)
        site.work()
    assert "void: nobody approves what they sent" in ben.get(f"/history/{OFFERED}").content.decode()


@pytest.mark.parametrize("kind", ["request_changes", "close"])
@pytest.mark.parametrize("effective", [False, True])
def test_an_approved_round_is_refused_only_after_its_approval_is_revoked(
    site: ActingSite, ana: Client, ben: Client, kind: str, effective: bool
) -> None:
    """Else the list for the merge script would go on to name what somebody wants changed."""
    ana.post("/act", site.form())
    if effective:
        site.after(11)
        site.work()
        assert f'value="{kind}"' not in ben.get(f"/pull/{OFFERED}").content.decode()
    answer = ben.post("/act", site.form(kind, version=1, note="Split it."))
    assert answer.status_code == 409
    assert "This round is approved: revoke the approval first." in answer.content.decode()
    ben.post("/act", site.form("release", version=1))
    assert ben.post("/act", site.form(kind, version=2, note="Split it.")).status_code == 302
    site.after(11)
    site.work()
    assert approved(ben) == []


def test_a_refusal_ends_with_its_round_and_the_row_says_what_came_after(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    ben.post("/act", site.form("request_changes", note="Split it."))
    assert "Waiting on author." in ana.get("/").content.decode()
    a_new_round(site.result)
    site.work()
    page = ana.get("/").content.decode()
    assert "Waiting on author" not in page
    assert "is-done" not in page
    assert "New since ben.example asked for changes." in page
    assert "New since you asked for changes." in ben.get("/?mine=1").content.decode()
    ana.post("/act", site.form("pull_for_review", version=1))
    ben.post("/act", site.form("request_changes", version=2, note="Split it more."))
    assert "Waiting on author." in ana.get("/").content.decode()


def test_who_has_it_in_hand_keeps_it_through_rounds_and_refusals(site: ActingSite, ana: Client, ben: Client) -> None:
    ana.post("/act", site.form("pull_for_review"))
    ben.post("/act", site.form("request_changes", version=1, note="Split it."))
    a_new_round(site.result)
    site.work()
    assert "Assigned to ana.example." in ben.get("/").content.decode()


def test_a_row_is_struck_through_only_while_a_decision_can_be_undone(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form("pull_for_review", SECOND))
    assert "is-done" not in ana.get("/").content.decode(), "an assignment ends nothing"
    ana.post("/act", site.form("request_changes", note="Split it."))
    assert ana.get("/").content.decode().count("is-done") == 1
    site.after(11)
    assert "is-done" not in ana.get("/").content.decode()


def test_after_a_decision_the_next_row_that_nobody_decided_opens(site: ActingSite, ana: Client, ben: Client) -> None:
    listed = [one["uri"] for one in ana.get("/queue").json()["pull_requests"]]
    ben.post("/act", site.form("request_changes", listed[1], note="Split it."))
    sent = site.form("request_changes", listed[0], note="Split it.", next=f"/?open={quote(listed[0])}")
    answer = ana.post("/act", sent, headers={**HTMX, "HX-Target": "open"})
    assert answer["HX-Push-Url"].endswith(quote_plus(listed[2]))


def test_notes_and_reasons_are_for_maintainers_alone(site: ActingSite, ana: Client, settings: Settings) -> None:
    settings.PUBLIC_READ = True
    ana.post("/act", site.form("note", note="He is my neighbour."))
    site.after(11)
    site.work()
    reader = signed_in(invited(f"did:plc:{'v' * 24}"))
    for address in (f"/history/{OFFERED}", f"/pull/{OFFERED}"):
        assert "He is my neighbour." in ana.get(address).content.decode()
        for other in (Client(), reader):
            assert "my neighbour" not in other.get(address).content.decode()
    assert "ana.example" in Client().get(f"/history/{OFFERED}").content.decode(), "who acted is told"


def test_no_address_of_the_api_approves() -> None:
    """Two of those that take a body ask for judgements, the third for a review."""
    document = json.loads((PROJECT / "docs/openapi.json").read_text())
    writing = {path for path, ways in document["paths"].items() if set(ways) - {"get"}}
    assert writing == {"/score", "/pulls", "/review/pr"}


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_only_what_was_merged_has_an_outcome(site: ActingSite, ana: Client, headers: dict[str, str]) -> None:
    for uri, word in ((OFFERED, "open"), (SECOND, "closed")):
        if word == "closed":
            site.merge(THIRD)
            with site.result.store.write() as txn:
                txn.execute("update pull_requests set state = ? where pull_uri = ?", [word, uri])
            site.publish()
        assert 'value="outcome"' not in ana.get(f"/history/{uri}").content.decode()
        answer = ana.post("/act", site.form("outcome", uri, outcome="reverted"), headers=headers)
        assert answer.status_code == 409
        assert "It was not merged, so it has no outcome." in answer.content.decode()
    assert not Action.objects.exists()
    assert 'value="outcome"' in ana.get(f"/history/{THIRD}").content.decode()
    assert ana.post("/act", site.form("outcome", THIRD, outcome="reverted")).status_code == 302


def test_a_form_that_is_none_of_ours_changes_nothing(site: ActingSite, ana: Client) -> None:
    uris = ({"uri": "x" * 601}, {"uri": "at://\0"})
    for broken in ({"round": "-1"}, {"round": "1e3"}, {"version": ""}, {"kind": "merge"}, *uris):
        assert ana.post("/act", site.form() | broken).status_code in (400, 404), broken
    assert Action.objects.count() == 0


def test_what_no_row_shows_cannot_be_approved_by_a_form_made_by_hand(site: ActingSite, ana: Client) -> None:
    form = site.form()
    with site.result.store.write() as txn:
        author = "(select contributor_id from contributors where did = ?)"
        txn.execute(
            f"update contributors set account_status = 'takendown' where contributor_id = {author}",
            [OFFERED.split("/")[2]],
        )
        txn.inputs_changed()
    site.work()
    answer = ana.post("/act", form)
    assert (answer.status_code, "not judged yet" in answer.content.decode()) == (409, True)
    assert not Action.objects.exists()


def test_who_lost_the_role_since_the_page_was_made_acts_no_more(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form(uri=SECOND))
    Maintainer.objects.update(role="viewer")
    for address, form in (
        ("/act", site.form()),
        ("/act/bulk", {"pull": f"{OFFERED}||0||0"}),
        ("/act/look", {"uri": OFFERED}),
    ):
        assert ana.post(address, form).status_code == 403
    site.after(2)  # sooner it would be a second click
    assert ana.post("/act/undo", {"key": last_key()}).status_code == 302, "what they did before can be taken back"
    site.after(11)
    site.work()
    assert site.approvals() == []


def test_who_may_not_act_sees_no_form_on_a_row(site: ActingSite, settings: Settings, client: Client) -> None:
    settings.PUBLIC_READ = True
    assert 'action="/act"' not in client.get(f"/?open={OFFERED}").content.decode()
    assert 'action="/act"' in site.maintainer(ANA, "ana.example").get(f"/?open={OFFERED}").content.decode()
