"""Words of the pages: every number has its sentence there, no phrase that readers stumbled over, and /about is true."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import pytest
from django.conf import settings
from django.test import Client
from pytest_django import Settings

from scoring.explain import decided, sentences, spoken
from scoring.pipeline.interventions import DAYS
from tests.ingest.stream.frames import MARA
from tests.pipeline import UNAUDITED
from tests.scoring.explain.test_plain import Watched
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.lane_site import NEXT, lane_site
from tests.triage.worlds.pages_world import sign_in
from triage.presenters.about import HELP, PLACES, help_for, sections
from triage.views.about import facts_from_settings

pytestmark = pytest.mark.django_db
BEN = "did:plc:" + "3" * 24
PATHS = {
    "queue": "/",
    "panel": f"/?open={quote(NEXT)}",
    "backlog": "/dashboard",
    "stored": "/dashboard",
    "reliability": "/dashboard",
    "approvals": "/dashboard",
    "fares": "/dashboard",
    "contributor": f"/c/{MARA}",
    "vouched": f"/c/{MARA}",
    "record": f"/c/{MARA}",
    "leaderboard": "/leaderboard",
}


@pytest.fixture
def site(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ActingSite]:
    with lane_site(tmp_path, settings, monkeypatch) as made:
        yield made


def shown(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return answer.content.decode()


def about(settings: Settings, **changes: object) -> str:
    for name, value in changes.items():
        setattr(settings, name, value)
    return " ".join(sentence for part in sections(facts_from_settings((1, 3))) for sentence in part.sentences)


def test_every_number_of_a_page_has_its_sentence_there(site: ActingSite, client: Client) -> None:
    sign_in(client, "viewer")
    for place, path in PATHS.items():
        page = shown(client, path)
        for name, _ in help_for(place, 14, 0.05):
            assert f"<strong>{name.replace('&', '&amp;')}</strong>:" in page, (place, name)


def test_every_figure_of_what_is_stored_and_the_tiles_of_the_queue_are_explained(
    site: ActingSite, client: Client
) -> None:
    page = shown(client, "/dashboard")
    stored = page[page.index("What is stored") : page.index("Scores of contributors</h3>")]
    labels = re.findall(r'<tr><th scope="row">([A-Z][^<]+)</th>', stored)
    assert len(labels) >= 6
    assert [label for label in labels if label not in HELP] == []
    tiles = re.findall(r'class="tile-name">([^<]+)</span>', shown(client, "/"))
    assert len(tiles) == 4
    assert [tile for tile in tiles if tile.strip() not in HELP] == []


def test_help_opens_without_scripts_or_a_pointer_that_hovers(site: ActingSite, client: Client) -> None:
    sign_in(client, "viewer")
    page = shown(client, "/")
    assert page.count('<details class="help">') == 1
    assert shown(client, PATHS["panel"]).count('<details class="help">') == 2, "that of the list and that of the pane"
    assert not re.search(r'<details class="help">(?:(?!</details>).)*title=', page, re.DOTALL)


def test_each_sentence_stands_somewhere_and_is_short_enough_to_be_read() -> None:
    used = {name for names in PLACES.values() for name in names}
    assert used == HELP.keys()
    assert [name for name, words in HELP.items() if len(words) > 260 or not words.endswith(".")] == []


def test_help_names_the_window_and_the_budget_of_the_site() -> None:
    told = dict(help_for("queue", 30, 0.025))
    assert "within 30 days" in told["Stays clean"]
    assert "budget of 2.5 %" in told["Fast lane"]
    assert not any("{" in words for words in told.values())


def test_an_empty_fast_lane_says_what_is_lacking_and_which_vouches_help(
    site: ActingSite, client: Client, settings: Settings
) -> None:
    maintainer = site.maintainer(BEN, "ben.example")
    site.result.policy = UNAUDITED
    site.result.judge()
    site.publish()
    page = shown(maintainer, "/?bucket=fast_lane")
    assert "The fast lane is shut" in page
    assert "needed" in page
    assert "Vouches worth making" in page
    assert "Vouches worth making" not in shown(client, "/?bucket=fast_lane"), "a reader makes none here"


def test_about_is_linked_from_every_page_and_open_to_everybody(
    site: ActingSite, client: Client, settings: Settings
) -> None:
    settings.PUBLIC_READ = False
    page = shown(client, "/about")
    assert page.count("<h1>") == 1
    for part in ("What is never used", "What leaves this machine", "How to object"):
        assert part in page
    for path in ("/about", "/sign-in"):
        assert 'href="/about"' in shown(client, path)


def test_about_says_whether_claude_is_on_and_which_models_read(settings: Settings) -> None:
    off = about(settings, ANTHROPIC_API_KEY="")
    assert "Claude is off here" in off
    assert "To Anthropic: nothing" in off
    on = about(
        settings, ANTHROPIC_API_KEY="sk-very-secret", CLAUDE_MODEL="m-1", CLAUDE_HARD_MODEL="", REVIEW_DOLLARS_A_DAY=2.5
    )
    assert "Claude (m-1) reads those of repositories whose maintainers allow it, now 1 of 3" in on
    assert "at most $2.50 a day" in on
    assert "api.anthropic.com" in on
    assert "sk-very-secret" not in on


def test_about_names_budget_window_hosts_and_days_as_they_are_set(settings: Settings) -> None:
    told = about(
        settings,
        FALSE_APPROVAL_BUDGET=0.02,
        LABEL_WINDOW_DAYS=21,
        PLC_URL="https://plc.example.test",
        ASK_ADVISORIES=True,
        ASK_REGISTRIES=True,
        STREAM_CLOCK=False,
        T_HIGH=0.9,
    )
    for words in (
        "at most 2 %",
        "within 21 days",
        "plc.example.test",
        "the operator set the threshold by hand",
        f"within {DAYS} days",
    ):
        assert words in told
    assert "To osv.dev and deps.dev: names and versions" in told
    assert "To npm and crates.io: names of packages that pull requests add" in told
    assert "To npm, crates.io and PyPI: the accounts" in told
    assert "To scorecard.dev and GitHub: the upstream" in told
    closed = about(settings, ASK_ADVISORIES=False, ASK_REGISTRIES=False)
    assert "To osv.dev and deps.dev: nothing" in closed
    assert "To npm" not in closed
    assert "scorecard.dev" not in closed


def test_about_names_the_audits_share_of_each_kind_of_lane(settings: Settings) -> None:
    told = about(settings, AUDIT_SHARE=0.05, ESTIMATED_AUDIT_SHARE=1 / 3)
    assert "draws 33.3 % of an estimated fast lane and at least 5 % of a certified one" in told


def test_about_a_recording_says_that_nothing_leaves(settings: Settings) -> None:
    assert "Nothing: a recording is shown" in about(settings, STREAM_CLOCK=True)


@pytest.mark.parametrize("measure", ["first_passage", "eigentrust"])
def test_about_explains_the_measure_that_serves(settings: Settings, measure: str) -> None:
    assert ("EigenTrust" in about(settings, TRUST=measure)) == (measure == "eigentrust")


# Each stands for a better one: "merge" for what is neither, a name for what it names.
FORBIDDEN = """
    contributions?\\b(?! graph)|push[ -]holders?|who may push|by itself|P\\(clean\\)|\\brecipe\\b|is no seed
    label_(?:merge|clean)|s (?:>=|≥|&gt;=) ?0?\\.5|first passage|self-lift|Not listening|nobody named an account
    What its \\d+ message|things? found in it|Keep note|Note kept|Pull into my review|I am looking|It turned out
    Mark outcome|mined: nothing|void: it changed|known not to hold|If somebody attacks|Not played|can be talked into
    What holds here|As the operator of this site set it|People who are no seed|Seeds besides those|Paths that are never
    Nobody closed it|Only for trust that comes|everybody who meets it|Hand a link|None was handed out|Object for them
    Who wrote these, and what|Said on this site|Listed, once there|do not belong together|This is not yours
    The same again|at most about|Nothing was seen|separate way leads|still being watched|which nobody confirms
    across a bound|Ways that share nobody|Drawn for the audit|Keys of one letter|Judged with data up to
    Not enough evidence|threshold set by hand|shadow mode|\\(addressed\\)|\\(dangerous\\)|Denounced by a seed
    \\(replaced\\)|\\(newest\\)|(?-i:Read the change)|False approvals|Dead letters?|Ingest lag
    Account events of strangers|closed unmerged|Who: structural|What: content|Approve the selected
    shown only\\b(?! once)|being scored at all
