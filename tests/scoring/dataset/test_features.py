"""Features as of the moment of opening: hand-computed, and unknown where nothing is known."""

import math
from collections.abc import Iterator
from datetime import timedelta

import numpy as np
import pytest

from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.dataset.catalogue import FEATURES
from scoring.dataset.dataset import (
    NAMES,
    PERSON,
    QUERY,
    add_features,
    build_slices,
    month_starts,
    read_cases,
    read_features,
)
from tests.scoring.dataset.past_projects import (
    ANA,
    ELSEWHERE,
    EMPTY,
    HERE,
    MALLORY,
    MARA,
    UNTIL,
    Case,
    case,
    day,
    known_people,
    place,
)

# Weighed with a change alone, and known of any moment.
BUSY = {"repository_pace", "repository_open", "repository_days_since_merge"}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rows]:
    with known_people(tmp_path_factory.mktemp("features")) as found:
        yield found


def features(rows: Rows, *cases: Case) -> list[dict[str, float]]:
    """The features of these cases, in the order given; what is unknown is left out."""
    place(rows, cases)
    rows.rows(EMPTY)
    told = add_features(rows, read_cases(rows))
    by_key = {
        key: {name: column[index] for name, column in told.features.items() if not math.isnan(column[index])}
        for index, key in enumerate(told.keys)
    }
    return [by_key[f"p{number}"] for number in range(len(cases)) if f"p{number}" in by_key]


def last(rows: Rows, *cases: Case) -> dict[str, float]:
    return features(rows, *cases)[-1]


def test_every_column_has_an_entry_in_the_catalogue_and_every_entry_a_column(rows: Rows) -> None:
    place(rows, [case(0)])
    rows.rows(EMPTY)
    assert list(rows.columns(QUERY)) == ["key", "place", *NAMES]
    assert len(set(NAMES)) == len(NAMES)


def test_the_catalogue_says_in_words_and_with_a_unit_what_each_is() -> None:
    for feature in FEATURES:
        assert feature.words
        assert feature.unit
        assert not {"feature", "null", "nan"} & set(feature.words.lower().split()), feature.name


def test_whatever_belongs_to_the_change_is_moved_by_its_author() -> None:
    of_change = [feature for feature in FEATURES if feature.of == "change"]
    assert {feature.moved_by for feature in of_change if feature.name not in BUSY} == {"self"}


def test_a_record_is_counted_by_hand(rows: Rows) -> None:
    found = last(
        rows,
        case(0, merged_at=2, additions=90, deletions=10, files_touched=4, reverted_at=9),
        case(1, merged_at=3, patched_at=6, patched_fix_at=6),
        case(2, refused_at=8),
        case(3, repository=ELSEWHERE, merged_at=4),
        case(4),
        case(5, MARA, merged_at=6),
        case(10),
    )
    assert (found["merged_pr_count"], found["merged_here"], found["merged_elsewhere"]) == (3, 2, 1)
    assert (found["refused_here"], found["open_here"], found["opened_in_month"]) == (1, 1, 5)
    assert found["close_without_merge_ratio"] == pytest.approx((1 + 0.7) / (4 + 2))
    assert found["revert_rate"] == pytest.approx(1 / 3)
    assert found["share_of_merges_here"] == pytest.approx(2 / 3)
    assert found["mean_diff_size"] == pytest.approx((100 + 10 + 10) / 3)
    assert found["mean_files_touched"] == pytest.approx((4 + 2 + 2) / 3)
    assert found["churn"] == 120
    assert (found["days_since_merge_here"], found["days_since_merge"]) == (pytest.approx(7), pytest.approx(6))


def test_a_rate_leans_on_what_is_usual_for_others_in_the_repository(rows: Rows) -> None:
    others = [case(0, MARA, merged_at=1), case(0, MARA, refused_at=1)]
    first, known = last(rows, *others, case(1.5)), last(rows, *others, case(0, merged_at=1), case(1.5))
    usual = (1 + 3.25) / (2 + 5)
    assert first["repository_merge_rate"] == pytest.approx(usual, rel=1e-3)
    assert first["merge_rate_here"] == pytest.approx(usual, rel=1e-3)
    assert known["merge_rate_here"] == pytest.approx((1 + 2 * usual) / 3, rel=1e-3)
    assert known["merge_rate_elsewhere"] == pytest.approx(usual, rel=1e-3)


