"""Says what would bring one change's chance to the next lane, in a sentence that was tried on the model. Pure."""

from collections.abc import Callable, Mapping

from scoring.formatting import things, trust_figure
from scoring.gate.decide import Inputs
from scoring.models.registry import clean_needed
from scoring.types import Needed

MOST_TOLD = 999  # contributions; who would need more is told none


def ways(inputs: Inputs, probability: float | None, target: float) -> str:
    """A sentence with what alone would bring the chance to `target`, "" where it is there or nothing alone would.

    Where no model serves it is reckoned from the record; else it is what the search on the model found.
    """
    if probability is not None and probability >= target:
        return ""
    if inputs.prediction is None:
        more = clean_needed(inputs.evidence, inputs.prior, inputs.strength, target)
        if not more or more > MOST_TOLD:
            return ""
        kept = f"{things(more, 'more pull request')} that {_stay(more)} clean"
        return f"{kept}, with no bad one in between, would reach it."
    told = [words(way) for way in inputs.prediction.ways if (words := WAYS.get(way.name))]
    return f"Any one of these would reach it: {'; '.join(told)}." if told else ""


def _stay(count: int) -> str:
    return "stays" if count == 1 else "stay"


def _merges(way: Needed) -> str:
    count = int(way.needed)
    merged = "is merged" if count == 1 else "are merged"
    return f"{things(count, 'more pull request')} here that {merged} and {_stay(count)} clean"


WAYS: Mapping[str, Callable[[Needed], str]] = {
    "clean_here": _merges,
    "structural_trust": lambda way: (
        f"trust from the seeds of {trust_figure(way.needed)} (now {trust_figure(way.value)})"
    ),
    "denounce_count": lambda way: f"no warning by trusted people (now {int(way.value)})",
}