"""
_FORBIDDEN = re.compile("|".join(line.strip() for line in FORBIDDEN.strip().splitlines()), re.IGNORECASE)
TEMPLATES = sorted((Path(settings.BASE_DIR) / "templates").rglob("*.html"))


def clumsy(text: str) -> list[str]:
    """The forbidden phrases of a text that is read, with a word or two around each."""
    return [text[max(0, found.start() - 20) : found.end() + 20] for found in _FORBIDDEN.finditer(text)]


def test_the_reader_of_words_finds_what_is_forbidden_and_nothing_else() -> None:
    assert clumsy("Merged by a push-holder") == ["Merged by a push-holder"]
    assert clumsy("It closes nothing by itself. P(clean) of their contributions")[1:]
    assert not clumsy("A contributor's pull request; of people with push access 50 % stays clean")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_holds_a_forbidden_phrase(path: Path) -> None:
    code = r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<code>.*?</code>"
    source = re.sub(code, " ", path.read_text(), flags=re.DOTALL)
    labels = " ".join(re.findall(r'\b(?:aria-label|title|placeholder|alt)="([^"]*)"', source))
    assert clumsy(f"{re.sub('<[^>]*>', ' ', source)} {labels}") == []


def told() -> Iterator[tuple[str, str]]:
    """Every sentence of the tables of reasons and of help, by where it stands."""
    tables: Mapping[str, Mapping[str, object]] = {
        "sentence": sentences.SENTENCES,
        "own": sentences.OWN_SENTENCES,
        "clause": decided.CLAUSES,
        "held": spoken.HELD,
        "known": spoken.KNOWN,
    }
    for name, table in tables.items():
        for code, write in table.items():
            assert callable(write)
            yield f"{name} {code}", str(write(Watched()))
    yield from sentences.PLAIN_SENTENCES.items()
    yield from ((f"help {name}", f"{name}: {words}") for name, words in HELP.items())


def test_no_sentence_of_a_reason_and_no_help_holds_a_forbidden_phrase() -> None:
    assert {place: found for place, words in told() if (found := clumsy(words))} == {}
