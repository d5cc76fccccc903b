"""Computes what the network computes, with NumPy alone: states of pull requests, and log odds from stored states. Pure.

The states of round 1 never change while the weights stay, since all that a pull request hears lies before its opening.
They are stored with the weights, so that one pull request costs K gathered rows a relation and a few small products.
"""

import numpy as np
from numpy.typing import NDArray

from scoring.graph.inputs import Edges, Floats32, Inputs, Weights

MONOTONE = ("rise", "reach", "line")  # weights that signed columns pass: never negative
BLOCK = 4_096  # targets whose neighbours are gathered at once: 4,096 * 8 * 27 floats are 3.5 MB


def states_of(inputs: Inputs, weights: Weights) -> Floats32:
    """Return the state of each pull request after round 1, (n, hidden), never negative."""
    blocks, means = inputs.blocks, inputs.means()
    total = _linear(weights, "pull_first", blocks["pull"])
    for name, mean in means.items():
        total += _linear(weights, f"first.{name}.lin_l", mean) + blocks[name] @ weights[f"first.{name}.lin_r.weight"].T
    return np.maximum(total, 0.0)


def log_odds_from(states: Floats32, targets: Inputs, weights: Weights) -> NDArray[np.float64]:
    """Return the log odds of n targets, from their own columns and the stored states of their neighbours."""
    blocks = targets.blocks
    total = _linear(weights, "pull_second", blocks["pull_free"])
    for name, edges in targets.edges.items():
        prefix = f"second.{name}"
        total += _linear(weights, f"{prefix}.lin_l", _heard(states, edges, weights, prefix, len(total)))
        total += blocks[f"{name}_free"] @ weights[f"{prefix}.lin_r.weight"].T
    heard, signed = np.maximum(total, 0.0), blocks["signed"]
    mixed = np.tanh(signed @ weights["rise.weight"].T + _linear(weights, "turn", heard))
    odds = _linear(weights, "reach", mixed) + signed @ weights["line.weight"].T + heard @ weights["free.weight"].T
    return odds[:, 0].astype(np.float64)


def _heard(states: Floats32, edges: Edges, weights: Weights, prefix: str, count: int) -> Floats32:
    """Return the mean over each target's neighbours of their projected states and facts; 0 without neighbours."""
    projected = np.zeros((count, weights[f"{prefix}.lin.weight"].shape[0]), dtype=np.float32)
    ends = np.append(edges.starts[1:], len(edges.sources))
    for begin in range(0, len(edges.targets), BLOCK):
        starts = edges.starts[begin : begin + BLOCK]
        part = slice(starts[0], ends[begin : begin + BLOCK][-1])
        views = np.concatenate([states[edges.sources[part]], edges.facts[part]], axis=1)
        projections = np.maximum(_linear(weights, f"{prefix}.lin", views), 0.0)
        sums = np.add.reduceat(projections, starts - starts[0], axis=0)
        projected[edges.targets[begin : begin + BLOCK]] = sums / edges.counts[begin : begin + BLOCK, None]
    return projected


def _linear(weights: Weights, name: str, values: Floats32) -> Floats32:
    return values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
