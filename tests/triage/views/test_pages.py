"""Pages as a browser without scripts gets them: views from URLs, fragments, refusals, and what the snapshot holds."""

import json
import re
from dataclasses import replace
from html import unescape
from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django import Settings

from scoring.formatting import percent
from scoring.queries import read
from tests.triage.worlds.drawn_rows import MARA, drawn_rows
from tests.triage.worlds.pages_world import DrawnWorld, draw, sign_in
from tests.triage.worlds.site import Site

pytestmark = pytest.mark.django_db
OPENED = drawn_rows()[1].uri
PAGES = ("/", f"/?open={quote(OPENED)}", f"/pull/{OPENED}", "/leaderboard", "/dashboard", f"/c/{MARA.did}", "/sign-in")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> DrawnWorld:
    settings.PUBLIC_READ = True
    settings.STREAM_CLOCK = True
    drawn = DrawnWorld()
    draw(monkeypatch, drawn)
    return drawn


def text_of(client: Client, path: str, **headers: str) -> str:
    response = client.get(path, headers=headers)
    assert response.status_code == 200, path
    return response.content.decode()


def test_the_queue_shows_its_groups_with_counts_and_ages(client: Client, world: DrawnWorld) -> None:
    page = text_of(client, "/")
    heads = re.findall(r'<h2 id="group-(\w+)">', page)
    assert heads == ["needs_human", "normal_queue", "fast_lane", "own"]
    ages = re.findall(r"<p>(oldest[^<]*)<", page)
    assert ages == ["oldest 16 h", "oldest 3 d, first-timer 21 h", "oldest 6 h", "oldest 1 d"]


def test_a_bucket_in_the_url_shows_that_lane_alone_and_marks_its_tile(client: Client, world: DrawnWorld) -> None:
    page = text_of(client, "/?bucket=fast_lane")
    assert "Fix flaky knot test" in page
    assert "Cache repository listing" not in page
    assert re.search(r'<a id="tile-fast_lane"[^>]*aria-current="true"', page)
    assert re.search(r'type="hidden" name="bucket" value="fast_lane" form="filters"', page)


def test_the_filter_line_repeats_what_the_url_says(client: Client, world: DrawnWorld) -> None:
    page = text_of(client, '/?q=cache"list&sort=oldest&repository=did:plc:corecorecorecorecorecore')
    assert 'value="cache&quot;list"' in page
    assert '<option value="oldest" selected>' in page
    assert '<option value="did:plc:corecorecorecorecorecore" selected>' in page
    assert "No open pull request matches this filter" in page


@pytest.mark.parametrize("query", ["bucket=../etc", "sort=score%00", "q=" + "x" * 5000])
def test_a_value_that_cannot_be_understood_is_left_aside_with_a_note(
    client: Client, world: DrawnWorld, query: str
) -> None:
    page = text_of(client, f"/?{query}")
    assert 'class="note"' in page
    assert ('<p class="note">No such lane: “../etc”. All lanes are shown.</p>' in page) == ("bucket" in query)


@pytest.mark.parametrize("query", ["sort=; drop", "order=sideways"])
def test_the_leaderboard_leaves_aside_what_it_does_not_know(client: Client, world: DrawnWorld, query: str) -> None:
    assert 'class="note"' in text_of(client, f"/leaderboard?{query}")


@pytest.mark.parametrize("page", ["zzz", "-1", "0", "9999999", "1%00"])
@pytest.mark.parametrize("path", ["/", "/leaderboard", "/settled"])
def test_what_names_no_page_is_not_found(client: Client, world: DrawnWorld, path: str, page: str) -> None:
    answer = client.get(f"{path}?page={page}")
    assert answer.status_code == 404
    assert "There is no page" in answer.content.decode()


def test_htmx_gets_the_fragment_of_the_same_url_and_the_address_to_push(client: Client, world: DrawnWorld) -> None:
    response = client.get("/?bucket=fast_lane&q=&sort=findings", headers={"HX-Request": "true"})
    fragment = response.content.decode()
    assert "<!doctype" not in fragment
    assert fragment.lstrip().startswith('<section id="results"')
    assert 'hx-swap-oob="true"' in fragment
    assert response["HX-Push-Url"] == "/?bucket=fast_lane"


