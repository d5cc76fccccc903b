"""Judgements in plain words: a sentence for each reason, one line for a row, what would change the lane. Pure.

Names come from the network. They are put in as values, never read as templates, and lose characters that cannot be
seen or that turn the writing direction. Whoever shows a sentence still escapes it. Unknown is not bad: where there is
no path and no history the words say what is missing and nothing about the person.
"""

from collections.abc import Callable, Mapping
from decimal import ROUND_FLOOR, Decimal

from scoring.gate import Thresholds, path_params
from scoring.threshold import items_needed
from scoring.verdict import Evidence, Lane, Param, Reason, Verdict

Params = Mapping[str, Param]

LONGEST_NAME = 80  # characters; a handle may have 253 and a did:web 2,000

FACTOR_LABELS: Mapping[str, str] = {
    "clean": "Contributions that stayed clean",
    "not_clean": "Contributions that did not",
    "structural_trust": "Trust from the seeds",
    "eigentrust": "EigenTrust (for comparison)",
    "distance": "Hops from the nearest seed",
    "waiting": "Merged, still being watched",
    "trusted_denouncers": "Trusted people who denounce",
}


def sentence(reason: Reason) -> str:
    """The reason as one whole sentence; a code that this version does not know is named as such."""
    write = SENTENCES.get(reason.code)
    return write(reason.params) if write else f"Reason “{_name(reason.code)}”, which this version has no words for."


def explain(verdict: Verdict, evidence: Evidence) -> str:
    """One line for a row: trust path, track record, then what decided; without a full stop."""
    clauses = [_trust_clause(evidence), _track_clause(_counts(evidence))]
    clauses += [CLAUSES[reason.code](reason.params) for reason in verdict.reasons if reason.code in CLAUSES]
    return _capital("; ".join(clauses))


def would_change(verdict: Verdict, evidence: Evidence, thresholds: Thresholds) -> str:
    """What would move this to another lane, in one or two sentences; nothing here is a promise about the content."""
    if evidence.denounced_by_seed:
        return "Only the seed who denounced this contributor can lift this, by taking the denounce back."
    if verdict.lane is Lane.NEEDS_HUMAN:
        low = shown_threshold(thresholds.t_low)
        return f"Contributions that stay clean raise P(clean); from {low} on this goes to the normal queue."
    if verdict.lane is Lane.FAST_LANE:
        high = shown_threshold(thresholds.t_high or 0.0)
        return f"P(clean) below {high}, a denounce by a seed or the loss of the trust path would end the fast lane."
    if thresholds.t_high is None:
        needed = items_needed(thresholds.budget, thresholds.delta)
        return f"{_settled(needed)} {_need(needed)} before a fast lane can open.{_first_steps(verdict, evidence)}"
    return _towards_fast_lane(verdict, evidence, thresholds.t_high)


def lane_notice(thresholds: Thresholds) -> str:
    """The sentence that every page shows while the fast lane is shut or its threshold not certified; else empty."""
    if thresholds.t_high is None:
        needed = items_needed(thresholds.budget, thresholds.delta)
        return sentence(Reason("fast_lane_shut", {"needed": needed, "have": thresholds.settled}))
    return "" if thresholds.certified else sentence(Reason("threshold_not_certified", {"t_high": thresholds.t_high}))


def factor_label(name: str) -> str:
    """A factor's name in plain words."""
    return FACTOR_LABELS.get(name, name.replace("_", " ").capitalize())


def shown(probability: float) -> str:
    """A probability with two decimals, rounded down: .899 is "0.89", so it never looks like a threshold it missed."""
    return f"{_floor(probability, 2)}"


def shown_against(probability: float, threshold: float) -> str:
    """`shown`, with as many decimals as it takes to stand on the true side of a finer threshold (.907 against .905)."""
    exact = Decimal(str(probability))
    for digits in range(2, 8):
        floored = _floor(probability, digits)
        if (floored >= Decimal(str(threshold))) == (probability >= threshold):
            return f"{floored}"
    return f"{exact:f}"


def shown_threshold(threshold: float) -> str:
    """A threshold in full, with at least two decimals."""
    exact = Decimal(str(threshold))
    return f"{exact:f}" if exact != exact.quantize(Decimal("0.01")) else f"{exact:.2f}"


def basis_points(probability: float) -> int:
    """A probability in hundredths of a per cent, rounded down."""
    return int(_floor(probability, 4) * 10_000)


def _floor(probability: float, digits: int) -> Decimal:
    """The number that is written, cut after `digits` decimals: 0.29 stays 0.29, which 0.29 * 100 would not."""
    return Decimal(str(probability)).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR)


def _name(value: Param) -> str:
    """A name from the network as it may be shown: visible characters only, cut where it is too long."""
    visible = "".join(character for character in str(value) if character.isprintable())
    return visible if len(visible) <= LONGEST_NAME else f"{visible[: LONGEST_NAME - 1]}…"


def _number(value: Param) -> float:
    """A parameter that must be a number."""
    if isinstance(value, int | float):
        return float(value)
    raise ValueError(f"a number was expected, not {value!r}")


def _count(value: Param) -> int:
    """A parameter that must be a count."""
    return int(_number(value))


