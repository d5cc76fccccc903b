"""Events for the webhook: each change once, nothing sealed, nobody's words."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.queries.read import LaneState, Standing
from triage.services.webhooks import Change, Event, StandingClosure, State, changes

URI = "at://did:plc:mara/pull/one"
PULL = Standing(URI, "did:plc:lantern", 0, "normal_queue", False, False, '[{"code":"no_path","params":{}}]')
OPEN, SHUT = LaneState("did:plc:lantern", True, ""), LaneState("did:plc:lantern", False, "lane_alarm")
CLOSURE = StandingClosure("c1", "author", "did:plc:lantern")
EMPTY = State((), ())


def found(told: dict[tuple[str, str], str], state: State) -> list[Change]:
    return list(changes(told, state, lambda uri: f"https://here/{uri}"))


def after(told: dict[tuple[str, str], str], state: State) -> dict[tuple[str, str], str]:
    """What is told once all of it was."""
    kept = dict(told)
    for one in found(told, state):
        kept.pop((one.kind, one.key), None)
        if one.value is not None:
            kept[one.kind, one.key] = one.value
    return kept


def names(told: dict[tuple[str, str], str], state: State) -> list[str]:
    return [one.event.name for one in found(told, state) if one.event]


def test_a_new_pull_request_comes_from_no_lane() -> None:
    (change,) = found({}, State((PULL,), ()))
    assert change.event == Event(
        "lane.changed",
        {
            "pull_request": URI,
            "repository": "did:plc:lantern",
            "round": 1,
            "shadow": False,
            "address": f"https://here/{URI}",
            "from": None,
            "to": "normal_queue",
            "reasons": ["no_path"],
        },
    )


def test_another_lane_is_told_once_and_another_round_in_the_same_lane_is_not() -> None:
    told = after({}, State((PULL,), ()))
    assert names(told, State((replace(PULL, round=1),), ())) == []
    flagged = State((replace(PULL, lane="needs_human"),), ())
    assert names(told, flagged) == ["lane.changed"]
    assert names(after(told, flagged), flagged) == []


def test_what_is_gone_is_forgotten_without_a_word() -> None:
    told = after({}, State((replace(PULL, is_sealed=True),), ()))
    assert names(told, EMPTY) == []
    assert after(told, EMPTY) == {}


def test_a_round_that_the_audit_drew_is_due_once_and_tells_no_reason() -> None:
    sealed = replace(PULL, is_sealed=True, reasons='[{"code":"audit_drawn","params":{}},{"code":"denounced_by_seed"}]')
    events = [one.event for one in found({}, State((sealed,), ())) if one.event]
    assert [one.name for one in events] == ["lane.changed", "audit.due"]
    assert events[0].data["reasons"] == ["audit_drawn"]
    told = after({}, State((sealed,), ()))
    assert names(told, State((sealed,), ())) == []
    assert names(told, State((replace(sealed, round=1),), ())) == ["audit.due"]


def test_the_gates_lane_is_noted_first_and_told_when_it_shuts_and_opens() -> None:
    told = after({}, State((), (OPEN,)))
    assert names({}, State((), (OPEN,))) == []
    (closed,) = found(told, State((), (SHUT,)))
    assert closed.event == Event(
        "lane.closed",
        {"by": "gate", "scope": "repository", "repository": "did:plc:lantern", "reasons": ["lane_alarm"]},
    )
    assert names(after(told, State((), (SHUT,))), State((), (OPEN,))) == ["lane.opened"]


def test_a_closure_by_a_person_tells_what_kind_of_thing_it_is_about_and_not_whom() -> None:
    state = State((), (), closures=(CLOSURE,))
    (closed,) = found({}, state)
    assert closed.event == Event("lane.closed", {"by": "person", "scope": "author", "repository": "did:plc:lantern"})
    told = after({}, state)
    assert names(told, state) == []
    assert names(told, State((), (), reopened=(CLOSURE,))) == ["lane.opened"]
    assert names(told, EMPTY) == [], "one that was erased is not said to be opened"
    assert after(told, EMPTY) == {}


@given(
    st.lists(
        st.builds(
            lambda n, lane, sealed, number: replace(PULL, uri=f"{URI}{n}", lane=lane, is_sealed=sealed, round=number),
            st.integers(0, 3),
            st.sampled_from(["fast_lane", "normal_queue", "needs_human"]),
            st.booleans(),
            st.integers(0, 2),
        ),
        unique_by=lambda one: one.uri,
    ).map(lambda pulls: State(tuple(pulls), (), closures=(CLOSURE,)[: len(pulls) % 2])),
    st.lists(st.sampled_from([EMPTY, State((PULL,), (OPEN,)), State((), (SHUT,), reopened=(CLOSURE,))])),
)
def test_what_was_told_is_never_told_again(state: State, before: list[State]) -> None:
    told: dict[tuple[str, str], str] = {}
    for one in [*before, state]:
        told = after(told, one)
    assert found(told, state) == []


@pytest.mark.parametrize("name", ["title", "handle", "because", "author"])
def test_no_event_has_a_field_for_what_others_wrote(name: str) -> None:
    state = State((replace(PULL, is_sealed=True),), (SHUT,), closures=(CLOSURE,))
    assert all(name not in one.event.data for one in found({("gate", "did:plc:lantern"): "open"}, state) if one.event)
