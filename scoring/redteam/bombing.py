"""Denounce bombing: what fakes take from the most trusted people by denouncing them. Pure."""

from dataclasses import dataclass

import numpy as np

from scoring.denounces import Denounced, judge_denounces
from scoring.graph import Edges, Floats, Integers
from scoring.policy import Parameters
from scoring.redteam.attack import Attack, Generator, Ground, attack, choose_vouchers
from scoring.redteam.measures import HALF, reached
from scoring.redteam.shapes import SHAPES
from scoring.trust import first_passage


@dataclass(frozen=True, slots=True)
class Plan:
    """`fakes` behind `bought` vouches by people of the `top` share denounce each of the `victims` most trusted."""

    fakes: int = 1_000
    bought: int = 50
    victims: int = 20
    top: float = 1.0


@dataclass(frozen=True, slots=True)
class Bombing:
    """What a plan takes in the worst of the nine shapes; `bought` and `denounced`: how many people there were for it.

    `trust_lost` of their s and `mass_lost` of the trust mass behind it are the shares in [0, 1] that the victim who
    loses most loses (s saturates: who has much mass loses little s), `mass_lost_mean` is that over the victims.
    `moved`: how many of the `trusted` honest people (s >= .5 without the denounces) fall below s = .5;
    `moved_plainly`: the same where a denounce by anybody at all takes all trust.
    """

    plan: Plan
    bought: int
    denounced: int
    shape: str
    trust_lost: float
    mass_lost: float
    mass_lost_mean: float
    trusted: int
    moved: int
    moved_plainly: int


def bomb(ground: Ground, plan: Plan, parameters: Parameters, strength: float, draw: Generator) -> Bombing:
    """Play the plan in every shape and tell the worst. ValueError where nobody has trust."""
    before = first_passage(ground.edges, ground.seeds, ground.size, parameters).mass
    victims = np.argsort(-before, kind="stable")[: plan.victims]
    victims = victims[before[victims] > 0]
    if not len(victims):
        raise ValueError("nobody but seeds has trust, so there is nobody to denounce")
    vouchers = choose_vouchers(before, ground.seeds, plan.bought, plan.top, draw)
    played = []
    for name, shape in SHAPES.items():
        under = attack(ground, shape, vouchers, plan.fakes, draw)
        denounces = _all_by_all(under.fakes, victims)
        found = judge_denounces(under.edges, denounces, ground.seeds, under.size, parameters, strength)
        played.append((_lost(found, victims), name, found, under))
    trust_lost = max(float(lost[0].max()) for lost, *_ in played)
    (_, mass), name, found, under = max(played, key=lambda one: one[0][1].max())
    mass_lost, mean = float(mass.max()), float(mass.mean())
    trusted, moved, moved_plainly = _moved(ground, under, found, victims, parameters)
    return Bombing(plan, len(vouchers), len(victims), name, trust_lost, mass_lost, mean, trusted, moved, moved_plainly)


def _lost(found: Denounced, victims: Integers) -> tuple[Floats, Floats]:
    """The shares of their s and of their trust mass that the victims lose."""
    before, after = found.first, found.passage
    return 1 - after.trust[victims] / before.trust[victims], 1 - after.mass[victims] / before.mass[victims]


def _moved(
    ground: Ground, under: Attack, found: Denounced, victims: Integers, parameters: Parameters
) -> tuple[int, int, int]:
    """Honest people who are trusted, who stop to be, and who would by the plain rule."""
    honest = reached(ground)
    trusted = honest[found.first.trust[honest] >= HALF]
    spared = ~np.isin(under.edges.subject, victims)
    left = Edges(under.edges.voucher[spared], under.edges.subject[spared], under.edges.weight[spared])
    plainly = first_passage(left, ground.seeds, under.size, parameters).trust
    lost = [int((trust[trusted] < HALF).sum()) for trust in (found.passage.trust, plainly)]
    return len(trusted), lost[0], lost[1]


def _all_by_all(fakes: Integers, victims: Integers) -> Edges:
    """A denounce of weight 1 by every fake of every victim."""
    return Edges(np.repeat(fakes, len(victims)), np.tile(victims, len(fakes)), np.ones(len(fakes) * len(victims)))