def test_an_open_row_shows_who_and_what_and_closes_by_its_own_link(client: Client, world: DrawnWorld) -> None:
    sign_in(client, "maintainer")
    page = text_of(client, f"/?sort=oldest&open={quote(OPENED)}")
    assert page.count('aria-current="true"') == 2, "the row, and the filter in force"
    assert "Why this lane" in page
    assert "Content risk 83 %." in page
    assert "No verdict: the model refused to review it." in page
    assert "<script>alert(1)" not in page
    assert "95 % interval" in page
    assert "What would change the lane" in page
    chain = re.search(r'<ol class="chain".*?</ol>', page, re.S)
    assert chain is not None
    assert re.findall(r"<bdi>([^<]*)</bdi>", chain[0]) == ["seed.example", "ana.example", "mara.example"]
    assert re.search(r'class="back"[^>]*href="/\?sort=oldest#', page)


def test_an_open_row_says_what_others_tell_of_the_upstream(
    client: Client, world: DrawnWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(client, "viewer")
    address = f"/?open={quote(OPENED)}"
    assert "<dt>Upstream</dt>" not in text_of(client, address)
    card = read.Signal("OpenSSF Scorecard 6.4 of 10 <b>", "read", "scorecard.dev", "https://scorecard.dev/")
    key = next(row.repository_key for row in world.rows if row.uri == OPENED)
    monkeypatch.setattr(read, "upstream_facts", lambda rows, asked: (card,) if asked == key else ())
    said = "<dt>Upstream</dt><dd><bdi>OpenSSF Scorecard 6.4 of 10 &lt;b&gt;, says scorecard.dev</bdi></dd>"
    assert said in text_of(client, address)


def test_what_is_open_is_shown_also_where_the_list_leaves_it_out(client: Client, world: DrawnWorld) -> None:
    page = text_of(client, f"/?bucket=fast_lane&open={quote(OPENED)}")
    assert 'id="pull-title"' in page
    assert page.count('aria-current="true"') == 1, "the filter in force, and no row"


def test_what_is_not_open_here_is_said_in_the_pane(client: Client, world: DrawnWorld) -> None:
    page = text_of(client, "/?open=at%3A//did%3Aplc%3Anobody/x/y")
    assert "No such pull request is open here, or its repository is not watched." in page


@pytest.mark.parametrize("path", ["/", "/?sort=lowest", f"/?open={quote(OPENED)}", f"/pull/{OPENED}"])
def test_whoever_is_not_signed_in_sees_changes_and_lanes_and_nothing_of_any_person(
    client: Client, world: DrawnWorld, path: str
) -> None:
    page = text_of(client, path).partition("<main")[2].partition("<footer")[0]
    page = re.sub(r'<details class="help">.*?</details>', "", page, flags=re.S)
    words = unescape(re.sub(r"<[^>]+>", " ", page))
    assert "Cache repository listing" in words
    assert re.search(r"Flagged|Review", words)
    row = next(row for row in world.rows if row.uri == OPENED)
    told = (
        {row.author.name for row in world.rows}
        | {row.decided for row in world.rows}
        | {row.sentence for row in world.rows}
    )
    assert [name for name in told if name and name in words] == []
    assert not re.search(r"merged here|cleanly|warns about|[Ss]tays clean|no score|vouch|\d %", words)
    sign_in(client, "viewer")
    assert row.author.name in unescape(text_of(client, path))


def test_without_evidence_there_is_a_pill_without_a_number(client: Client, world: DrawnWorld) -> None:
    sign_in(client, "viewer")
    row = re.search(r"<li[^>]*>(?:(?!</li>).)*Add Norwegian strings.*?</li>", text_of(client, "/"), re.S)
    assert row is not None
    chance = re.search(r'<div class="odds">.*?</div>', row[0], re.S)
    assert chance is not None
    assert "No score yet" in chance[0]
    assert "no score yet" in chance[0]
    assert not re.search(r"\d", chance[0])


def test_a_borrowed_order_is_called_one_where_it_orders_and_no_number_is_made_of_it(
    client: Client, world: DrawnWorld
) -> None:
    sign_in(client, "viewer")
    borrowed = "borrowed from 11 other projects, not yet checked on yours"
    assert borrowed not in text_of(client, "/")
    world.rows = tuple(replace(row, borrowed_from=11) if row.first_timer else row for row in drawn_rows())
    assert text_of(client, "/?sort=lowest").count(f"Rows without a number: order {borrowed}.") == 1
    assert borrowed not in text_of(client, "/")
    newcomer = next(row.uri for row in world.rows if row.borrowed_from)
    page = text_of(client, f"/?sort=oldest&open={quote(newcomer)}")
    before, _, computed = page.partition("How this was computed")
    assert computed.count(borrowed) == 1
    assert borrowed not in before
    assert "No score yet" in page


def test_a_long_group_is_cut_and_its_bucket_has_pages(client: Client, world: DrawnWorld) -> None:
    world.rows = tuple(row for row in drawn_rows()[:1] for _ in range(120))
    page = text_of(client, "/")
    assert page.count('class="row"') == 20
    assert "Show all 120" in page
    last = text_of(client, "/?bucket=fast_lane&page=3")
    assert last.count('class="row"') == 20
    assert "Page 3 of 3" in last


def test_a_pull_request_page_leads_to_the_forges_own(client: Client, world: DrawnWorld) -> None:
    row = world.rows[0]
    link = re.search(
        f'<a[^>]* href="{row.page}" rel="noreferrer">(?:(?!</a>).)*</a>', text_of(client, f"/pull/{row.uri}")
    )
    assert link is not None
    assert re.search(r"Open \w+ #\d+ on Tangled", link[0])


def test_an_unknown_did_is_404_with_a_sentence(client: Client, world: DrawnWorld) -> None:
    response = client.get("/c/did:plc:nobodynobodynobodynobody")
    assert response.status_code == 404
    assert b"This DID wrote no record" in response.content


@pytest.mark.parametrize("text", ["mara.example", "did:", "did:plc:", "did:plc:a%20b", "did:plc:" + "a" * 3000])
def test_a_malformed_did_is_422_with_a_sentence(client: Client, world: DrawnWorld, text: str) -> None:
    response = client.get(f"/c/{text}")
    assert response.status_code == 422
    assert b"is not a DID" in response.content


def test_an_unknown_pull_request_is_404_and_the_page_leads_back(client: Client, world: DrawnWorld) -> None:
    response = client.get("/pull/at://did:plc:nobody/x/y")
    assert response.status_code == 404
    assert b"it may be merged or closed" in response.content
    assert b'href="/"' in response.content


def test_pages_answer_only_reading_methods(client: Client, world: DrawnWorld) -> None:
    assert client.post("/").status_code == 405
    assert client.head("/dashboard").status_code == 200


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", "application/json"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html"),
        ("*/*", "text/html"),
        ("text/html;q=0.5, application/json;q=0.9", "application/json"),
        ("application/json;q=0.2, text/html", "text/html"),
    ],
)
def test_the_leaderboard_is_json_only_for_who_ranks_it_higher(
    client: Client, world: DrawnWorld, accept: str, kind: str
) -> None:
    response = client.get("/leaderboard", headers={"Accept": accept})
    assert response["Content-Type"].startswith(kind)
    if kind == "application/json":
        assert json.loads(response.content)["total"] == 1218


