"""Lanes under every threshold are counted as if each were the only one, kept as a table, and asked about."""

from collections.abc import Callable
from datetime import datetime
from io import StringIO
from pathlib import Path

import msgspec
import numpy as np
import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from scoring.certificates.lane_counts import ScoredCases, count_clean_below, count_lanes, count_parts
from scoring.certificates.threshold_queries import (
    ENDING,
    FILE_LIMIT,
    STATISTICS,
    Question,
    QuestionProblem,
    StoredTable,
    Table,
    answer_query,
    find_best,
    read_question,
    table_of,
    write_table,
)
from scoring.models.serving import LABEL
from scoring.models.storage import serve

MOMENT = np.datetime64("2025-01-01")
CASE = st.tuples(
    st.integers(0, 10).map(lambda tenth: tenth / 10),
    st.sampled_from([0.0, 0.25, 1.0]),
    st.integers(-2, 3),
    st.sampled_from([0.5, 1.0, 4.0]),
)


def judged(cases: list[tuple[float, float, int, float]]) -> ScoredCases:
    """One a day."""
    scores, bad, authors, weights = zip(*cases, strict=True)
    return ScoredCases.of(scores, bad, authors, MOMENT + np.arange(len(cases)), weights)


@given(st.lists(CASE, min_size=1, max_size=30))
def test_a_lane_is_counted_as_if_it_were_the_only_one(cases: list[tuple[float, float, int, float]]) -> None:
    lanes = count_lanes(judged(cases))
    assert lanes.thresholds.tolist() == sorted({score for score, *_ in cases}, reverse=True)
    for at, threshold in enumerate(lanes.thresholds):
        inside = np.array([case for case in cases if case[0] >= threshold])
        weight, bad, who = inside[:, 3], inside[:, 1], inside[:, 2]
        rate = (weight @ bad) / weight.sum()
        sums = [(weight * (bad - rate))[who == one].sum() for one in set(who)]
        people = np.array([weight[who == one].sum() for one in set(who)])
        spread = np.square(sums).sum() / weight.sum() ** 2 * len(people) / max(len(people) - 1, 1)
        assert (lanes.sizes[at], lanes.authors[at]) == (pytest.approx(weight.sum()), len(people))
        assert lanes.rates[at] == pytest.approx(rate)
        assert lanes.spread[at] == pytest.approx(spread, abs=1e-9)
        assert lanes.people[at] == pytest.approx(people.sum() ** 2 / np.square(people).sum())
        assert lanes.counts[at] == pytest.approx(min(weight.sum(), weight.sum() ** 2 / np.square(weight).sum()))


@given(st.lists(CASE, min_size=1, max_size=30), st.integers(0, 2**40))
def test_each_author_gives_one_case_of_the_lane(cases: list[tuple[float, float, int, float]], seed: int) -> None:
    lanes = count_lanes(judged(cases), seed)
    for at, threshold in enumerate(lanes.thresholds):
        inside = [case for case in cases if case[0] >= threshold]
        each = [{bad for _, bad, who, _ in inside if who == one} for one in {case[2] for case in inside}]
        assert sum(map(min, each)) - 1e-9 <= lanes.picked_bad[at] <= sum(map(max, each)) + 1e-9


def test_which_case_an_author_gives_is_drawn_by_weight() -> None:
    one = judged([(0.9, 1.0, 7, 3.0), (0.9, 0.0, 7, 1.0)])
    drawn = [count_lanes(one, seed).picked_bad[0] for seed in range(800)]
    assert 0.69 < np.mean(drawn) < 0.81