def test_a_year_halves_what_the_recent_rate_rests_on_and_not_the_other(rows: Rows) -> None:
    past = [case(0, merged_at=0.5), case(0, MARA, merged_at=1), case(0, MARA, refused_at=1)]
    soon, later = last(rows, *past, case(2)), last(rows, *past, case(367))
    assert later["recent_merge_rate_here"] < soon["recent_merge_rate_here"]
    assert later["merged_here"] == soon["merged_here"]


def test_hours_to_merge_are_the_geometric_mean_with_two_usual_ones(rows: Rows) -> None:
    found = last(rows, case(0, merged_at=1), case(2))
    usual = (math.log(25) + 15) / 6
    assert found["hours_to_merge_here"] == pytest.approx(math.exp((math.log(25) + 2 * usual) / 3) - 1, rel=1e-2)


def test_a_change_is_measured_by_hand_and_against_what_its_author_had_merged(rows: Rows) -> None:
    found = last(rows, case(0, merged_at=1, additions=8, deletions=1), case(2, additions=15, deletions=4))
    assert (found["lines_changed"], found["lines_per_file"]) == (19, 9.5)
    assert (found["share_added"], found["size_against_usual"]) == (pytest.approx(15 / 19), 2)


def test_a_title_of_which_nothing_is_known_counts_as_a_usual_one_since_its_absence_tells_the_outcome(
    rows: Rows,
) -> None:
    unknown, usual = features(rows, case(0), case(1, title_length=40, title_says=[]))
    told = {name for name in unknown if name.startswith("title_")}
    assert len(told) == 6
    assert {name: unknown[name] for name in told} == {name: usual[name] for name in told}


def test_a_title_is_measured_and_its_marks_are_told_apart(rows: Rows) -> None:
    found = last(rows, case(0, title_length=22, title_says=["fix", "code"]))
    marks = {name: found[name] for name in found if name.startswith("title_") and found[name]}
    assert marks == {"title_length": 22, "title_tells_fix": 1, "title_names_code": 1}


def test_what_is_not_known_of_a_change_is_unknown(rows: Rows) -> None:
    found = features(rows, case(0), case(0, MARA, additions=None, deletions=None, files_touched=None))[1]
    assert {name for name in set(found) - set(PERSON) - BUSY if not name.startswith("title_")} == set()
    empty = last(rows, case(0, additions=0, deletions=0))
    assert "share_added" not in empty
    assert empty["lines_changed"] == 0


def test_an_outcome_counts_from_the_moment_after_it_is_known(rows: Rows) -> None:
    second = 1 / 86_400
    at_once, later = features(rows, case(0, merged_at=1), case(1), case(1 + second))[1:]
    assert (at_once["merged_here"], later["merged_here"]) == (0, 1)


def test_each_of_those_opened_at_one_microsecond_counts_all_the_others(rows: Rows) -> None:
    found = features(rows, case(0), case(1), case(1), case(1, MARA), case(2))
    assert [one["open_here"] for one in found] == [0, 2, 2, 0, 3]
    assert [one["opened_in_month"] for one in found] == [0, 2, 2, 0, 3]
    assert [one["repository_open"] for one in found] == [0, 3, 3, 3, 4]


def test_an_opening_leaves_the_month_and_a_merge_the_year_after_their_last_microsecond(rows: Rows) -> None:
    microsecond = 1e-6 / 86_400
    within, after = features(rows, case(0, merged_at=1), case(30), case(30 + microsecond))[1:]
    assert (within["opened_in_month"], after["opened_in_month"]) == (1, 1)
    within, after = features(rows, case(0, merged_at=1), case(366 - microsecond), case(366 + microsecond))[1:]
    assert (within["churn"], after["churn"]) == (10, 0)


def test_the_running_totals_are_read_off_in_one_pass_over_each_order(rows: Rows) -> None:
    place(rows, [case(0)])
    rows.rows(EMPTY)
    plan = rows.rows(f"explain {QUERY}")[0]["explain_value"]
    assert plan.count("Order By") >= 3, "running totals need their rows sorted"
    assert plan.count("Streaming Window") >= 6


