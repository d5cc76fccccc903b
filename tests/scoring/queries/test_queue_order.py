"""The order within a lane as properties: who is first, what a first-timer waits at most, and that it stays the same."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.queries.queue_order import FINDING, TURN, Waiting, explain_places, need_band, order_lane
from scoring.queries.types import Place, QueueSort
from tests.conftest import PROVE

EXAMPLES = settings(max_examples=2000 if PROVE else 25, deadline=None)
SHARE = st.one_of(st.just(float("nan")), st.floats(0, 1))
COLUMNS = (SHARE, SHARE, st.integers(0, 40), st.integers(0, 40), st.booleans(), st.booleans(), st.booleans())
PULL = st.tuples(*COLUMNS)
KINDS = (float, float, float, "datetime64[us]", bool, bool, bool, int)


def waiting(*pulls: tuple) -> Waiting:
    """From (chance, risk, days since first seen, day opened, first-timer, changed, on its author, any series)."""
    pulls = tuple((*pull, None)[:8] for pull in pulls)
    pulls = tuple((*pull[:7], pull[7] or -place) for place, pull in enumerate(pulls))
    columns = zip(*pulls, strict=True) if pulls else [()] * len(KINDS)
    days = (np.array(column, dtype=kind if kind is float else int) for column, kind in zip(columns, KINDS, strict=True))
    return Waiting(*(column.astype(kind) for column, kind in zip(days, KINDS, strict=True)))


CAUSES = ("changed", "turn", "author", "copy", "need")
LANE = st.lists(PULL, max_size=40).map(lambda pulls: waiting(*pulls))
IN_SERIES = st.lists(st.tuples(*COLUMNS, st.integers(1, 8)), max_size=40).map(lambda pulls: waiting(*pulls))
VERDICTS = st.integers(0, 10)


def known(
    chance: float, risk: float = 0.0, day: int = 0, first: bool = False, series: int | None = None, **more: bool
) -> tuple:
    return chance, risk, 20 - day, day, first, more.get("changed", False), more.get("on_author", False), series


def order(*pulls: tuple, verdicts: int = 0) -> list[int]:
    return order_lane(waiting(*pulls), "need", verdicts).tolist()


def test_the_risk_of_the_content_and_the_chance_decide_together() -> None:
    assert order(known(0.9), known(0.3), known(0.95, 0.8), known(0.6, 0.1)) == [2, 1, 3, 0]


def test_within_a_tenth_the_age_decides_and_what_waits_for_its_author_comes_last() -> None:
    assert order(known(0.52, day=1, on_author=True), known(0.55, day=3), known(0.58, day=2)) == [2, 1, 0]
    assert order(known(0.1, 0.8, on_author=True), known(0.95)) == [1, 0], "however much it needs a person"


def test_what_changed_after_an_approval_is_on_top_even_of_a_place_kept_for_a_first_timer() -> None:
    pulls = (known(0.1), known(0.99, changed=True), known(0.5, first=True))
    assert [order(*pulls, verdicts=verdicts)[0] for verdicts in range(TURN)] == [1] * TURN


def test_a_finding_of_an_unknown_author_stands_before_an_unknown_author_without_one() -> None:
    assert order(known(0.48, 0.01), known(0.54, 0.4)) == [1, 0]


def test_copies_of_one_title_come_after_the_rest_and_the_one_in_most_need_stands_for_all() -> None:
    copies = [known(0.5, series=1), known(0.1, series=1, first=True), known(0.3, series=1, first=True)]
    others = [known(0.9), known(0.6, on_author=True)]
    assert order(*copies, *others) == [1, 3, 2, 0, 4], "what waits for its author stays last"
    assert order(*copies, *others, verdicts=1) == [1, 3, 2, 0, 4], "a copy takes no first-timer's turn"


def test_a_copy_that_changed_after_an_approval_stays_on_top() -> None:
    assert order(known(0.1, series=1), known(0.9, series=1, changed=True), known(0.5)) == [1, 2, 0]


def test_a_harmless_copy_does_not_take_the_place_of_a_dangerous_one() -> None:
    assert order(known(0.9, series=1), known(0.5), known(0.9, 0.95, series=1)) == [2, 1, 0]


def test_what_nobody_knows_anything_of_stands_in_the_middle() -> None:
    unknown = known(float("nan"), float("nan"))
    assert order(known(0.8), unknown, known(0.2)) == [2, 1, 0]


def test_each_third_place_goes_to_the_first_timer_who_has_waited_longest() -> None:
    regulars = [known(0.1, day=day) for day in range(4)]
    newcomers = [known(0.95, day=9, first=True), known(0.9, day=8, first=True)]
    assert order(*regulars, *newcomers) == [0, 1, 5, 2, 3, 4]


def test_a_key_dated_back_gains_no_place_before_whoever_was_seen_a_day_earlier() -> None:
    honest, dated_back = known(0.9, day=8, first=True), (0.9, 0.0, 11, 0, True, False, False)
    regulars = [known(0.1)] * 6
    assert [one for one in order(dated_back, *regulars, honest) if one in (0, 7)] == [7, 0]


def waited(days: int, chance: float, risk: float = 0.0, first: bool = False, on_author: bool = False) -> tuple:
    return chance, risk, days, 1000 - days, first, False, on_author


def test_three_weeks_of_waiting_count_as_a_tenth_of_need_and_no_more_than_five_of_them() -> None:
    assert order(waited(0, 0.8), waited(20, 0.9)) == [0, 1]
    assert order(waited(0, 0.8), waited(21, 0.9)) == [1, 0]
    assert order(waited(0, 0.3), waited(5000, 0.9)) == [0, 1]


def test_a_fresh_finding_stands_before_all_who_stand_there_because_they_wait() -> None:
    """A TLS check that was turned off today, beside people whose chance is a coin's and who wait for months."""
    found, needier = waited(0, 0.73, 0.4), waited(0, 0.35)
    long, longer = waited(120, 0.55), waited(200, 0.6)
    assert order(needier, longer, long, found) == [3, 1, 2, 0]
    assert order(needier, found) == [0, 1], "where nobody waits the need alone decides"
    assert order(long, waited(0, 0.73, 0.4, on_author=True)) == [0, 1], "its author has to answer first"
    assert order(long, waited(0, 0.73, 0.39)) == [0, 1], "something small"