def test_the_draw_is_the_same_in_every_version_of_every_library() -> None:
    cases = judged([(0.9, float(at % 2), at // 4, 1.0) for at in range(40)])
    assert [count_lanes(cases, seed).picked_bad[0] for seed in range(8)] == [4, 6, 4, 7, 6, 6, 6, 4]


def test_parts_hold_the_same_number_of_cases_the_oldest_first() -> None:
    cases = judged([(0.9, float(at < 3), at, 1.0) for at in range(9)])
    lanes = count_lanes(cases)
    assert [(part.counts.tolist(), part.rates.tolist()) for part in count_parts(cases, lanes, 3)] == [
        ([3.0], [1.0]),
        ([3.0], [0.0]),
        ([3.0], [0.0]),
    ]


def test_a_part_without_a_case_in_the_lane_counts_none() -> None:
    cases = judged([(0.2, 0.0, 0, 1.0), (0.9, 0.0, 1, 1.0)])
    first, second = count_parts(cases, count_lanes(cases), 2)
    assert (first.counts.tolist(), second.counts.tolist()) == ([0.0, 1.0], [1.0, 1.0])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("scores", [float("nan"), 0.5]),
        ("scores", [1.5, 0.5]),
        ("bad", [2, 0]),
        ("weights", [0, 1]),
        ("weights", [float("inf"), 1]),
        ("opened_at", ["NaT", "2025-01-01"]),
        ("authors", [1, 2, 3]),
    ],
)
def test_columns_that_make_no_sense_are_refused(name: str, wrong: list[object]) -> None:
    columns = {"scores": [0.5, 0.6], "bad": [0, 1], "authors": [1, 2], "opened_at": [MOMENT, MOMENT], "weights": [1, 1]}
    with pytest.raises(ValueError, match=r"must|needs"):
        ScoredCases.of(**columns | {name: wrong})


@given(st.lists(CASE, min_size=1, max_size=30).filter(lambda cases: any(case[1] < 1 for case in cases)))
def test_the_clean_ones_below_a_threshold_are_counted_as_if_it_were_the_only_one(
    cases: list[tuple[float, float, int, float]],
) -> None:
    lanes = count_clean_below(judged(cases), 1.0)
    clean = np.array([(score, who, weight * (1 - bad)) for score, bad, who, weight in cases if bad < 1])
    total, people = clean[:, 2].sum(), sorted(set(clean[:, 1]))
    of_each = np.array([clean[clean[:, 1] == one, 2].sum() for one in people])
    for threshold in (0.0001, 0.3, 0.3001, 0.75, 1.0):
        at = round(threshold * 10_000) - 1
        below = np.where(clean[:, 0] < threshold - 1e-9, clean[:, 2], 0.0)
        rate = below.sum() / total
        sums = [below[clean[:, 1] == one].sum() - rate * size for one, size in zip(people, of_each, strict=True)]
        spread = np.square(sums).sum() / total**2 * len(people) / max(len(people) - 1, 1)
        assert lanes.thresholds[at] == threshold
        assert (lanes.rates[at], lanes.spread[at]) == (pytest.approx(rate), pytest.approx(spread, abs=1e-9))
        assert (lanes.sizes[at], lanes.authors[at]) == (pytest.approx(total), len(people))
        assert lanes.people[at] == pytest.approx(total**2 / np.square(of_each).sum())
        assert 0 <= lanes.picked_bad[at] <= len({who for score, who, _ in clean if score < threshold - 1e-9})
    assert lanes.picked_bad[-1] <= len(people)


def test_of_each_author_one_clean_case_is_drawn() -> None:
    lanes = count_clean_below(
        judged([(0.1, 0.0, 1, 1.0), (0.2, 0.0, 1, 1.0), (0.4, 0.0, 2, 1.0), (0.3, 1.0, 3, 1.0)]), 0.5
    )
    assert lanes.picked_bad[[0, 1500, 2500, 4999]].tolist() in ([0, 1, 1, 2], [0, 0, 1, 2])
    assert set(lanes.authors.tolist()) == {2}


SCORES = np.repeat([0.9, 0.8, 0.7], 100)
BAD = np.concatenate([np.arange(100) < 2, np.arange(100) < 10, np.arange(100) < 60])
JUDGED = ScoredCases.of(SCORES, BAD, np.arange(300), np.datetime64("2025-01-01") + np.arange(300))
TABLE = table_of(JUDGED)


def ask(text: str) -> float | None:
    found = find_best(read_question(text), TABLE, 0.05)
    return found.threshold if found else None


def test_the_largest_lane_within_a_rate_is_found() -> None:
    found = find_best(read_question("maximum lane share at false-approval rate <= 0.06"), TABLE, 0.05)
    assert found is not None
    assert found.threshold == 0.8
    assert found.statistics["lane share"] == pytest.approx(2 / 3)
    assert found.statistics["false-approval rate"] == pytest.approx(0.06)
    assert found.statistics["clean share"] == pytest.approx(188 / 228)
    assert (found.statistics["pull requests"], found.statistics["authors"]) == (200, 200)


@pytest.mark.parametrize(
    ("text", "threshold"),
    [
        ("MAXIMUM lane share AT false-approval rate<=6%", 0.8),
        ("minimum false-approval rate at lane share >= 50 %".replace(" %", "%"), 0.8),
        ("maximum threshold at clean share >= .9", 0.7),
        ("maximum lane share at false-approval bound <= .05", None),
        ("maximum lane share at false-approval bound <= .062", 0.9),
        ("minimum threshold at authors >= 1", 0.7),
        ("maximum threshold at false-alarm rate <= 18%", 0.8),
        ("maximum caught share at flagged share <= .4", 0.8),
    ],
)
def test_any_statistic_may_be_asked_for_under_any_other(text: str, threshold: float | None) -> None:
    assert ask(text) == threshold


def test_a_question_is_read_word_for_word() -> None:
    question = read_question("maximum lane share at false-approval rate <= 5%")
    assert question == Question("maximum", "lane share", "false-approval rate", "<=", 0.05)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "maximum",
        "best lane share at false-approval rate <= 0.05",
        "maximum beauty at false-approval rate <= 0.05",
        "maximum lane share at false-approval rate = 0.05",
        "maximum lane share at at rate <= 0.05",
        "maximum lane share at false-approval rate <= nan",
        "maximum lane share at false-approval rate <= five",
        "maximum lane share at false-approval rate <= inf",
        "maximum " * 1000,
    ],
)
def test_what_is_no_question_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(QuestionProblem, match=r"\w"):
        read_question(text)


