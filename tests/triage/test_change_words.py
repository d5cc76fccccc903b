"""The log of changes in words."""

from typing import Any

import pytest

from triage.models import Action, ContributorLink, Objection
from triage.views.people import CODES, told_details, what_words


def test_what_was_done_is_said_in_words_and_an_unknown_kind_as_it_is_stored() -> None:
    assert what_words("lane.closed") == "Closed the fast lane"
    assert what_words("something.new") == "something.new"


def test_identifiers_and_empty_values_are_left_out() -> None:
    assert told_details({"key": "9f", "batch": "", "because": "it broke"}) == ("because: it broke",)
    assert told_details({"before": None, "since": "viewer"}) == ("before: none", "now: viewer")
    assert told_details({"would_merge": False}) == ("would have merged it as sent: no",)


def test_settings_are_said_as_on_their_own_page() -> None:
    assert told_details({"changes": {"shadow": [True, False]}}) == ("Shadow mode: on, now off.",)


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
