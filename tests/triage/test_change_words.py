"""The log of changes in words."""

from triage.change_words import told_details, what_words


def test_what_was_done_is_said_in_words_and_an_unknown_kind_as_it_is_stored() -> None:
    assert what_words("lane.closed") == "Closed the fast lane"
    assert what_words("something.new") == "something.new"


def test_identifiers_and_empty_values_are_left_out() -> None:
    assert told_details({"key": "9f", "batch": "", "because": "it broke"}) == ("because: it broke",)
    assert told_details({"before": None, "since": "viewer"}) == ("before: none", "now: viewer")
    assert told_details({"would_merge": False}) == ("would have merged it as sent: no",)


def test_settings_are_said_as_on_their_own_page() -> None:
    assert told_details({"changes": {"shadow": [True, False]}}) == ("Shadow mode: on, now off.",)


def test_a_mark_says_how_it_turned_out() -> None:
    assert told_details({"key": "k", "batch": "", "outcome": "needed_fix"}) == ("outcome: needed a fix",)
    assert told_details({"key": "k", "batch": "", "outcome": ""}) == ()
    assert told_details({"before": 1, "since": None, "kind": True}) == ("before: 1", "now: none", "what: yes")