def test_a_header_of_the_leaderboard_says_its_order_and_turns_it_round(client: Client, world: DrawnWorld) -> None:
    page = text_of(client, "/leaderboard?sort=merged")
    assert re.search(r'aria-sort="descending"><a id="sort-2" href="/leaderboard\?sort=merged&amp;order=up"', page)
    assert page.count('aria-sort="none"') == 3
    assert page.count('<td class="number"><span class="quiet">not ranked</span></td>') == 2, "too little is settled"


def test_the_dashboard_names_the_threshold_and_repeats_its_charts_as_tables(client: Client, world: DrawnWorld) -> None:
    sign_in(client, "maintainer")
    page = text_of(client, "/dashboard")
    assert "fast lane from 90 %" in page
    assert "flagged below 30 %" in page
    assert len(re.findall(r'<tr><th scope="row">\d+ to \d+ %', page)) == 10
    assert page.count('role="img"') == 4, "backlog, waiting, lanes of first-timers, scores"
    questions = [
        "Is the backlog shrinking?",
        "How long do people wait?",
        "What did the lane let through",
        "Is the score honest, and does it tell bad from clean?",
    ]
    assert [page.index(one) for one in questions] == sorted(page.index(one) for one in questions)
    assert '<p class="answer"><strong>Yes.</strong> 12 fewer are open than 12 weeks ago.</p>' in page
    assert re.search(r"\d+ are open. Last week 32 came in and 33 were decided, without those by people with push", page)
    assert '<p class="answer">Of the 12 first-timers who got an answer in six months, half had it within 2.1' in page
    assert "Of 2 open, 2 from first-timers still wait for a first answer." in page