def test_a_finding_takes_no_place_that_is_kept_for_a_first_timer() -> None:
    findings, oldest = [waited(day, 0.7, 0.4) for day in range(4)], waited(200, 0.95, first=True)
    assert order(*findings, oldest).index(4) == TURN - 1


@EXAMPLES
@given(LANE)
def test_nobody_stands_above_a_finding_only_because_they_wait(lane: Waiting) -> None:
    """Without the places kept for first-timers, whom a bound of their own holds."""
    lane = replace(
        lane, first_timer=np.zeros(len(lane.chance), dtype=bool), changed=np.zeros(len(lane.chance), dtype=bool)
    )
    places = np.argsort(order_lane(lane, "need", 0))
    need, found = need_band(lane.chance, lane.risk), (np.nan_to_num(lane.risk) >= FINDING) & ~lane.on_author
    for one in np.flatnonzero(found):
        above = (places < places[one]) & ~found
        assert (need[above] > need[one]).all()


@pytest.mark.parametrize("sort", ["need", "lowest"])
def test_what_two_passes_compute_differently_in_the_last_digits_moves_no_row(sort: str) -> None:
    once = [
        known(0.445, 0.1, 1),
        known(0.445, 0.1, 2),
        known(0.805, 0.45, 3),
        known(0.605, 0.0, 4),
        known(0.605, 0.0, 4),
    ]
    orders = set()
    for noise in (0.0, 1e-15, -1e-15):
        lane = waiting(*once)
        signs = np.array([1, -1, 1, -1, 1])
        again = replace(lane, chance=lane.chance + noise * signs, risk=lane.risk - noise * signs)
        orders.add(tuple(order_lane(again, sort, 0)))  # ty: ignore[invalid-argument-type]
    assert len(orders) == 1


@EXAMPLES
@given(LANE | IN_SERIES, VERDICTS, st.sampled_from(["need", "lowest", "oldest", "newest"]))
def test_every_order_shows_each_pull_request_once(lane: Waiting, verdicts: int, sort: str) -> None:
    assert sorted(order_lane(lane, sort, verdicts)) == list(range(len(lane.chance)))  # ty: ignore[invalid-argument-type]


