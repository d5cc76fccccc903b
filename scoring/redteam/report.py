"""The whole red team on one graph: every attack, ours and the rivals side by side, as plain values. Pure.

A report names nobody: it holds counts and shares, so that it can be kept and shown whatever becomes of the people.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scoring.policy import Policy
from scoring.redteam.attack import Ground
from scoring.redteam.bombing import Plan, bomb
from scoring.redteam.farming import farm, quote
from scoring.redteam.fitting import CROWD, fit, regulars, steal
from scoring.redteam.lanes import RECORDS
from scoring.redteam.measures import HALF, reached
from scoring.redteam.rewiring import largest_lift, self_lifts
from scoring.redteam.rivals import OURS, SCORES, first_passage_by
from scoring.redteam.table import FULL, MOST_TRUSTED, QUICK, RANDOM, Grid, play, summarize
from scoring.trust import first_passage

# (what one merge weighs, what all by one person weigh at most); those of the settings are played beside them
MERGE_WEIGHTS = ((0.01, 0.05), (0.03, 0.09), (0.05, 0.30), (0.10, 1.00))
# (what a vouch weighs without evidence, what each verified pull request adds); the settings' own beside them
EVIDENCE_WEIGHTS = ((1.00, 0.00), (0.90, 0.05), (0.75, 0.125), (0.50, 0.25))
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is played: the grid of the attack table, people who rewire, accounts that are stolen, vouches bought."""

    name: str
    grid: Grid
    people: int
    stolen: int
    bought: tuple[int, ...]


BRIEF = Scale("brief", QUICK, people=5, stolen=10, bought=(5, 20))
WHOLE = Scale("whole", FULL, people=50, stolen=50, bought=(1, 5, 20, 50))


def attack_everything(ground: Ground, scale: Scale, policy: Policy, key: int, tell: Tell) -> dict[str, Any]:
    """Every attack on the ground; `key` seeds the draws, `tell` hears what is played. ValueError without any trust.

    The values are numbers, strings, lists and dictionaries, ready for JSON; shares and s lie in [0, 1].
    """
    return {
        "graph": _graph(ground, policy),
        "scale": {"name": scale.name, **asdict(scale.grid), "people": scale.people, "stolen": scale.stolen, "key": key},
        "parameters": asdict(policy.parameters),
        "scores": _scores(ground, scale, policy, key, tell),
        "bombing": _bombing(ground, policy, key, tell),
        "farming": _farming(ground, policy, tell),
        "quoting": _quoting(ground, policy, tell),
        "fitted": _fitted(ground, scale, policy, key, tell),
        "stolen": _stolen(ground, scale, policy, tell),
    }


def _graph(ground: Ground, policy: Policy) -> dict[str, Any]:
    trust = first_passage(ground.edges, ground.seeds, ground.size, policy.parameters).trust
    honest = reached(ground)
    return {
        "people": ground.size,
        "vouches": len(ground.edges.voucher),
        "seeds": len(ground.seeds),
        "reached": len(honest),
        "trusted": int((trust[honest] >= HALF).sum()),
    }


def _scores(ground: Ground, scale: Scale, policy: Policy, key: int, tell: Tell) -> dict[str, Any]:
    """For each score the largest self-lift and the summaries of the table."""
    cells = play(ground, scale.grid, key, policy, SCORES, lambda shape: tell(f"regions: {shape}"))
    tell("rewiring one's own vouches")
    honest = reached(ground)
    people = np.random.default_rng(key).choice(honest, min(scale.people, len(honest)), replace=False)
    scores = {OURS: first_passage_by(policy.parameters), **SCORES}
    return {
        name: {
            "self_lift": largest_lift(self_lifts(ground, score, people)),
            "random": summarize(cells, name, RANDOM),
            "most_trusted": summarize(cells, name, MOST_TRUSTED),
        }
        for name, score in scores.items()
    }


def _bombing(ground: Ground, policy: Policy, key: int, tell: Tell) -> list[dict[str, Any]]:
    tell("denounce bombing")
    plans = [Plan(top=top) for top in (RANDOM, MOST_TRUSTED)]
    strength = policy.denounce_strength
    return [asdict(bomb(ground, plan, policy.parameters, strength, np.random.default_rng(key))) for plan in plans]


def _farming(ground: Ground, policy: Policy, tell: Tell) -> list[dict[str, Any]]:
    tell("merge farming")
    served = [(policy.merge_weight, policy.merge_cap)] if policy.merge_weight > 0 else []
    played = dict.fromkeys((*MERGE_WEIGHTS, *served))
    return [asdict(row) for each, cap in played for row in farm(ground, 20, each, cap, policy.parameters)]


def _quoting(ground: Ground, policy: Policy, tell: Tell) -> list[dict[str, Any]]:
    tell("quoted merges")
    played = dict.fromkeys((*EVIDENCE_WEIGHTS, (policy.vouch_weight, policy.evidence_weight)))
    return [asdict(row) for base, each in played for row in quote(ground, 20, base, each, policy.parameters)]


def _fitted(ground: Ground, scale: Scale, policy: Policy, key: int, tell: Tell) -> list[dict[str, Any]]:
    tell("cliques fitted to the budget")
    return [
        asdict(fit(ground, bought, top, policy, np.random.default_rng([key, bought])))
        for top in (RANDOM, MOST_TRUSTED)
        for bought in scale.bought
    ]


def _stolen(ground: Ground, scale: Scale, policy: Policy, tell: Tell) -> dict[str, Any]:
    """The worst and the median over the accounts tried; `in_lane` as the gate sorts the fakes, without a record and
    with `record` clean merges each."""
    tell("stolen accounts")
    tried = regulars(ground, policy.parameters, scale.stolen)
    found = [steal(ground, int(person), policy).brought for person in tried]
    fast = [max((one.fast[place] for one in found), default=0) for place in range(len(RECORDS))]
    return {
        "tried": len(found),
        "above": max((one.above for one in found), default=0),
        "above_median": float(np.median([one.above for one in found])) if found else 0.0,
        "on_two": max((one.on_two for one in found), default=0),
        "crowd": CROWD if found else 0,
        "fast": dict(zip(map(str, RECORDS), fast, strict=True)),
        "in_lane": fast[0],
        "record": RECORDS[-1],
        "in_lane_with_record": fast[-1],
        "lane_open": policy.thresholds.t_high is not None,
    }