def test_a_pull_request_does_not_count_in_its_own_features(rows: Rows) -> None:
    (alone,) = features(rows, case(0, merged_at=0, patched_at=0))
    assert (alone["merged_here"], alone["open_here"], alone["opened_in_month"], alone["repository_open"]) == (
        0,
        0,
        0,
        0,
    )


def test_keeping_a_pull_request_awake_does_not_put_off_its_refusal(rows: Rows) -> None:
    found = last(rows, case(0), case(181))
    assert (found["refused_here"], found["open_here"]) == (1, 0)


def test_what_nobody_watched_any_longer_was_not_refused(rows: Rows) -> None:
    found = last(rows, case(0, observed_until=day(100)), case(181))
    assert (found["refused_here"], found["open_here"]) == (0, 1)


def test_bots_have_no_features_and_count_in_nobodys(rows: Rows) -> None:
    found = features(rows, case(0, MALLORY, merged_at=1, is_bot=True), case(2))
    assert len(found) == 1
    assert found[0]["repository_open"] == 0
    assert found[0]["repository_merge_rate"] == pytest.approx(0.65), "nobody else's was settled"


def test_of_a_first_pull_request_in_a_new_repository_little_is_known(rows: Rows) -> None:
    found = last(rows, case(0, MALLORY))
    person = {name for name in found if name in {*PERSON, *BUSY}}
    assert person == {
        "merged_pr_count", "merged_here", "merged_elsewhere", "refused_here", "open_here", "opened_in_month",
        "push_holder", "repository_pace", "repository_open", "repository_merge_rate", "merge_rate_here",
        "recent_merge_rate_here", "merge_rate_elsewhere", "close_without_merge_ratio",
    }  # fmt: skip
    rates = [found[name] for name in ("repository_merge_rate", "merge_rate_here", "merge_rate_elsewhere")]
    assert rates == pytest.approx([0.65] * 3)
    assert found["close_without_merge_ratio"] == pytest.approx(0.35)


def test_a_first_refusal_moves_no_rate_from_the_unknown_and_none_for_its_author(rows: Rows) -> None:
    none, refused = last(rows, case(5)), last(rows, case(0, refused_at=1), case(5))
    for name in ("merge_rate_here", "merge_rate_elsewhere", "repository_merge_rate"):
        assert refused[name] <= none[name]
    assert refused["close_without_merge_ratio"] > none["close_without_merge_ratio"]
    stranger = last(rows, case(0, MARA, refused_at=1), case(5))
    assert stranger["repository_merge_rate"] < none["repository_merge_rate"]


def test_pull_requests_of_anybody_are_no_pace(rows: Rows) -> None:
    found = last(rows, case(0, MARA, merged_at=1), *(case(2, MALLORY) for _ in range(9)), case(3))
    assert found["repository_pace"] == pytest.approx(1, rel=0.01)
    assert found["repository_open"] == 9


def test_what_the_network_says_of_a_person_counts_from_when_it_was_learned(rows: Rows) -> None:
    before, between, after = features(rows, case(-1), case(10), case(30))
    assert "bsky_graph_degree" not in before
    assert (between["bsky_graph_degree"], after["bsky_graph_degree"]) == (42, 62)
    assert (between["handle_changes"], between["account_changes"]) == (2, 4)
    assert between["bsky_account_age"] == pytest.approx(40)


def test_the_age_of_an_identity_is_unknown_where_the_directory_does_not_say(rows: Rows) -> None:
    ana, mara = features(rows, case(0), case(0, MARA))
    assert ana["did_age_days"] == pytest.approx(100)
    assert "did_age_days" not in mara
    assert (ana["did_in_directory"], mara["did_in_directory"]) == (1, 1)


def test_checks_that_never_ran_are_unknown_and_not_failed(rows: Rows) -> None:
    assert "ci_pass_rate" not in last(rows, case(0, merged_at=1), case(2))
    told = case(0, merged_at=1, checks_known=True), case(0, refused_at=1, checks_known=True, failed_at=0.5)
    assert last(rows, *told, case(2))["ci_pass_rate"] == pytest.approx(0.5)


