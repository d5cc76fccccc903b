"""Trust on pages and in JSON: ways, what they hang on, who brings what, who hangs on whom."""

import html
from dataclasses import replace

import pytest
from django.test import Client
from pytest_django import Settings

from scoring.gate import decide
from scoring.queries import read
from scoring.queries.read import TrustExplanation
from scoring.thresholds import Thresholds
from scoring.types import Evidence
from tests.triage.worlds.drawn_rows import ANA, MALLORY, MARA, NOW, SEED
from tests.triage.worlds.pages_world import DrawnWorld, draw, sign_in
from tests.triage.worlds.site import Site
from triage.models import Maintainer, Person
from triage.presenters.contributor import paths_sentence
from triage.presenters.text import (
    dependents_words,
    missing_evidence,
    no_path_words,
    share_words,
    trust_sentences,
    vouching_words,
    worth_words,
)

pytestmark = pytest.mark.django_db
NOTHING = TrustExplanation(None, (), None, (), (), 0, 0.5)


@pytest.fixture(autouse=True)
def open_site(settings: Settings) -> None:
    """Anybody may read."""
    settings.PUBLIC_READ = True


@pytest.fixture(name="world")
def world_fixture(monkeypatch: pytest.MonkeyPatch) -> DrawnWorld:
    """The drawn world behind the pages."""
    world = DrawnWorld()
    draw(monkeypatch, world)
    return world


