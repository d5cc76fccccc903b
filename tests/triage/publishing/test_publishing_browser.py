"""The operator's page of publishing, and a repository's choice, in a real browser."""

from datetime import UTC, datetime

import pytest
from django.utils import timezone
from playwright.sync_api import expect
from pytest_django import Settings

from ingest.oauth.scopes import DEFINITION
from tests.ingest.stream.frames import REPO, SEED
from tests.triage.axe import violations_in_both_themes
from tests.triage.conftest import OpenPage
from tests.triage.test_every_page_browser import faults_of
from triage.access.sign_in import issue_link
from triage.models import Change, Maintainer, Person, PublishedRecord, RepositoryChoice, ServiceAccount

pytestmark = pytest.mark.usefixtures("live_server", "small")


def test_an_admin_sees_how_far_the_records_are_and_a_maintainer_chooses_what_is_told(
    open_page: OpenPage, settings: Settings
) -> None:
    settings.LANE_LABEL = True
    admin, now = Person.objects.create(did=SEED), datetime(2026, 11, 20, tzinfo=UTC)
    Maintainer.objects.create(person=admin, repo_key="", role="admin")
    words = "The grant of the service account has ended, or the account moved. Connect it again; nothing is lost."
    account = ServiceAccount.objects.create(
        did="did:plc:" + "7" * 24, handle="a-long-name.sunstead.example.com", server="https://pds.example.test",
        sealed=b"x", connected_at=now, problem=words,
    )  # fmt: skip
    row = {"collection": "org.sunstead.assessment", "changed_at": now, "due_at": now}
    PublishedRecord.objects.create(**row, rkey="a" * 26, record={"decision": "fast_lane"}, waits=False, cid="c")
    label = {"collection": DEFINITION, "rkey": "sunstead-lane", "record": {}, "waits": False, "cid": "c"}
    PublishedRecord.objects.create(**row | label)
    refused = "pds.example.test refused (InvalidRecord); nothing was done"
    PublishedRecord.objects.create(**row, rkey="b" * 26, record={}, waits=True, problem=refused)
    page = open_page(390)
    page.goto(f"/sign-in/{issue_link(admin, now=timezone.now())}")
    page.get_by_role("button", name="Sign in").click()
    choice = f"/settings/repository?repository={REPO}"
    assert faults_of(page, ["/publishing", choice]) == {}
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/publishing")
    expect(page.get_by_role("status").filter(has_text=words)).to_be_visible()
    expect(page.get_by_role("row", name="Public assessments")).to_contain_text("1")
    expect(page.get_by_text("The definition of the label")).to_contain_text(f"{DEFINITION}/sunstead-lane")
    assert violations_in_both_themes(page) == []
    page.goto("/dashboard")
    expect(page.locator("#ingest")).to_contain_text(f"Publishing: {words}")
    expect(page.locator("main")).to_contain_text("1 lane is public as records.")
    page.goto("/publishing")
    page.get_by_role("button", name="Take back everything").dblclick()
    expect(page.locator("main")).to_contain_text("The worker deletes 3 records now.")
    account.refresh_from_db()
    assert (account.retracting, Change.objects.filter(what="publishing.retracted").count()) == (True, 1)
    expect(page.get_by_role("button", name="Take back everything")).to_have_count(0)
    page.goto(choice)
    page.get_by_label("Publish lanes").select_option("decided")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("main")).to_contain_text("Publish lanes: off, now decided.")
    assert RepositoryChoice.objects.get().settings["publish"] == "decided"
