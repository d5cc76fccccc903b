"""People who maintain nothing are told no threshold, whatever code a reason has."""

import re
from collections.abc import Iterator, Mapping

import pytest

from scoring.explain.decided import CLAUSES
from scoring.explain.sentences import (
    ANY_OTHER,
    OWN_SENTENCES,
    PLAIN_SENTENCES,
    SENTENCES,
    THRESHOLD_PARAMS,
    own_sentence,
    plain_notice,
    plain_sentence,
)
from scoring.types import Param, Reason


class Watched(Mapping[str, Param]):
    """Parameters of any name, which remember the names that were asked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Param:
        self.asked.add(name)
        return 1

    def __iter__(self) -> Iterator[str]:
        return iter(self.asked)

    def __len__(self) -> int:
        return len(self.asked)


@pytest.mark.parametrize("code", SENTENCES)
def test_what_an_author_is_told_speaks_to_them_and_names_no_threshold(code: str) -> None:
    params = Watched()
    write = OWN_SENTENCES.get(code, lambda params: PLAIN_SENTENCES.get(code) or SENTENCES[code](params))
    words = write(params)
    assert not params.asked & THRESHOLD_PARAMS
    assert not re.search(r"\b(?:you trust|about them|for them|theirs?|(?:this|the) contributor)\b", words), words
    told = own_sentence(Reason(code, dict.fromkeys(params.asked, 1)))
    assert told == words


@pytest.mark.parametrize("code", SENTENCES)
def test_every_reason_that_names_a_threshold_has_words_without_one(code: str) -> None:
    params = Watched()
    SENTENCES[code](params)
    assert not params.asked & THRESHOLD_PARAMS or code in PLAIN_SENTENCES, f"give {code} a line in PLAIN_SENTENCES"


@pytest.mark.parametrize("code", CLAUSES)
def test_the_one_line_of_a_row_never_names_a_threshold(code: str) -> None:
    params = Watched()
    CLAUSES[code](params)
    assert not params.asked & THRESHOLD_PARAMS


@pytest.mark.parametrize("code", PLAIN_SENTENCES)
def test_plain_words_hold_no_figure(code: str) -> None:
    assert not any(character.isdigit() for character in plain_sentence(Reason(code, {})))


def test_a_code_without_plain_words_that_carries_a_threshold_stays_general() -> None:
    assert plain_sentence(Reason("made_later", {"t_high": 0.8713})) == ANY_OTHER
    assert "made_later" in plain_sentence(Reason("made_later", {"count": 3}))


def test_a_lane_that_is_open_and_certified_says_nothing() -> None:
    assert plain_notice(True, "") == ""
    assert "shut" in plain_notice(False, "The fast lane is shut: 59 are needed.")
    assert "by hand" in plain_notice(True, "The threshold 0.90 was set by hand.")
