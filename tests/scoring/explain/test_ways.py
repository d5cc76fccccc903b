"""The way to the next lane, in a sentence: computed where no model serves, else found by the search."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.explain.sentences import would_change
from scoring.explain.what_would_change import VOUCH_HELPS, WAYS, own_change, ways
from scoring.gate.decide import ORDINARY, Inputs, judge_inputs
from scoring.models.registry import clean_needed, shrunk_rate
from scoring.models.serving import LEVERS
from scoring.thresholds import Thresholds
from scoring.types import Content, Estimate, Evidence, Lane, Needed, Prediction

OPEN = Thresholds(t_high=0.90, certified=True)
CLEAR = Content(risk=0.05, recommended=False)
TRUSTED = Evidence(structural_trust=0.9, path=("seed.test", "mara.test"))
COUNTS = st.integers(0, 300)
SHARES = st.floats(0.01, 0.99)


def inputs_of(evidence: Evidence, prediction: Prediction | None = None) -> Inputs:
    return Inputs(evidence, CLEAR, OPEN, 0.55, 5.0, circumstances=ORDINARY, prediction=prediction)


def told(evidence: Evidence, prediction: Prediction | None = None) -> str:
    inputs = inputs_of(evidence, prediction)
    return would_change(judge_inputs(inputs), evidence, OPEN, inputs)


@given(COUNTS, COUNTS, SHARES, st.floats(0.1, 50), st.floats(0, 0.999))
def test_so_many_clean_ones_do_and_one_fewer_does_not(
    clean: int, not_clean: int, prior: float, strength: float, target: float
) -> None:
    more = clean_needed(Evidence(clean=clean, not_clean=not_clean), prior, strength, target)
    assert more is not None

    def reached(count: int) -> bool:
        rate = shrunk_rate(clean + count, not_clean, prior, strength).probability
        return (prior if rate is None else rate) >= target

    assert reached(more)
    assert not more or not reached(more - 1)


def test_no_number_of_clean_ones_makes_certain() -> None:
    assert clean_needed(Evidence(clean=10), 0.55, 5.0, 1.0) is None


def test_a_row_says_how_many_more_clean_ones_open_the_fast_lane_and_they_do() -> None:
    young = replace(TRUSTED, clean=8, merged_here=8, settled_here=8)
    assert told(young).endswith(
        "raise it. 10 more pull requests that stay clean, with no bad one in between, would reach it."
    )
    later = replace(TRUSTED, clean=18, merged_here=18, settled_here=18)
    assert judge_inputs(inputs_of(later)).lane is Lane.FAST_LANE


def test_a_flagged_row_says_what_brings_it_to_the_normal_queue() -> None:
    flagged = replace(TRUSTED, not_clean=7, settled_here=7)
    assert told(flagged).endswith("2 more pull requests that stay clean, with no bad one in between, would reach it.")


def own(evidence: Evidence, prediction: Prediction | None = None) -> str:
    inputs = inputs_of(evidence, prediction)
    return own_change(judge_inputs(inputs), evidence, OPEN, inputs)


def test_its_author_reads_the_same_counts_as_the_maintainer_and_no_threshold() -> None:
    flagged, young = replace(TRUSTED, not_clean=7, settled_here=7), replace(TRUSTED, clean=8, settled_here=8)
    assert own(flagged) == (
        "Pull requests that stay clean raise your chance. "
        "2 more pull requests that stay clean, with no bad one in between, would lift it."
    )
    assert own(young) == "10 more pull requests that stay clean, with no bad one in between, would lift it."
    predicted = Prediction(Estimate(0.7, 0.6, 0.8, 40), (), "model", (Needed("structural_trust", 0.1, 0.6),))
    assert (
        own(young, predicted) == "Any one of these would lift it: a vouch by somebody whom the maintainers trust more."
    )
    alone = replace(young, structural_trust=0.0, path=())
    assert own(alone).startswith(VOUCH_HELPS)
    assert "warned about you" in own(replace(flagged, denounced_by_seed=True))
    assert "%" not in "".join(map(own, (flagged, young, alone)))


@given(COUNTS, COUNTS)
def test_where_a_maintainer_reads_that_more_clean_ones_lift_a_flag_its_author_does_too(
    clean: int, not_clean: int
) -> None:
    evidence = replace(TRUSTED, clean=clean, not_clean=not_clean, settled_here=clean + not_clean)
    counts = [re.findall(r"(\d+ more) pull requests? that stay", words) for words in (told(evidence), own(evidence))]
    assert counts[0] == counts[1]


def test_where_a_model_serves_the_row_says_what_the_search_found() -> None:
    found = (
        Needed("clean_here", 3.0, 9.0),
        Needed("structural_trust", 0.1, 0.6),
        Needed("denounce_count", 2.0, 0.0),
        Needed("unheard_of", 0.0, 1.0),
    )
    predicted = Prediction(Estimate(0.7, 0.6, 0.8, 40), (), "label_clean_fix-0123456789ab", found)
    assert told(replace(TRUSTED, clean=3), predicted).endswith(
        "Any one of these would reach it: 9 more pull requests here that are merged "
        "and stay clean; "
        "trust from the seeds of 0.60 (now 0.10); no warning by trusted people (now 2)."
    )


def test_where_nothing_alone_would_do_nothing_is_promised() -> None:
    predicted = Prediction(Estimate(0.7, 0.6, 0.8, 40), (), "label_clean_fix-0123456789ab")
    assert told(replace(TRUSTED, clean=3), predicted).endswith("pull requests that stay clean raise it.")


@pytest.mark.parametrize("probability", [0.90, 0.97])
def test_who_is_there_already_is_told_nothing(probability: float) -> None:
    assert ways(inputs_of(Evidence(clean=60)), probability, 0.90) == ""


def test_every_way_that_is_searched_has_words() -> None:
    assert {lever.name for lever in LEVERS} == set(WAYS)


def test_one_is_told_as_one() -> None:
    one = replace(TRUSTED, clean=17, merged_here=17, settled_here=17)
    assert "1 more pull request that stays clean" in told(one)