@EXAMPLES
@given(LANE, VERDICTS)
def test_a_first_timer_is_at_most_three_places_below_the_one_who_waits_next_longest(
    lane: Waiting, verdicts: int
) -> None:
    places = {one: place for place, one in enumerate(order_lane(lane, "need", verdicts).tolist(), 1)}
    reads = lane.first_timer & ~lane.on_author & ~lane.changed
    mine = np.flatnonzero(reads).tolist()
    mine.sort(key=lambda one: (-lane.waited[one], lane.opened_at[one], places[one]))
    for longer, one in enumerate(mine):
        assert places[one] <= lane.changed.sum() + TURN * (longer + 1)


@EXAMPLES
@given(LANE, VERDICTS, st.lists(PULL, min_size=40, max_size=40))
def test_whatever_arrives_a_first_timer_is_read_after_three_verdicts_for_each_who_waits_longer(
    lane: Waiting, verdicts: int, arrivals: list[tuple]
) -> None:
    """Each verdict is on the first row, and before each somebody sends another, needier or not."""
    pulls = [replace(lane, changed=np.zeros(len(lane.chance), dtype=bool))]
    oldest = np.flatnonzero(lane.first_timer & ~lane.on_author)
    if not len(oldest):
        return
    oldest = oldest[np.lexsort([lane.opened_at[oldest], -lane.waited[oldest]])]
    last, queue = int(oldest[-1]), list(range(len(lane.chance)))
    for count in range(TURN * len(oldest)):
        later = arrivals[count % len(arrivals)]
        pulls.append(waiting((*later[:2], -1, 90, *later[4:5], False, later[6])))
        queue.append(len(lane.chance) + count)
        everything = joined(pulls)
        first = queue[int(order_lane(everything.select(np.array(queue)), "need", verdicts + count)[0])]
        queue.remove(first)
        if first == last:
            return
    pytest.fail("the last of the first-timers was not read in time")


@EXAMPLES
@given(LANE, VERDICTS)
def test_where_every_verdict_asks_for_changes_first_timers_are_read_as_soon(lane: Waiting, verdicts: int) -> None:
    """What was asked stays in the list, and its place is nobody's loss."""
    lane = replace(lane, changed=np.zeros(len(lane.chance), dtype=bool))
    left = set(np.flatnonzero(lane.first_timer & ~lane.on_author).tolist())
    for count in range(TURN * len(left)):
        ordered = order_lane(lane, "need", verdicts + count)
        waiting_for_us = ordered[~lane.on_author[ordered]]
        if not len(waiting_for_us):
            break
        turns = lane.on_author.copy()
        turns[waiting_for_us[0]] = True
        lane, left = replace(lane, on_author=turns), left - {int(waiting_for_us[0])}
    assert not left


def joined(parts: list[Waiting]) -> Waiting:
    whole = Waiting(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Waiting)))
    return replace(whole, series=np.arange(len(whole.chance)))


def places(lane: Waiting, verdicts: int, sort: QueueSort = "need") -> list[Place]:
    return explain_places(lane, order_lane(lane, sort, verdicts), shown_chances(lane), sort, verdicts, slice(None))


def shown_chances(lane: Waiting) -> np.ndarray:
    return np.zeros(len(lane.chance), dtype=bool)


@EXAMPLES
@given(LANE | IN_SERIES, VERDICTS)
def test_what_is_said_of_a_place_is_what_ordered_it(lane: Waiting, verdicts: int) -> None:
    shown, ordered = places(lane, verdicts), order_lane(lane, "need", verdicts).tolist()
    assert [place.number for place in shown] == list(range(1, len(ordered) + 1))
    by_cause = {cause: [row for row in zip(shown, ordered, strict=True) if row[0].cause == cause] for cause in CAUSES}
    assert sum(map(len, by_cause.values())) == len(ordered)
    assert (
        [one for _, one in by_cause["changed"]]
        == [one for one in ordered if lane.changed[one]]
        == ordered[: int(lane.changed.sum())]
    ), "what changed is on top"
    waiting_for_author = [one for _, one in by_cause["author"]]
    assert all(lane.on_author[one] for one in waiting_for_author)
    copies = {one for _, one in by_cause["copy"]}
    for place, one in by_cause["copy"]:
        above = ordered[: place.number - 1]
        assert any(lane.series[other] == lane.series[one] for other in above), "one of its series stands above"
        behind = [other for other in ordered[place.number :] if not lane.on_author[other]]
        assert set(behind) <= copies, "nothing else that waits for a maintainer comes after a copy"
    for place, one in by_cause["turn"]:
        below = [
            other
            for other in ordered[place.number :]
            if lane.first_timer[other] and not lane.on_author[other] and other not in copies
        ]
        assert all(lane.waited[other] <= lane.waited[one] for other in below), "nobody below has waited longer"
    by_need = [place for place, _ in by_cause["need"]]
    plain = [(place.raised, place.waited) for place in by_need if place.by != "finding"]
    assert plain == sorted(plain, reverse=True), "the numbers that are told fall from row to row"
    for number, place in enumerate(by_need):
        passed = [other for other in by_need[:number] if place.by == "finding" != other.by]
        assert all(other.need > place.need for other in passed), "nobody passes a finding only by waiting"


