"""The words of changes, of the first reading's progress and of links to the forge."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from scoring.queries import read
from scoring.queries.progress import LEAST_ACCOUNTS, LEAST_SECONDS, FirstReading, seconds_left
from scoring.queries.read import ForgeHome, Place
from tests.ingest.stream.frames import MARA, REPO, SEED, Frames
from tests.pipeline import opened
from tests.scoring.small import OFFERED, settled, take
from triage.models import Action, ContributorLink, Objection
from triage.presenters.queue.rows import ForgePlace, forge_place
from triage.presenters.setup import choices, minutes_words, progress_of, read_ticks
from triage.presenters.text import place_words
from triage.templatetags.ui import recorded
from triage.views.people.people import CODES, told_details, what_words


def test_what_was_done_is_said_in_words_and_an_unknown_kind_as_it_is_stored() -> None:
    assert what_words("lane.closed") == "Closed the fast lane"
    assert what_words("something.new") == "something.new"


def test_only_on_a_recording_is_an_unanswered_look_up_called_one_that_was_never_made(settings: Settings) -> None:
    said, first = "Look-up under way: the result of CI.", "New here; look-ups under way"
    settings.STREAM_CLOCK = False
    assert (recorded(said), recorded(first)) == (said, first)
    settings.STREAM_CLOCK = True
    assert recorded(said) == "Not looked up in a recording: the result of CI."
    assert recorded(first) == "New here; not looked up in a recording"


def test_identifiers_and_empty_values_are_left_out() -> None:
    assert told_details({"key": "9f", "batch": "", "because": "it broke"}) == ("because: it broke",)
    assert told_details({"before": None, "since": "viewer"}) == ("before: none", "now: viewer")
    assert told_details({"would_merge": False}) == ("would have merged it as sent: no",)


def test_settings_are_said_as_on_their_own_page() -> None:
    assert told_details({"changes": {"shadow": [True, False]}}) == ("Only watching: on, now off.",)


def test_the_figures_of_an_opened_lane_are_counts_and_percents() -> None:
    details = {"threshold": 0.75, "cases": 208.0, "bad": 12.0, "bad_low": 0.04228617312125449, "bad_high": 0.2282842915}
    assert told_details(details) == (
        "threshold: 75 %",
        "settled pull requests: 208",
        "bad ones of these: 12",
        "true share of bad ones, in percent: 4.2\N{EN DASH}22.9",
    )


def test_a_mark_says_how_it_turned_out() -> None:
    assert told_details({"key": "k", "batch": "", "outcome": "needed_fix"}) == ("outcome: needed a fix",)
    assert told_details({"key": "k", "batch": "", "outcome": ""}) == ()
    assert told_details({"before": 1, "since": None, "kind": True}) == ("before: 1", "now: none", "it was: yes")


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({"kind": "pull_for_review", "key": "k"}, "it was: an assignment"),
        ({"purpose": "data", "pull_uri": ""}, "for: everything stored"),
        ({"purpose": "decision", "pull_uri": "at://x"}, "for: one decision"),
        ({"source": "link"}, "from: a private link"),
        ({"because": "data"}, "because: data"),
        ({"until": "until 3 Dec 2026"}, "until 3 Dec 2026"),
        ({"until": "until it changes"}, "until it changes"),
    ],
)
def test_a_code_of_ours_is_said_in_words_and_words_of_people_stay(details: dict[str, Any], said: str) -> None:
    assert told_details(details) == (said,)


def test_every_kind_of_action_of_link_and_of_objection_has_words() -> None:
    named = {"kind": Action.Kind, "purpose": ContributorLink.Purpose, "source": Objection.Source}
    assert {name: [one for one in kinds.values if one not in CODES[name]] for name, kinds in named.items()} == {
        "kind": [],
        "purpose": [],
        "source": [],
    }


READING = FirstReading("reading", is_heard=True, watched=2, unasked=0, pulls=3, accounts=40, ended=12, records=900)
RECORD = "at://did:plc:a/x/lantern"


def repository(**changes: object) -> dict[str, object]:
    told: dict[str, object] = {"record": RECORD, "repo_key": "k", "name": "lantern", "is_fork": False}
    return told | {"is_watched": False, "is_disputed": False, "holders": [], "silent": ""} | changes


def headline(reading: FirstReading, handed_over: int = 0) -> str:
    found = progress_of(reading, handed_over)
    assert found is not None
    return found.headline


def test_nothing_is_shown_before_anything_was_begun() -> None:
    assert progress_of(replace(READING, state="none"), 0) is None
    assert progress_of(replace(READING, state="none"), 1) is not None


def test_without_a_pace_no_time_is_told() -> None:
    assert headline(READING) == "The time it takes is not known yet."


@pytest.mark.parametrize(
    ("seconds", "words"), [(1, "a minute"), (60, "a minute"), (61, "2 minutes"), (240, "4 minutes")]
)
def test_minutes_are_rounded_up(seconds: float, words: str) -> None:
    assert minutes_words(seconds) == words
    assert headline(replace(READING, seconds_left=seconds)) == f"Inbox ready in about {words}."


def test_it_is_usable_only_once_who_may_push_is_known_and_everything_was_taken_over() -> None:
    done = replace(READING, state="done")
    assert headline(done) == "The inbox is ready."
    assert "knots" in headline(replace(done, unasked=1))
    assert headline(done, handed_over=1) == "Almost ready: the worker applies your choice."
    found = progress_of(done, 1)
    assert found is not None
    assert found.is_moving


def test_what_could_not_be_had_and_who_is_read_later_are_told() -> None:
    found = progress_of(replace(READING, missing=2, rest=(100, 5_000)), 0)
    assert found is not None
    told = " ".join(step.words for step in found.steps)
    assert "12 of at least 40 accounts read, 900 records, 3 pull requests; 2 could not be read" in told
    assert "100 of 5,000 accounts read so far" in told


@pytest.mark.parametrize(
    ("ended", "elapsed"), [(0, 1e6), (LEAST_ACCOUNTS - 1, 1e6), (1_000, LEAST_SECONDS / 2), (5, -3.0)]
)
def test_a_pace_is_not_told_from_too_little(ended: int, elapsed: float) -> None:
    assert seconds_left(ended, 5_000, elapsed) is None


@given(st.integers(3, 10_000), st.integers(0, 10_000), st.floats(5, 1e6))
def test_the_rest_takes_as_long_as_its_share_took(ended: int, rest: int, elapsed: float) -> None:
    assert seconds_left(ended, ended + rest, elapsed) == pytest.approx(elapsed * rest / ended)
    assert seconds_left(ended, 0, elapsed) == 0


def test_a_crowd_of_push_holders_is_named_in_part_and_counted() -> None:
    found = {"did": "did:plc:owner", "handles": {"did:plc:3": "three.example"}}
    holders = [f"did:plc:{number}" for number in range(40)]
    (one,) = choices({**found, "repositories": [repository(holders=holders)]}, {})
    assert one.seeds[0] == "did:plc:owner"
    assert "three.example" in one.seeds
    assert len(one.seeds) + one.more_seeds == 41
    assert (one.is_ticked, one.review) == (False, "deterministic")


def test_what_was_ticked_stays_ticked_with_its_answer() -> None:
    ticked = read_ticks({f"review:{RECORD}": "claude", "review:other": "off"}, [RECORD, "x"])
    assert ticked == {RECORD: "claude", "x": "deterministic"}
    (one,) = choices({"did": "d", "handles": {}, "repositories": [repository()]}, ticked)
    assert (one.is_ticked, one.review) == (True, "claude")


SITE = "https://tangled.org"
HOME = ForgeHome(MARA, SEED, "seed.example", "lantern", 12)


@pytest.mark.parametrize(
    ("home", "url", "words"),
    [
        (HOME, "/seed.example/lantern/pulls/12", "Open lantern #12 on Tangled"),
        (ForgeHome(MARA, SEED, None, "lantern", 12), f"/{SEED}/lantern/pulls/12", "Open lantern #12 on Tangled"),
        (
            ForgeHome(MARA, SEED, "seed.example", "lantern", None),
            "/seed.example/lantern/pulls",
            "Open lantern on Tangled",
        ),
        (ForgeHome(MARA, SEED, "seed.example", None, 12), f"/{MARA}", "Open its author on Tangled"),
        (ForgeHome(MARA, None, None, "lantern", None), f"/{MARA}", "Open its author on Tangled"),
    ],
)
def test_a_link_leads_to_the_nearest_page_that_is_known(home: ForgeHome, url: str, words: str) -> None:
    found = forge_place(home, f"{SITE}/")
    assert found is not None
    assert found.url == SITE + url
    assert found.words == words


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a?b", "a#b", "a b", "\u202elantern", "", "x" * 101, "a\n"])
def test_a_name_that_the_forge_would_not_give_leads_to_the_author(name: str) -> None:
    assert forge_place(ForgeHome(MARA, SEED, "seed.example", name, 12), SITE) == ForgePlace(
        f"{SITE}/{MARA}", "Open its author on Tangled"
    )


@pytest.mark.parametrize("author", ["javascript:alert(1)//", "", "did:plc:a/../b"])
def test_of_an_author_without_a_readable_did_there_is_no_link(author: str) -> None:
    assert forge_place(ForgeHome(author, None, None, None, None), SITE) is None


def test_a_repository_that_moved_is_addressed_by_its_owner_and_name_of_today(tmp_path: Path) -> None:
    with opened(tmp_path) as result:
        take(result, settled("open"))
        with result.store.write() as txn:
            page = {"pull_uri": OFFERED, "number": 7, "url": f"{SITE}/seed.example/lantern/pulls/7"}
            txn.append_new("pull_pages", [page])
            txn.execute("update contributors set handle = 'seed.example', handle_verified = true where did = ?", [SEED])
        with result.reading() as rows:
            assert forge_place(read.forge_home(rows, OFFERED, MARA, REPO), SITE) == ForgePlace(
                page["url"], "Open lantern #7 on Tangled"
            )
        frames = Frames(settled("open"))
        frames.repository(SEED, "lantern", "update", name="lamp", repoDid=REPO)
        take(result, frames)
        with result.store.write() as txn:
            txn.execute("update contributors set handle = 'house.example' where did = ?", [SEED])
        with result.reading() as rows:
            moved = forge_place(read.forge_home(rows, OFFERED, MARA, REPO), SITE)
            assert moved == ForgePlace(f"{SITE}/house.example/lamp/pulls/7", "Open lamp #7 on Tangled")
        frames.delete(SEED, "sh." + "tangled.repo", "lantern")
        take(result, frames)
        with result.reading() as rows:
            gone = forge_place(read.forge_home(rows, OFFERED, MARA, REPO), SITE)
            assert gone == ForgePlace(f"{SITE}/{MARA}", "Open its author on Tangled")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (
            Place(1, 35, "changed", "chance", 2, 2, 0),
            "1 of 35: it changed after an approval or a request, and those come first.",
        ),
        (
            Place(3, 1_035, "turn", "chance", 2, 2, 90),
            "3 of 1,035: every third place goes to the first-timer who has waited longest, and that is this one.",
        ),
        (Place(9, 9, "author", "risk", 2, 2, 1), "9 of 9: its author has the next word, and those come last."),
        (
            Place(7, 9, "copy", "risk", 2, 2, 1),
            "7 of 9: another of theirs with this title stands above, and copies come after the rest.",
        ),
        (Place(4, 9, "newest", "risk", 2, 2, 1), "4 of 9: the newest come first."),
        (
            Place(4, 9, "need", "unknown", 5, 5, 1),
            "4 of 9 in this list: need 5 of 9 as wherever the chance is unknown; 1 day here.",
        ),
        (
            Place(4, 9, "need", "chance", 3, 5, 44),
            "4 of 9 in this list: need 3 of 9 from its chance, and 2 more for waiting 44 days.",
        ),
        (
            Place(4, 9, "need", "borrowed", 7, 7, 0),
            "4 of 9 in this list: need 7 of 9 as such changes in other projects tell, since it has no score; "
            "first seen today.",
        ),
        (
            Place(4, 9, "need", "finding", 8, 8, 0),
            "4 of 9 in this list: need 8 of 9 from its finding and its chance together; first seen today. "
            "No row goes before a finding only by waiting.",
        ),
    ],
)
def test_the_words_of_a_place_name_what_ordered_it(place: Place, said: str) -> None:
    assert place_words(place) == said
