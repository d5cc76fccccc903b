"""The network in PyTorch and its fit: SAGEConv of PyTorch Geometric in two rounds, then a monotone head.

Imported only by what trains: serving computes the same with NumPy (`states.py`). Deterministic on one machine for a
seed, on one thread.

Round 1 gives each pull request a state from its own columns and the mean of what its author and its repository hear.
Round 2 hears those states instead of columns. The head joins round 2 with the target's own columns; a column with a
certain direction reaches it only through weights that are not negative and functions that rise, so that it never acts
the other way, whatever the neighbours say.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from scoring.graph.inputs import RELATIONS, Inputs, Settings, Weights
from scoring.graph.states import MONOTONE


@dataclass(frozen=True, slots=True)
class _Edges:
    """The edges of one relation, (edges) each, with the facts of each: (edges, facts)."""

    sources: Tensor
    targets: Tensor
    facts: Tensor


class Net(nn.Module):
    """Log odds of n targets from their inputs."""

    def __init__(self, widths: Mapping[str, int], settings: Settings) -> None:
        super().__init__()
        hidden = settings.hidden
        self.rate = settings.dropout
        self.pull_first = nn.Linear(widths["pull"], hidden)
        self.first = nn.ModuleDict(
            {
                name: SAGEConv((widths["all"] + widths[f"facts_{name}"], widths[name]), hidden)
                for name in RELATIONS
                if name != "vouched"
            }
        )
        self.pull_second = nn.Linear(widths["pull_free"], hidden)
        self.second = nn.ModuleDict(
            {
                name: SAGEConv((hidden + widths[f"facts_{name}"], widths[f"{name}_free"]), hidden, project=True)
                for name in RELATIONS
            }
        )
        self.rise = nn.Linear(widths["signed"], hidden, bias=False)
        self.turn = nn.Linear(hidden, hidden)
        self.reach = nn.Linear(hidden, 1)
        self.line = nn.Linear(widths["signed"], 1, bias=False)
        self.free = nn.Linear(hidden, 1, bias=False)
        self.keep_monotone(start=True)

    def keep_monotone(self, start: bool = False) -> None:
        with torch.no_grad():
            for name in MONOTONE:
                weight = getattr(self, name).weight
                weight.copy_(weight.abs() / 2 if start else weight.clamp(min=0.0))

    def forward(self, graph: "Tensors") -> Tensor:
        states = self._states(graph)
        total = self.pull_second(graph.own["pull_free"])
        for name, conv in self.second.items():
            edges = graph.edges[name]
            views = torch.cat([states[edges.sources], edges.facts], dim=1)
            index = torch.stack([torch.arange(len(views), device=views.device), edges.targets])
            own = graph.own[f"{name}_free"]
            total = total + conv((views, own), index, size=(len(views), len(own)))
        heard = nn.functional.dropout(total.relu(), self.rate, self.training)
        signed = graph.own["signed"]
        mixed = torch.tanh(self.rise(signed) + self.turn(heard))
        return (self.reach(mixed) + self.line(signed) + self.free(heard)).squeeze(1)

    def _states(self, graph: "Tensors") -> Tensor:
        total = self.pull_first(graph.own["pull"])
        for name, conv in self.first.items():
            # The mean of these views never changes during a fit: it is taken once, and is one view a target here.
            own, means = graph.own[name], graph.means[name]
            total = total + conv((means, own), graph.identity, size=(len(means), len(own)))
        return nn.functional.dropout(total.relu(), self.rate, self.training)


@dataclass(frozen=True, slots=True)
class Tensors:
    """The inputs of n pull requests as tensors."""

    own: Mapping[str, Tensor]
    means: Mapping[str, Tensor]
    edges: Mapping[str, _Edges]
    identity: Tensor

    @classmethod
    def of(cls, inputs: Inputs, device: str) -> "Tensors":
        def tensor(values: NDArray[np.float32]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(device)

        edges = {}
        for name, relation in zip(RELATIONS, inputs.neighbours, strict=True):
            targets, places = np.nonzero(relation.rows >= 0)
            sources = relation.rows[targets, places].astype(np.int64)
            edges[name] = _Edges(
                torch.from_numpy(sources).to(device),
                torch.from_numpy(targets).to(device),
                tensor(relation.facts[targets, places]),
            )
        count = torch.arange(len(inputs.values), device=device)
        return cls(
            {name: tensor(block) for name, block in inputs.blocks.items()},
            {name: tensor(mean) for name, mean in inputs.means().items()},
            edges,
            torch.stack([count, count]),
        )


def fit(
    inputs: Inputs,
    target: NDArray[np.float32],
    weight: NDArray[np.float32],
    settings: Settings,
    seed: int,
    start: Weights | None = None,
    device: str = "cpu",
) -> Weights:
    """Learn from n rows: `target` is the chance of clean, rows of `weight` 0 only speak as neighbours.

    With `start` the fit goes on from these weights, for `settings.again` steps instead of `settings.steps`.
    """
    torch.set_num_threads(1)  # two threads on two busy cores take five times as long as one
    torch.manual_seed(seed)
    graph = Tensors.of(inputs, device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Initializing zero-element")  # of a person alone there is no change
        net = Net(inputs.widths(), settings).to(device)
    if start is not None:
        net.load_state_dict({name: torch.from_numpy(array) for name, array in start.items()})
    goal = torch.from_numpy(target.astype(np.float32)).to(device)
    shares = torch.from_numpy((weight / weight.sum()).astype(np.float32)).to(device)
    steps = settings.steps if start is None else settings.again
    optimiser = torch.optim.AdamW(net.parameters(), lr=settings.rate, weight_decay=settings.decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    net.train()
    for _ in range(steps):
        optimiser.zero_grad(set_to_none=True)
        losses = nn.functional.binary_cross_entropy_with_logits(net(graph), goal, reduction="none")
        (losses * shares).sum().backward()
        optimiser.step()
        schedule.step()
        net.keep_monotone()
    return {name: value.detach().cpu().numpy().copy() for name, value in net.state_dict().items()}


def log_odds(inputs: Inputs, weights: Weights, settings: Settings) -> NDArray[np.float64]:
    """Return the log odds of n rows by the network itself; `states.py` gives the same without PyTorch."""
    net = Net(inputs.widths(), settings)
    net.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    net.eval()
    with torch.no_grad():
        return net(Tensors.of(inputs, "cpu")).numpy().astype(np.float64)