@EXAMPLES
@given(LANE | IN_SERIES, VERDICTS, st.integers(0, 5), st.integers(0, 5))
def test_a_part_of_a_list_says_the_same_as_the_whole(lane: Waiting, verdicts: int, start: int, length: int) -> None:
    ordered, cut = order_lane(lane, "need", verdicts), slice(start, start + length)
    assert explain_places(lane, ordered, shown_chances(lane), "need", verdicts, cut) == places(lane, verdicts)[cut]


def test_a_chance_that_was_borrowed_is_not_called_the_row_s_own() -> None:
    lane = waiting(waited(0, 0.35), waited(0, 0.9))
    told = explain_places(lane, order_lane(lane, "need", 0), np.array([False, True]), "need", 0, slice(None))
    assert [place.by for place in told] == ["chance", "borrowed"]


def test_a_place_says_where_its_need_comes_from() -> None:
    lane = waiting(waited(44, 0.35), waited(0, 0.95, 0.8), waited(0, float("nan")), waited(0, 0.9, 0.3))
    assert {(place.by, place.need, place.raised) for place in places(lane, 0)} == {
        ("finding", 8, 8),
        ("chance", 6, 8),
        ("unknown", 5, 5),
        ("risk", 3, 3),
    }


def test_another_order_is_told_as_the_one_that_somebody_chose() -> None:
    lane = waiting(known(0.5), known(0.2, changed=True))
    assert [place.cause for place in places(lane, 0, "oldest")] == ["changed", "oldest"]


def test_a_first_timer_who_has_to_answer_holds_no_place_of_those_who_wait_for_a_maintainer() -> None:
    regulars = [known(0.1, day=day) for day in range(4)]
    asked, other = known(0.95, day=8, first=True, on_author=True), known(0.9, day=9, first=True)
    assert order(*regulars, asked, other) == [0, 1, 5, 2, 3, 4]


@EXAMPLES
@given(LANE, VERDICTS, st.data())
def test_an_answer_gives_back_the_place_that_the_question_took_and_none_above_it(
    lane: Waiting, verdicts: int, data: st.DataObject
) -> None:
    """The attack: who comments on their own pull request, however often, to stand before others."""
    if not len(lane.chance):
        return
    mine = data.draw(st.integers(0, len(lane.chance) - 1))

    def place(on_author: bool) -> int:
        turns = lane.on_author.copy()
        turns[mine] = on_author
        return order_lane(replace(lane, on_author=turns), "need", verdicts).tolist().index(mine)

    assert place(False) <= place(True)


@EXAMPLES
@given(LANE, VERDICTS)
def test_a_verdict_on_the_first_row_moves_no_other(lane: Waiting, verdicts: int) -> None:
    """But where a first-timer was read on the place kept for them, findings that stood before them may sink."""
    found = (np.nan_to_num(lane.risk) >= FINDING) & ~lane.on_author
    before = order_lane(lane, "need", verdicts)
    if len(before) and ((verdicts + 1) % TURN or not found.any()):
        left = np.sort(before[1:])
        assert left[order_lane(lane.select(left), "need", verdicts + 1)].tolist() == before[1:].tolist()


@EXAMPLES
@given(SHARE, SHARE, st.floats(0, 0.004))
def test_a_chance_that_is_a_little_lower_never_moves_a_change_down(chance: float, risk: float, less: float) -> None:
    before, after = need_band(np.array([chance, max(chance - less, 0)]), np.array([risk, risk]))
    assert after >= before