def text(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_pull_request_shows_the_ways_and_what_each_voucher_brings(client: Client, world: DrawnWorld) -> None:
    sign_in(client, "maintainer")
    page = text(client, f"/pull/{world.rows[1].uri}")
    assert page.count('<ol class="chain"') == 2, "the two that share nobody; the strongest is one of them"
    assert "2 steps from the nearest seed, over 2 independent paths." in page
    assert f"Seen from the maintainers of {world.rows[1].repository_name}." in page
    assert "seen from all maintainers</h2>" in client.get(f"/c/{MARA.did}").text
    assert "100 %" in page
    assert "under 1 %" in page
    assert "merged 7 times" in page
    assert "1 person is trusted with 0.50 or more only through vouches by this account." in page
    assert "<b>mallory" not in page, "names from the network are escaped"


def test_a_contributors_page_draws_each_path_with_the_weight_of_every_vouch_and_what_it_brings(
    client: Client, world: DrawnWorld
) -> None:
    page = text(client, f"/c/{MARA.did}")
    drawn = page[page.index('<ol class="paths"') : page.index("Percent: the share")]
    assert drawn.count("<li>") == 2
    assert drawn.count('class="chip seed"') == drawn.count('class="chip me"') == 2
    for weight in ("1 <span", "0.7 <span", "0.9 <span", "0.31 <span"):
        assert f"</span>{weight}" in drawn
    assert "They share no account except seeds." in page
    assert "“&lt;i&gt;solid&lt;/i&gt;⟨U+202E⟩”" in drawn


def test_paths_that_hang_on_one_seed_or_bring_next_to_nothing_are_said_to() -> None:
    faint = read.Contribution(MALLORY, 0.004, 0)
    paths = ((SEED, MARA), (SEED, MALLORY, MARA))
    found = replace(NOTHING, distance=1, paths=paths, vouchers=(read.Contribution(SEED, 0.9, 0), faint))
    assert paths_sentence(found, "") == (
        f"They share no account except seeds. All begin at {SEED.name}; 1 brings under 1 %."
    )


def test_a_private_link_takes_one_button(client: Client, world: DrawnWorld) -> None:
    sign_in(client, "maintainer")
    form = text(client, f"/c/{MARA.did}").partition(f'action="/c/{MARA.did}/links"')[2].partition("</form>")[0]
    assert "Create private link</button>" in form


def test_a_ring_that_no_seed_reaches_weighs_nothing_and_a_seed_is_named_as_one(
    client: Client, world: DrawnWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = world.contributor(None, MARA.did)
    assert page is not None
    ring = [
        read.VouchLine(read.Person(f"did:plc:{n}", f"ring-{n}.example"), "vouch", "great work", NOW) for n in range(12)
    ]
    real = (read.VouchLine(SEED, "vouch", "solid", NOW), *ring)
    found = replace(
        world.explain_trust(None, MARA.did, None, None) or NOTHING, vouchers=(read.Contribution(SEED, 1, 0),)
    )
    monkeypatch.setattr(read, "contributor", lambda *given: replace(page, vouches=real))
    monkeypatch.setattr(read, "explain_trust", lambda *given: found)
    shown = text(client, f"/c/{MARA.did}")
    assert "12 vouches weigh nothing: no path from the seeds." in shown
    assert shown.count("nothing: no path to the seeds") == 12
    listed = shown[shown.index("Show all 13 vouches") :]
    assert listed.count('<span class="tag">seed</span>') == 1
    assert "great work" not in shown[: shown.index("Show all 13 vouches")], "none of them is drawn beside the paths"


def test_a_pull_request_is_explained_from_its_repositorys_seeds(client: Client, world: DrawnWorld) -> None:
    sign_in(client, "viewer")
    page = text(client, f"/pull/{world.rows[1].uri}")
    assert "If ana.example were compromised, this trust would be gone." in page
    opened = text(client, f"/?open={world.rows[1].uri}")
    assert "If ana.example were compromised, this trust would be gone." in opened


def test_of_whom_a_seed_denounces_no_missing_path_is_called_unknown() -> None:
    verdict = decide.judge(Evidence(denounced_by_seed=True), Thresholds(t_high=0.8), 0.55, 5.0)
    assert no_path_words(verdict) == "Someone trusted here warns about this contributor, so no vouch for them counts."
    assert missing_evidence(verdict, (), False) == ("no settled pull request like it", "content not reviewed yet")
    known = decide.judge(Evidence(), Thresholds(t_high=0.8), 0.55, 5.0)
    assert no_path_words(known) == "No trust path from the seeds. That is unknown, not bad."
    assert missing_evidence(known, (), False)[0] == "no trust path from the seeds"


def test_of_whom_nobody_vouches_for_only_the_missing_path_is_told(client: Client, world: DrawnWorld) -> None:
    page = text(client, f"/c/{MALLORY.did}")
    assert "No trust path from the seeds. That is unknown, not bad." in page
    assert "compromised" not in page
    assert trust_sentences(NOTHING) == ()
    assert dependents_words(NOTHING) == ""


@pytest.mark.parametrize(
    ("distance", "dominator", "said"),
    [
        (0, None, ()),
        (1, None, ("One step from the nearest seed.",)),
        (
            2,
            ANA,
            ("2 steps from the nearest seed.", "If ana.example were compromised, this trust would be gone."),
        ),
        (3, None, ("3 steps from the nearest seed.", "No single account carries all of it.")),
    ],
)
def test_what_trust_hangs_on_is_said_in_words(distance: int, dominator: read.Person, said: tuple[str, ...]) -> None:
    found = TrustExplanation(distance, ((SEED, ANA, MARA),), dominator, (), (), 0, 0.5)
    assert trust_sentences(found) == said


def test_figures_read_as_people_say_them() -> None:
    assert [share_words(share) for share in (1.0, 0.625, 0.004)] == ["100 %", "62 %", "under 1 %"]
    assert [vouching_words(merges) for merges in (0, 1, 7)] == ["vouched", "merged once", "merged 7 times"]
    many = TrustExplanation(1, (), None, (), (), 1200, 0.5)
    assert dependents_words(many).startswith("1,200 people are trusted with 0.50 or more only")


def test_ones_own_page_leads_a_maintainer_to_the_vouches_worth_making(client: Client, world: DrawnWorld) -> None:
    link = '<a href="/vouches">Vouches worth making</a><a href="/settled?q='
    person = Person.objects.create(did=MARA.did)
    client.force_login(person)
    assert link not in text(client, f"/c/{MARA.did}")
    Maintainer.objects.create(person=person)
    assert link in text(client, f"/c/{MARA.did}")
    assert link not in text(client, f"/c/{MALLORY.did}")


def test_a_maintainer_is_told_what_each_repositorys_own_seeds_would_gain(client: Client, world: DrawnWorld) -> None:
    person = Person.objects.create(did=MARA.did)
    for key in ("did:plc:one", "did:plc:two"):
        Maintainer.objects.create(person=person, repo_key=key)
    client.force_login(person)
    page = text(client, "/vouches")
    assert "2 people more would too." in page
    assert "6 of 7" in page
    assert "Worst case: 1 fake." in page
    assert page.count("From the seeds of the whole site") == 1
    assert page.count("From the seeds of <bdi>did:plc:") == 2


@pytest.mark.parametrize(
    ("after", "opens", "exposure", "said"),
    [
        (0.9, 0, 0, "Reaches 0.50. Worst case: no fake."),
        (0.4, 0, 0, "Stays below 0.50. Worst case: no fake."),
        (0.9, 1, 30, "Reaches 0.50. 1 person more would too. Worst case: 30 fakes."),
    ],
)
def test_what_a_vouch_would_open_and_expose_is_said_in_words(
    after: float, opens: int, exposure: int, said: str
) -> None:
    assert worth_words(read.VouchWorth(MARA, 3, 3, 3, 0.0, after, opens, exposure, 0.5)) == said


def test_json_tells_the_same_of_a_whole_network(client: Client, site: Site) -> None:
    told = 0
    for did in site.cast.values():
        score, trust = (client.get(f"/{what}/{did}").json() for what in ("score", "trust"))
        reached = score["structural_trust"] > 0
        assert (trust["distance"] is not None) is reached
        assert bool(trust["paths"]) is reached
        assert all(path[-1]["did"] == did for path in trust["paths"])
        if reached and trust["distance"]:
            told += 1
            assert sum(one["share"] for one in trust["vouchers"]) == pytest.approx(1, abs=1e-3)
            page = html.unescape(client.get(f"/c/{did}").content.decode())
            dominator = trust["dominator"]
            assert ("were compromised, this trust would be gone" in page) is (dominator is not None)
    assert told > 10
    known = next(iter(site.cast.values()))
    for address, code in (
        ("/trust/did:plc:nobody2222222222222222", "unknown_contributor"),
        (f"/trust/{known}?repo=nobody/nothing", "unknown_repository"),
    ):
        answer = client.get(address)
        assert (answer.status_code, answer.json()["code"]) == (404, code)
    assert client.get("/trust/nobody").status_code == 422