def test_without_cases_there_is_no_answer() -> None:
    assert (
        find_best(read_question("maximum lane share at threshold >= 0"), table_of(JUDGED.select(np.arange(0))), 0.05)
        is None
    )


MODEL = "ab" * 32
QUERY = "maximum lane share at false-approval rate <= 5%"
KEPT = StoredTable(
    "sunstead-lanes/1",
    MODEL,
    "label_clean_fix",
    (datetime(2025, 3, 1), datetime(2026, 3, 1)),
    thresholds=(0.9, 0.8, 0.7),
    sizes=(100.0, 200.0, 300.0),
    bad=(2.0, 9.0, 60.0),
    authors=(80.0, 120.0, 150.0),
    effective=(90.0, 150.0, 200.0),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of models in which one serves."""
    serve(tmp_path, LABEL, MODEL)
    write_table(tmp_path, KEPT)
    return tmp_path


def test_the_model_that_serves_is_asked(folder: Path) -> None:
    told = answer_query(folder, QUERY, 0.05)
    assert (told.threshold, told.model, told.label, told.pull_requests) == (0.8, MODEL, "label_clean_fix", 300)
    assert told.query == "maximum lane share at false-approval rate <= 0.05"
    assert told.statistics["flagged share"] == pytest.approx(1 / 3)
    assert told.statistics["false-alarm rate"] == pytest.approx(1 - 191 / 240)
    assert set(told.statistics) == set(STATISTICS)
    assert msgspec.json.decode(msgspec.json.encode(told))["window"][0] == "2025-03-01T00:00:00"


def test_what_no_threshold_fulfils_has_an_answer_too(folder: Path) -> None:
    told = answer_query(folder, "maximum lane share at false-approval bound <= 0.001", 0.05)
    assert (told.threshold, told.statistics) == (None, {})


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda path: path.unlink(), "has no table of thresholds: train again"),
        (lambda path: path.write_bytes(b"[" * 100_000), "cannot be read: train again"),
        (lambda path: path.write_bytes(b"{}" + b" " * (FILE_LIMIT + 1)), "cannot be read: train again"),
        (
            lambda path: path.write_bytes(path.read_bytes().replace(b"abab", b"cdcd")),
            "not that of the model that serves",
        ),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"[2.0,", b"[")), "not that of the model that serves"),
        (lambda path: path.with_name(f"{LABEL}.serving").unlink(), "No model serves yet"),
        (lambda path: path.with_name(f"{LABEL}.serving").write_text("../../etc"), "the pointer of label_clean_fix"),
    ],
)
def test_what_cannot_be_answered_from_is_one_sentence(
    folder: Path, spoil: Callable[[Path], object], sentence: str
) -> None:
    spoil(folder / f"{MODEL}{ENDING}")
    with pytest.raises(QuestionProblem, match=sentence):
        answer_query(folder, QUERY, 0.05)


def test_a_table_of_every_threshold_is_a_small_file_and_answers_fast(folder: Path) -> None:
    count = np.arange(10_001)
    columns = [1 - count / 10_000, 100.5 + count, 0.123456 * count, 50.0 + count, 60.123456 + count]
    write_table(
        folder,
        StoredTable(
            "sunstead-lanes/1", MODEL, LABEL, KEPT.window, *(tuple(one.tolist()) for one in columns), None, None
        ),
    )
    assert (folder / f"{MODEL}{ENDING}").stat().st_size < 1_000_000 < FILE_LIMIT
    assert answer_query(folder, QUERY, 0.05).threshold is not None
    assert set(Table.__dataclass_fields__) == {"thresholds", "sizes", "bad", "authors", "effective"}


def test_the_command_prints_the_answer_or_a_sentence(folder: Path, settings: Settings) -> None:
    settings.MODEL_DIR = folder
    out = StringIO()
    call_command("thresholds", *QUERY.split(), stdout=out)
    assert out.getvalue().startswith("80 % by label_clean_fix, on 300 settled pull requests\n")
    out = StringIO()
    call_command("thresholds", QUERY, "--json", stdout=out)
    assert msgspec.json.decode(out.getvalue())["threshold"] == 0.8
    with pytest.raises(CommandError, match="Ask for example") as refused:
        call_command("thresholds", "__import__('os')")
    assert refused.value.returncode == 2