def test_the_dashboard_puts_a_newer_reader_beside_the_one_before_it(client: Client, world: DrawnWorld) -> None:
    page = text_of(client, "/dashboard")
    for figures in ("40", "21 %, 25 %", "3"):
        assert f'<td class="number">{figures}</td>' in page


@pytest.mark.parametrize("path", ["/", "/dashboard"])
def test_where_claude_was_chosen_and_cannot_be_asked_the_page_says_who_judges_content(
    client: Client, world: DrawnWorld, settings: Settings, path: str
) -> None:
    settings.ANTHROPIC_API_KEY, world.asks_claude = "", 2
    said = "In the 2 repositories that ask for it, only scanners judge content"
    assert said in text_of(client, path)
    settings.ANTHROPIC_API_KEY = "sk-made-up"
    assert said not in text_of(client, path)


def test_a_shut_fast_lane_is_said_once_and_no_threshold_is_drawn(client: Client, world: DrawnWorld) -> None:
    world.t_high, world.notice = None, "The fast lane is shut: 59 more settled pull requests are needed."
    sign_in(client, "maintainer")
    assert text_of(client, "/").count(f">{world.notice}<") == 1
    page = text_of(client, "/dashboard")
    assert world.notice not in page, "only the inbox and the lane's page say so"
    assert "fast lane from" not in page


def test_before_anything_is_published_every_page_says_what_to_do_next(
    client: Client, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.PUBLIC_READ = True
    draw(monkeypatch, None)
    for path in PAGES[:-1]:
        page = text_of(client, path)
        assert "No data yet" in page
        assert "make run" in page


def test_who_may_not_read_learns_nothing_from_the_frame_of_the_sign_in_page(
    client: Client, world: DrawnWorld, settings: Settings
) -> None:
    settings.PUBLIC_READ = False
    assert client.get("/").status_code == 302
    page = text_of(client, "/sign-in")
    assert world.notice not in page
    assert "Recording" not in page


@pytest.mark.parametrize("maintainer", [None, MARA.did])
def test_one_click_sign_in_is_offered_only_in_a_demo(
    client: Client, world: DrawnWorld, settings: Settings, maintainer: str | None
) -> None:
    settings.DEMO_MAINTAINER = maintainer
    assert ('action="/sign-in/demo"' in text_of(client, "/")) is (maintainer is not None)


def test_an_error_inside_a_page_is_a_page_that_says_what_happened_to_the_data(
    client: Client, world: DrawnWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.raise_request_exception = False
    monkeypatch.setattr("scoring.queries.read.leaderboard", lambda *arguments: 1 / 0, raising=False)
    response = client.get("/leaderboard")
    assert response.status_code == 500
    assert b"Nothing was changed" in response.content


def test_a_host_name_that_is_not_allowed_is_told_which_setting_names_it(client: Client) -> None:
    response = client.get("/", headers={"host": "sunstead.example.org"})
    assert response.status_code == 400
    assert "ALLOWED_HOSTS" in response.content.decode()


@pytest.fixture
def reader(client: Client, site: Site, settings: Settings) -> Client:
    sign_in(client, "viewer")
    return client


def page_of(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, path
    return response.content.decode()


def test_every_open_pull_request_is_in_the_queue_and_has_a_page(reader: Client, site: Site) -> None:
    with site.snapshot() as snapshot:
        found = read.queue(snapshot, read.QueueQuery())
    page = page_of(reader, "/")
    tiles = [int(figure.replace(",", "")) for figure in re.findall(r'<span class="figure">([\d,]+)</span>', page)]
    flagged, review, fast, would = found.counts.values()
    assert tiles == [flagged + review + fast + would, flagged, review, fast, would], "they add up to the first"
    rows = [row for group in found.groups for row in group.rows]
    assert rows
    for row in rows[:20]:
        pull = page_of(reader, f"/pull/{row.uri}")
        assert unescape(pull).count(row.author.did) >= 1
        if row.verdict.estimate.probability is not None:
            assert percent(row.verdict.estimate.probability) in pull


def test_the_dashboard_and_the_leaderboard_count_what_the_snapshot_holds(reader: Client, site: Site) -> None:
    with site.snapshot() as snapshot:
        board = read.dashboard(snapshot)
        total = read.leaderboard(snapshot, "score", True, 1).total
    assert f"of {board.events:,} events kept" in page_of(reader, "/dashboard")
    for sort in ("score", "merged", "reverts", "hops"):
        assert f"{total:,} contributors" in page_of(reader, f"/leaderboard?sort={sort}&order=up")