def _things(count: int, thing: str) -> str:
    """'1 pull request', '2 pull requests'."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def _settled(count: int) -> str:
    return f"{_things(count, 'settled pull request')}, {'a clean one' if count == 1 else 'all of them clean'},"


def _need(count: int) -> str:
    return "is needed" if count == 1 else "are needed"


def _counts(evidence: Evidence) -> Params:
    return {
        "merged_here": evidence.merged_here,
        "settled_here": evidence.settled_here,
        "clean": evidence.clean,
        "cases": evidence.clean + evidence.not_clean,
        "waiting": evidence.waiting,
    }


def _trust_clause(evidence: Evidence) -> str:
    """The trust path in words; a seed's denounce stands in its place."""
    if evidence.denounced_by_seed:
        return "denounced by a seed here"
    if evidence.is_seed:
        return "a seed of trust here"
    if evidence.structural_trust <= 0:
        return "no trust path from the seeds here yet"
    if len(evidence.path) < 2:
        return "trust from the seeds reaches this contributor"
    return _path_words(path_params(evidence))


def _path_words(params: Params) -> str:
    seed, voucher, hops = _name(params["seed"]), _name(params["voucher"]), _count(params["hops"])
    merges, seed_merges = _count(params.get("merges", 0)), _count(params.get("seed_merges", 0))
    how = f"merged {'once' if merges == 1 else f'{merges} times'} by" if merges else "vouched for by"
    if hops == 1:
        return f"{how} the maintainer {seed}"
    if hops == 2:
        return f"{how} {voucher}, whom the seed {seed} {'merged before' if seed_merges else 'vouches for'}"
    return f"{hops} hops from the seed {seed} via {voucher}"


def _track_clause(params: Params) -> str:
    """What became of earlier contributions, here first."""
    merged_here, settled_here = _count(params["merged_here"]), _count(params["settled_here"])
    clean, cases, waiting = _count(params["clean"]), _count(params["cases"]), _count(params["waiting"])
    here = f"{merged_here} of {settled_here} merged here" if settled_here else "no settled contribution here yet"
    scope = "" if cases == settled_here else " over all" if settled_here else " elsewhere"
    overall = f", {clean} of {cases} clean{scope}" if cases and (clean, cases) != (merged_here, settled_here) else ""
    watched = f", {waiting} merged and still being watched" if waiting and not settled_here else ""
    return here + overall + watched


def _first_steps(verdict: Verdict, evidence: Evidence) -> str:
    """What would give somebody without a path or a history one of them."""
    steps = []
    if evidence.structural_trust <= 0:
        steps.append("A vouch by a seed would give a trust path.")
    if verdict.estimate.probability is None:
        steps.append("A first settled contribution would give P(clean).")
    return "".join(f" {step}" for step in steps)


def _towards_fast_lane(verdict: Verdict, evidence: Evidence, t_high: float) -> str:
    """What separates the normal queue from the fast lane."""
    probability, reached = verdict.estimate.probability, evidence.structural_trust > 0
    if probability is not None and probability >= t_high:
        return "A vouch by a seed would put this in the fast lane."
    vouch = "" if reached else " together with a vouch by a seed"
    return (
        f"P(clean) of {shown_threshold(t_high)} or more{vouch} would put this in the fast lane; "
        "contributions that stay clean raise it."
    )


def _say_shut(params: Params) -> str:
    needed, have = _count(params["needed"]), params["have"]
    if have is not None and _count(have) >= needed:
        return f"The fast lane is shut: no threshold is certified yet on the {_count(have):,} settled pull requests."
    so_far = "" if have is None else f"; so far there {'is' if _count(have) == 1 else 'are'} {_count(have)}"
    return f"The fast lane is shut: {_settled(needed)} {_need(needed)} to set its threshold{so_far}."


def _say_low(params: Params) -> str:
    low = _number(params["t_low"])
    return f"P(clean) is {shown_against(_number(params['probability']), low)}, below {shown_threshold(low)}."


def _say_below(params: Params) -> str:
    high = _number(params["t_high"])
    return (
        f"P(clean) is {shown_against(_number(params['probability']), high)}; "
        f"the fast lane starts at {shown_threshold(high)}."
    )


def _say_denounced(params: Params) -> str:
    count = _count(params["count"])
    return f"denounced by {count} trusted {'person' if count == 1 else 'people'}"


def _say_unknown(params: Params) -> str:
    waiting = _count(params["waiting"])
    rest = f": {_things(waiting, 'merged contribution')} still being watched" if waiting else ""
    return f"Not enough evidence for P(clean) yet{rest}."


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


SENTENCES: Mapping[str, Callable[[Params], str]] = {
    "denounced_by_seed": lambda params: "A seed here denounced this contributor.",
    "low_probability": _say_low,
    "not_enough_evidence": _say_unknown,
    "fast_lane_shut": _say_shut,
    "below_fast_lane": _say_below,
    "no_trust_path": lambda params: "No trust path from the seeds here yet.",
    "is_seed": lambda params: "This contributor is a seed of trust here.",
    "trust_path": lambda params: f"{_capital(_path_words(params))}.",
    "trust_reaches": lambda params: (
        f"Trust from the seeds reaches this contributor ({shown(_number(params['structural_trust']))})."
    ),
    "trusted_denouncers": lambda params: f"{_capital(_say_denounced(params))}.",
    "track_record": lambda params: f"{_capital(_track_clause(params))}.",
    "threshold_not_certified": lambda params: (
        f"The fast lane's threshold {shown_threshold(_number(params['t_high']))} was set by hand: no certificate says "
        "how many bad changes it lets through."
    ),
    "content_not_reviewed": lambda params: "The content was not reviewed yet.",
}

# What a row's one line adds to trust path and track record; the other reasons stand in the open row.
CLAUSES: Mapping[str, Callable[[Params], str]] = {
    "low_probability": lambda params: _say_low(params).removesuffix("."),
    "trusted_denouncers": _say_denounced,
    "not_enough_evidence": lambda params: "not enough evidence yet",
    "threshold_not_certified": lambda params: "threshold not certified",
    "content_not_reviewed": lambda params: "content not reviewed yet",
}
