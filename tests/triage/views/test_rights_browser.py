"""A contributor's private link in a real browser, which says where a form comes from, as the test client does not."""

import re
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page, expect

from tests.ingest.peer import Start, response
from tests.ingest.stream.frames import MARA, REPO, SEED
from tests.triage.axe import violations_in_both_themes
from tests.triage.conftest import OpenPage
from tests.triage.worlds.small_site import OFFERED
from triage.access.sign_in import issue_link
from triage.access.tokens import make_link
from triage.models import LeaderboardWish, Maintainer, Objection, Person
from triage.services.objections import answer

pytestmark = pytest.mark.usefixtures("live_server", "small")


@pytest.fixture(name="keeper")
def keeper_fixture(live_server: object) -> Person:
    return Person.objects.create(did=SEED)


def address(by: Person, purpose: str, pull: str = "") -> str:
    return f"/c/{MARA}/{purpose}/{make_link(by, MARA, REPO, pull, timezone.now())}"


def object_on(page: Page, said: str) -> None:
    page.get_by_label("What is wrong").fill(said)
    page.get_by_role("button", name="Object").click()


@pytest.mark.parametrize("scripts", [True, False])
def test_by_their_data_link_somebody_objects_and_leaves_the_leaderboard(
    keeper: Person, open_page: OpenPage, scripts: bool
) -> None:
    link = address(keeper, "data")
    page = open_page(scripts=scripts)
    page.goto(link)
    object_on(page, "It was read by nobody.")
    expect(page.locator("main")).to_contain_text("Your objection is saved.")
    page.goto(link)
    page.get_by_role("button", name="Leave me out").click()
    expect(page.locator("main")).to_contain_text("left out of the leaderboard")
    assert LeaderboardWish.objects.get().left_out
    assert Objection.objects.get().text == "It was read by nobody."


def test_whoever_signs_in_finds_their_page_and_asks_nobody_for_a_link(open_page: OpenPage) -> None:
    mara = Person.objects.create(did=MARA)
    page = open_page(390)
    page.goto(f"/sign-in/{issue_link(mara)}")
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile("/me$"))
    expect(page.get_by_role("heading", level=2, name="Mend the lamp")).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages").get_by_role("link")).to_have_text(["Yours", "Find"])
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations_in_both_themes(page) == []
    object_on(page, "It was read by nobody.")
    expect(page.locator("main")).to_contain_text("Your objection is saved.")
    expect(page.locator("main")).to_contain_text("It was read by nobody.")
    page.get_by_role("button", name="Leave me out").click()
    expect(page.locator("main")).to_contain_text("left out of the leaderboard")
    page.goto(f"/pull/{OFFERED}")
    expect(page.locator("main")).to_contain_text("nobody invited you to read here")
    page.get_by_role("link", name="To your page").click()
    expect(page).to_have_url(re.compile("/me$"))


def test_a_push_holder_asks_on_their_page_and_an_admin_accepts(keeper: Person, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"/sign-in/{issue_link(keeper)}")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Ask to maintain it").click()
    expect(page.get_by_role("status")).to_contain_text(["An admin of this site is asked."])
    boss = Person.objects.create(did="did:plc:" + "k" * 24)
    Maintainer.objects.create(person=boss)
    client = Client()
    client.force_login(boss)
    people = open_page(1440, client)
    people.goto("/people")
    assert violations_in_both_themes(people) == []
    people.get_by_role("button", name=f"Accept {SEED}").click()
    expect(people.locator("main")).not_to_contain_text("Requests to maintain")
    assert Maintainer.objects.filter(person=keeper, repo_key=REPO, role="maintainer").exists()
    page.goto("/")
    expect(page.get_by_role("link", name="Fast lane", exact=True)).to_be_visible()


def test_by_their_link_to_one_decision_somebody_objects_and_reads_the_answer(
    keeper: Person, open_page: OpenPage
) -> None:
    link = address(keeper, "decision", OFFERED)
    page = open_page()
    page.goto(link)
    expect(page.locator("main")).to_contain_text("No objection yet.")
    object_on(page, "It is <b>my</b> own work.")
    expect(page.locator("main")).to_contain_text("Your objection is saved.")
    expect(page.locator("main")).to_contain_text(re.compile("Open, to be answered by .*It is <b>my</b> own work."))
    answer(Objection.objects.get().key, None, keeper, "accepted", "We read it again.", timezone.now())
    page.reload()
    expect(page.locator("main")).to_contain_text(re.compile(r"Accepted: .*Answer of \d+ \w+ \d+: “We read it again.”"))


def test_a_link_to_one_decision_shows_no_objection_to_something_else(keeper: Person, open_page: OpenPage) -> None:
    now: datetime = timezone.now()
    Objection.objects.create(
        key="page:1", did=MARA, text="About all of it.", source="link", made_at=now, due_at=now + timedelta(days=30)
    )
    page = open_page()
    page.goto(address(keeper, "decision", OFFERED))
    expect(page.locator("main")).to_contain_text("No objection yet.")
    expect(page.locator("main")).not_to_contain_text("About all of it.")


@pytest.mark.parametrize(("purpose", "pull"), [("data", ""), ("decision", OFFERED)])
def test_no_other_site_learns_a_private_link(
    keeper: Person, open_page: OpenPage, start: Start, purpose: str, pull: str
) -> None:
    other, page = start(lambda asked: response(b"elsewhere")), open_page()
    page.goto(address(keeper, purpose, pull))
    with page.expect_navigation(url=f"{other.origin}/"):
        page.evaluate("address => location.assign(address)", f"{other.origin}/")
    asked = next(one for one in other.requests if one.path == "/")
    assert not {"referer", "origin"} & {name.lower() for name in asked.headers}


def test_a_button_copies_a_private_link_and_the_answer_to_paste(keeper: Person, open_page: OpenPage) -> None:
    Maintainer.objects.create(person=keeper, repo_key=REPO)
    client = Client()
    client.force_login(keeper)
    page = open_page(client=client)
    page.goto(f"/c/{MARA}/rights")
    page.get_by_role("button", name="Create a link for 30 days").click()
    for name, field in (("Copy the link", "The link"), ("Copy the message", "A message with the link")):
        button = page.get_by_role("button", name=name)
        button.click()
        expect(page.get_by_role("button", name="Copied").last).to_be_visible()
        page.evaluate("document.body.append(Object.assign(document.createElement('textarea'), { id: 'pasted' }))")
        page.locator("#pasted").focus()
        page.keyboard.press("Control+V")
        expect(page.locator("#pasted")).to_have_value(page.get_by_label(field, exact=True).input_value())
        page.evaluate("document.getElementById('pasted').remove()")
