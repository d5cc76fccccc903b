"""Computes what the network computes, with NumPy alone: states of pull requests, and log odds from stored states. Pure.

The states of round 1 never change while the weights stay, since all that a pull request hears lies before its opening.
They are stored with the weights, so that one pull request costs K gathered rows a relation and a few small products.
"""

import numpy as np
from numpy.typing import NDArray

from scoring.graph.inputs import RELATIONS, Floats32, Inputs, Weights
from scoring.graph.neighbours import Neighbours, Relation

MONOTONE = ("rise", "reach", "line")  # weights that signed columns pass: never negative
BLOCK = 4_096  # targets whose neighbours are gathered at once: 4,096 * 8 * 27 floats are 3.5 MB


def states_of(inputs: Inputs, weights: Weights) -> Floats32:
    """Return the state of each pull request after round 1, (n, hidden), never negative."""
    blocks, means = inputs.blocks, inputs.means()
    total = _linear(weights, "pull_first", blocks["pull"])
    for name, mean in means.items():
        total += _linear(weights, f"first.{name}.lin_l", mean) + blocks[name] @ weights[f"first.{name}.lin_r.weight"].T
    return np.maximum(total, 0.0)


def log_odds_from(states: Floats32, targets: Inputs, weights: Weights, neighbours: Neighbours) -> NDArray[np.float64]:
    """Return the log odds of n targets, from their own columns and the stored states of what they hear.

    Of `targets` only the columns count; `neighbours` are theirs, with rows of `states`.
    """
    blocks = targets.blocks
    total = _linear(weights, "pull_second", blocks["pull_free"])
    for name, relation in zip(RELATIONS, neighbours, strict=True):
        prefix = f"second.{name}"
        total += _linear(weights, f"{prefix}.lin_l", _heard(states, relation, weights, prefix))
        total += blocks[f"{name}_free"] @ weights[f"{prefix}.lin_r.weight"].T
    heard, signed = np.maximum(total, 0.0), blocks["signed"]
    mixed = np.tanh(signed @ weights["rise.weight"].T + _linear(weights, "turn", heard))
    odds = _linear(weights, "reach", mixed) + signed @ weights["line.weight"].T + heard @ weights["free.weight"].T
    return odds[:, 0].astype(np.float64)


def _heard(states: Floats32, relation: Relation, weights: Weights, prefix: str) -> Floats32:
    """Return the mean over each target's neighbours of their projected states and facts; 0 without neighbours."""
    projected = np.zeros((len(relation.rows), weights[f"{prefix}.lin.weight"].shape[0]), dtype=np.float32)
    for begin in range(0, len(relation.rows), BLOCK):
        part = slice(begin, begin + BLOCK)
        targets, places = np.nonzero(relation.rows[part] >= 0)
        if not len(targets):
            continue
        rows, facts = relation.rows[part], relation.facts[part]
        views = np.concatenate([states[rows[targets, places]], facts[targets, places]], axis=1)
        projections = np.maximum(_linear(weights, f"{prefix}.lin", views), 0.0)
        starts = np.flatnonzero(np.diff(targets, prepend=-1))
        sums = np.add.reduceat(projections, starts, axis=0)
        counts = np.diff(starts, append=len(targets)).astype(np.float32)
        projected[begin + targets[starts]] = sums / counts[:, None]
    return projected


def _linear(weights: Weights, name: str, values: Floats32) -> Floats32:
    return values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