def test_the_newest_slice_of_trust_before_the_opening_counts(rows: Rows) -> None:
    try:
        rows.rows("insert into slice_dates values (0, ?), (0, ?)", [day(0), day(30)])
        rows.rows("insert into trust_slices values (0, 1, ?, .5, .01, 2, 1)", [day(0)])
        before, within, after, other = features(rows, case(-1), case(10), case(40), case(10, MALLORY))
    finally:
        rows.rows("delete from slice_dates")
        rows.rows("delete from trust_slices")
    assert "structural_trust" not in before
    assert "denounce_count" not in before
    names = ("structural_trust", "eigentrust_score", "trust_distance", "denounce_count")
    assert [within[name] for name in names] == [0.5, 0.01, 2, 1]
    # By then nobody's vouch reached them any more: that is none, and only what nobody reckoned is unknown.
    assert [after[name] for name in ("structural_trust", "eigentrust_score", "denounce_count")] == [0, 0, 0]
    assert "trust_distance" not in after
    assert other["denounce_count"] == other["structural_trust"] == 0


def test_a_share_of_the_walk_is_that_of_the_site_where_the_repository_has_seeds_of_its_own(rows: Rows) -> None:
    moments = [day(0), day(0), day(30), day(30)]
    try:
        rows.rows(f"insert into slice_dates values (0, ?), ({HERE}, ?), (0, ?), ({HERE}, ?)", moments)
        given = f"insert into trust_slices values (0, 1, ?, .5, .01, 2, 1), ({HERE}, 1, ?, .7, null, 1, 0)"
        rows.rows(given, [day(0), day(0)])
        within, after = features(rows, case(10), case(40))
    finally:
        rows.rows("delete from slice_dates")
        rows.rows("delete from trust_slices")
    assert (within["structural_trust"], within["eigentrust_score"]) == (0.7, 0.01)
    assert (after["structural_trust"], after["eigentrust_score"]) == (0, 0)


def test_no_vouch_makes_no_slice(rows: Rows) -> None:
    assert build_slices(rows, UNTIL, Policy()) == 0


def test_slices_are_of_each_month_and_of_now() -> None:
    assert [moment.month for moment in month_starts(day(10), day(95))] == [2, 3, 4, 4]
    assert month_starts(day(10), day(9)) == []


def test_people_are_asked_about_as_of_now_and_changes_as_of_their_opening(rows: Rows) -> None:
    place(rows, [case(0, merged_at=3), case(2, MARA)])
    maras = rows.value("select key from cases where author_id = ?", [MARA])
    columns, places = read_features(rows, [(ANA, HERE), (MALLORY, HERE)], [maras], day(5))
    rows.rows(EMPTY)
    assert set(places) == {(ANA, HERE), (MALLORY, HERE), maras}
    assert [columns["merged_here"][places[one]] for one in ((ANA, HERE), (MALLORY, HERE))] == [1, 0]
    assert all(math.isnan(columns[name][places[ANA, HERE]]) for name in NAMES if name not in {*PERSON, *BUSY})
    assert columns["share_of_merges_here"][places[ANA, HERE]] == 1
    assert math.isnan(columns["share_of_merges_here"][places[maras]])
    assert read_features(rows, [], [], day(5))[1] == {}


def test_cases_of_another_table_are_refused(rows: Rows) -> None:
    place(rows, [case(0), case(1)])
    rows.rows(EMPTY)
    cases = read_cases(rows)
    with pytest.raises(ValueError, match="not the cases"):
        add_features(rows, cases.select(np.array([0])))


def test_an_absurd_time_or_size_makes_no_feature_infinite(rows: Rows) -> None:
    old, late = timedelta(days=-19_000), timedelta(days=300_000)
    absurd = case(0, merged_at=1, additions=10**15)
    for shift in (old, late):
        moved = [
            one | {name: value + shift for name, value in one.items() if name.endswith("_at")}
            for one in (absurd, case(2))
        ]
        assert all(np.isfinite(list(one.values())).all() for one in features(rows, *moved))
