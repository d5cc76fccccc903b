"""People who maintain nothing are told no threshold, whatever code a reason has."""

import re
from collections.abc import Iterator, Mapping

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


def test_what_an_author_is_told_speaks_to_them_and_names_no_threshold() -> None:
    for code, sentence in SENTENCES.items():
        params = Watched()
        words = OWN_SENTENCES[code](params) if code in OWN_SENTENCES else PLAIN_SENTENCES.get(code) or sentence(params)
        assert not params.asked & THRESHOLD_PARAMS, code
        assert not re.search(r"\b(?:you trust|about them|for them|theirs?|(?:this|the) contributor)\b", words), words
        assert own_sentence(Reason(code, dict.fromkeys(params.asked, 1))) == words


def test_every_reason_that_names_a_threshold_has_words_without_one() -> None:
    for code, sentence in SENTENCES.items():
        params = Watched()
        sentence(params)
        assert not params.asked & THRESHOLD_PARAMS or code in PLAIN_SENTENCES, f"give {code} a line in PLAIN_SENTENCES"


def test_the_one_line_of_a_row_never_names_a_threshold() -> None:
    for code, clause in CLAUSES.items():
        params = Watched()
        clause(params)
        assert not params.asked & THRESHOLD_PARAMS, code


def test_plain_words_hold_no_figure() -> None:
    words = [plain_sentence(Reason(code, {})) for code in PLAIN_SENTENCES]
    assert [line for line in words if any(character.isdigit() for character in line)] == []


def test_a_code_without_plain_words_that_carries_a_threshold_stays_general() -> None:
    assert plain_sentence(Reason("made_later", {"t_high": 0.8713})) == ANY_OTHER
    assert "made_later" in plain_sentence(Reason("made_later", {"count": 3}))


def test_a_lane_that_is_open_and_certified_says_nothing() -> None:
    assert plain_notice(True, "") == ""
    assert "shut" in plain_notice(False, "The fast lane is shut: 59 are needed.")
    assert "by hand" in plain_notice(True, "The threshold 0.90 was set by hand.")
