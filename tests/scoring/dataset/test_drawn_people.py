"""A sample for training holds whole people, from every quarter alike, so that nothing they did is forgotten."""

from collections.abc import Iterator

import numpy as np
import pytest

from ingest.store.transaction import Rows
from scoring.dataset.cases import Cases
from scoring.dataset.dataset import draw_people, read_cases
from scoring.dataset.track_record import settled_record
from tests.scoring.dataset.past_projects import case, known_people, place

PEOPLE = 400
# Everybody opens 1 to 9 pull requests, the first of them in one of ten quarters.
HISTORY = [
    case(
        91 * (person % 10) + 20 + number * 40, person, 10 + number % 3, merged_at=91 * (person % 10) + 39 + number * 40
    )
    for person in range(1, PEOPLE + 1)
    for number in range(1 + person * 7 % 9)
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rows]:
    with known_people(tmp_path_factory.mktemp("drawn")) as found:
        yield found


def drawn(rows: Rows, most: int) -> tuple[Cases, Cases]:
    """All cases, and those that are drawn."""
    place(rows, HISTORY)
    whole = read_cases(rows)
    draw_people(rows, most)
    return whole, read_cases(rows)


def test_the_record_of_everybody_who_is_drawn_is_whole(rows: Rows) -> None:
    whole, sample = drawn(rows, 500)
    stays = np.isin(whole.keys, sample.keys)
    assert np.isin(whole.authors, sample.authors).tolist() == stays.tolist()
    ours, theirs = (settled_record(cases, "label_merge") for cases in (whole, sample))
    assert all(np.array_equal(column[stays], theirs[name]) for name, column in ours.items())


def test_rows_drawn_one_by_one_would_forget_what_people_did(rows: Rows) -> None:
    whole, _ = drawn(rows, len(HISTORY))
    stays = np.arange(len(whole)) % 3 == 0
    ours, theirs = (settled_record(cases, "label_merge") for cases in (whole, whole.select(stays)))
    assert np.mean(ours["clean_before"][stays] != theirs["clean_before"]) > 0.3


@pytest.mark.parametrize("most", [200, 500, 1_500])
def test_about_so_many_are_drawn_and_of_every_quarter_the_same_share_of_people(rows: Rows, most: int) -> None:
    _, sample = drawn(rows, most)
    assert len(sample) == pytest.approx(most, rel=0.25)
    quarters, people = np.unique(np.unique(sample.authors) % 10, return_counts=True)
    assert quarters.tolist() == list(range(10))
    assert people.max() - people.min() <= 1


def test_the_same_people_are_drawn_each_time_and_all_where_there_are_no_more(rows: Rows) -> None:
    assert drawn(rows, 300)[1].keys.tolist() == drawn(rows, 300)[1].keys.tolist()
    assert len(drawn(rows, len(HISTORY))[1]) == len(drawn(rows, 10 * len(HISTORY))[1]) == len(HISTORY)
