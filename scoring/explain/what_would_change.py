"""Say what would bring one change's chance to the next lane, in a sentence that was tested on the model. Pure.

Maintainers get it with the threshold, the author of the change without.
"""

from collections.abc import Callable, Mapping

from scoring.explain.decided import OF_TRUST
from scoring.explain.reasons import ALARMS, ATTESTATION_WORDS
from scoring.formatting import things, trust_figure
from scoring.gate.decide import Inputs
from scoring.models.registry import clean_needed
from scoring.thresholds import Thresholds
from scoring.types import Evidence, Lane, Needed, Verdict

MOST_TOLD = 999  # contributions; nothing is said where more are needed
VOUCH_HELPS = "A vouch by somebody whom the maintainers trust would help."


def own_change(verdict: Verdict, evidence: Evidence, thresholds: Thresholds, inputs: Inputs | None = None) -> str:
    """Tell its author what would move a change to a better lane; "" where they can do nothing, or findings decide."""
    codes, chance = {reason.code for reason in verdict.reasons}, verdict.estimate.probability
    if evidence.denounced_by_seed:
        return "Only the person who warned about you can lift this, by withdrawing the warning."
    if verdict.lane is Lane.FAST_LANE or "audit_drawn" in codes or codes & set(ALARMS):
        return ""
    if "objection_open" in codes:
        return "An answer to the objection lifts this."
    if "low_probability" in codes:
        steps = ways(inputs, chance, thresholds.t_low, own=True) if inputs else ""
        return f"Pull requests that stay clean raise your chance. {steps}".rstrip()
    if codes & set(ATTESTATION_WORDS):
        return "A valid attestation of your jurisdiction lifts this."
    if verdict.lane is Lane.NEEDS_HUMAN:
        return ""
    sentences = [VOUCH_HELPS] if codes & set(OF_TRUST) else []
    if inputs and thresholds.t_high is not None:
        sentences.append(ways(inputs, chance, thresholds.t_high, own=True))
    return " ".join(filter(None, sentences))


def ways(inputs: Inputs, probability: float | None, target: float, own: bool = False) -> str:
    """Return a sentence with the single steps that would each bring the chance to `target`.

    "" without one, or at the target.

    Without a model it is computed from the record; else it is the result of the search on the model. `own` is for the
    author, who sees no figure of trust.
    """
    would = "would lift it" if own else "would reach it"
    if probability is not None and probability >= target:
        return ""
    if inputs.prediction is None:
        more = clean_needed(inputs.evidence, inputs.prior, inputs.strength, target)
        if not more or more > MOST_TOLD:
            return ""
        condition = f"{things(more, 'more pull request')} that {_stay(more)} clean"
        return f"{condition}, with no bad one in between, {would}."
    words_by_name = {**WAYS, **OWN_WAYS} if own else WAYS
    steps = [words(way) for way in inputs.prediction.ways if (words := words_by_name.get(way.name))]
    return f"Any one of these {would}: {'; '.join(steps)}." if steps else ""


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
OWN_WAYS: Mapping[str, Callable[[Needed], str]] = {
    "structural_trust": lambda way: "a vouch by somebody whom the maintainers trust more",
}
