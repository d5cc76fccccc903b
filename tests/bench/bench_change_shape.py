"""Measures whether the shape of a change tells a fix from its reversal: `python -m tests.bench.bench_change_shape`.

One line of JSON for each question, beside counting deleted lines; `ci` are 95 % intervals over projects or authors.
`paired`: pairs of diffs_paired that the model was not trained on, folds by project with its forks and copies, strength
chosen by folds within the others; share in which the reversal has the higher score, half a point for a tie.
`balanced` are those with as many added as deleted lines; `as_long` those whose fix adds as many tokens as it removes.
`shape` never sees a word; `findings` and `both` read the scanners' findings, the change's less those of its reversal.
`reverted`: area under the curve of diffs_reverted by a model trained on all pairs. `within_reverted`: trained on the
other projects of diffs_reverted, on the counts with their size. `outcomes`: the same model as `reverted` on merged pull
requests of pr_diffs, and the number of them (all: 12,932) may be given. It takes five minutes.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.linear_model import LogisticRegression

from scoring.diff.parser import read_change
from scoring.models.base import Floats
from scoring.training.metrics import auc, auc_of, interval, mean_of
from tests.bench.change_shape import FEATURES, FINDINGS, finding_balance, shape_of
from tests.sources import PROJECT

DATA = PROJECT.parent / "shared" / "data"
STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # C of the regression
FOLDS, INNER_FOLDS, DRAWS = 10, 5, 1_000
TITLE = 20  # characters of a title that shows a copy in another project
Groups = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Diffs of n reversals, their shapes (n, features), groups of projects, and lines deleted minus lines added."""

    diffs: Sequence[str | None]
    shapes: Floats
    groups: Groups
    deleted: Floats


def read_pairs(folder: Path, count: int | None = None) -> Pairs:
    """Return the first pairs of the file, all without a count. The shape of a fix is that of its reversal, negated."""
    reversals = [row for row in pq.read_table(folder / "diffs_paired.parquet").to_pylist() if row["label"] == "bad"]
    reversals = reversals[:count]
    titles = {row["pair"]: row["title"] for row in pq.read_table(folder / "diffs_paired.parquet").to_pylist()}
    diffs = [row["diff"] for row in reversals]
    return Pairs(
        diffs,
        shapes_of(diffs),
        grouped([row["project"] for row in reversals], [titles[row["pair"]] or "" for row in reversals]),
        np.array([row["deletions"] - row["additions"] for row in reversals], dtype=float),
    )


def shapes_of(diffs: Sequence[str | None]) -> Floats:
    """Return a row of FEATURES for each diff."""
    shapes = [shape_of(read_change(diff or "")) for diff in diffs]
    return np.array([[shape[name] for name in FEATURES] for shape in shapes])


def findings_of(diffs: Sequence[str | None]) -> Floats:
    """Return a row of FINDINGS for each diff."""
    balances = [finding_balance(read_change(diff or "")) for diff in diffs]
    return np.array([[balance[name] for name in FINDINGS] for balance in balances])


def grouped(projects: Sequence[str], titles: Sequence[str]) -> Groups:
    """Put together what shares a repository's name, as forks do, or a long title, as copies do."""
    names = [f"name {project.rpartition('/')[2].lower()}" for project in projects]
    keys = [title if len(title) > TITLE else name for title, name in zip(titles, names, strict=True)]
    _, columns = np.unique([*names, *keys], return_inverse=True)
    rows = np.tile(np.arange(len(names)), 2)
    size = len(names) + int(columns.max()) + 1
    _, groups = connected_components(
        coo_array((np.ones(len(rows)), (rows, len(names) + columns)), shape=(size, size)), directed=False
    )
    return groups[: len(names)].astype(np.int64)


def fit_odd(shapes: Floats, strength: float) -> Floats:
    """Return the weights of a regression without intercept: a reversed change scores the same with the other sign."""
    scale = shapes.std(axis=0) + 1e-9
    both = np.vstack([shapes, -shapes]) / scale
    is_reversal = np.repeat([1, 0], len(shapes))
    model = LogisticRegression(C=strength, fit_intercept=False, max_iter=1_000).fit(both, is_reversal)
    return model.coef_[0] / scale


def folds_of(groups: Groups, folds: int) -> Groups:
    """Return the fold of each case: whole groups, the largest first, each into the fold that has least."""
    loads = np.zeros(folds)
    chosen = np.zeros(len(groups), dtype=np.int64)
    numbers, sizes = np.unique(groups, return_counts=True)
    for at in np.argsort(-sizes, kind="stable"):
        fold = int(np.argmin(loads))
        loads[fold] += sizes[at]
        chosen[groups == numbers[at]] = fold
    return chosen


def scores_at(shapes: Floats, groups: Groups, strength: float, folds: int) -> Floats:
    """Return the score of each case by a model trained on other folds."""
    fold, scores = folds_of(groups, folds), np.zeros(len(shapes))
    for at in np.unique(fold):
        scores[fold == at] = shapes[fold == at] @ fit_odd(shapes[fold != at], strength)
    return scores


def best_strength(shapes: Floats, groups: Groups) -> float:
    """Return the strength with the lowest log-loss on folds within these cases."""
    losses = [np.logaddexp(0, -scores_at(shapes, groups, one, INNER_FOLDS)).mean() for one in STRENGTHS]
    return STRENGTHS[int(np.argmin(losses))]


def unseen_scores(features: Floats, groups: Groups) -> Floats:
    """Return the score of each reversal by a model that saw neither its project nor a choice made on it."""
    fold, scores = folds_of(groups, FOLDS), np.zeros(len(features))
    for at in np.unique(fold):
        seen = fold != at
        weights = fit_odd(features[seen], best_strength(features[seen], groups[seen]))
        scores[~seen] = features[~seen] @ weights
    return scores


def accuracy(scores: Floats, groups: Groups) -> dict[str, Any]:
    """Return the share of reversals that score above their fix, whose score is the same with the other sign."""
    wins = np.where(scores == 0, 0.5, scores > 0)
    low, high = interval(mean_of(wins), groups, DRAWS, 0)
    about = {"n": len(wins), "accuracy": float(wins.mean()), "ci": [low, high], "ties": float((scores == 0).mean())}
    return rounded(about)


def with_findings(pairs: Pairs) -> dict[str, Floats]:
    """Return the inputs of the models that know the findings."""
    findings = findings_of(pairs.diffs)
    return {"findings": findings, "both": np.hstack([pairs.shapes, findings])}


def paired(pairs: Pairs, more: Mapping[str, Floats]) -> dict[str, Any]:
    """Return the accuracies of counting and of models of the shape and of `more` inputs, on each set of pairs."""
    tokens = pairs.shapes[:, FEATURES.index("tokens")]
    inputs = {"shape": pairs.shapes, **more}
    judges = {name: unseen_scores(features, pairs.groups) for name, features in inputs.items()}
    judges |= {"tokens": -tokens, "deleted_lines": pairs.deleted}
    balanced = pairs.deleted == 0
    sets = {"all": np.ones(len(tokens), dtype=bool), "balanced": balanced, "as_long": balanced & (tokens == 0)}
    return {
        words: {name: accuracy(scores[chosen], pairs.groups[chosen]) for name, scores in judges.items()}
        for words, chosen in sets.items()
    }


def curve(scores: Floats, bad: NDArray[np.bool_], groups: Groups) -> dict[str, Any]:
    """Return how often a bad one scores above another, with its interval over groups."""
    low, high = interval(auc_of(scores, bad.astype(float)), groups, DRAWS, 0)
    return rounded({"n": len(bad), "bad": int(bad.sum()), "auc": auc(scores, bad.astype(float)), "ci": [low, high]})


def reverted(weights: Floats, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the curves of the pairs' model, of counting, and of a model of the other projects, on real reverts."""
    rows = pq.read_table(folder / "diffs_reverted.parquet").to_pylist()
    shapes, bad = shapes_of([row["diff"] for row in rows]), np.array([row["label"] == "bad" for row in rows])
    _, projects = np.unique([row["repo"] for row in rows], return_inverse=True)
    others = np.zeros(len(rows))
    for project in np.unique(projects):
        own = projects == project
        spread = shapes[~own].std(axis=0) + 1e-9
        model = LogisticRegression(C=0.01, max_iter=1_000).fit(shapes[~own] / spread, bad[~own])
        others[own] = model.decision_function(shapes[own] / spread)
    judges = {"shape": shapes @ weights, "deleted_lines": -shapes[:, FEATURES.index("lines")], "other_projects": others}
    return {name: curve(scores, bad, np.arange(len(rows))) for name, scores in judges.items()}


def outcomes(weights: Floats, folder: Path, count: int) -> dict[str, Any]:
    """Return the curves of the pairs' model on merged pull requests: taken back, or fixed within 14 days."""
    columns = ["repo", "number", "author", "merged", "usable", "reverted", "patched14_code_fix"]
    history = pq.read_table(folder / "pr_history.parquet", columns=columns).to_pylist()
    merged = {(row["repo"], row["number"]): row for row in history if row["merged"] and row["usable"]}
    diffs = pq.read_table(folder / "pr_diffs.parquet", columns=["repo", "number", "diff"])
    diffs = diffs.take([*range(0, len(diffs), max(1, len(diffs) // count))])
    rows = [row | merged[key] for row in diffs.to_pylist() if (key := (row["repo"], row["number"])) in merged]
    shapes = shapes_of([row["diff"] for row in rows])
    _, authors = np.unique([str(row["author"]) for row in rows], return_inverse=True)
    judges = {"shape": shapes @ weights, "deleted_lines": -shapes[:, FEATURES.index("lines")]}
    return {
        f"{outcome}, {name}": curve(scores, np.array([row[outcome] is True for row in rows]), authors)
        for outcome in ("reverted", "patched14_code_fix")
        for name, scores in judges.items()
    }


def rounded(figures: dict[str, Any]) -> dict[str, Any]:
    return {
        name: [round(edge, 3) for edge in value] if isinstance(value, list) else round(value, 3)
        for name, value in figures.items()
    }


def main(count: int = 12_932) -> None:
    if not DATA.is_dir():
        sys.exit(f"no real data: {DATA} is absent")
    pairs = read_pairs(DATA)
    weights = fit_odd(pairs.shapes, best_strength(pairs.shapes, pairs.groups))
    print(json.dumps({"weights": dict(zip(FEATURES, (pairs.shapes.std(axis=0) * weights).round(3), strict=True))}))
    print(json.dumps({"paired": paired(pairs, with_findings(pairs))}), flush=True)
    print(json.dumps({"reverted": reverted(weights, DATA)}), flush=True)
    print(json.dumps({"outcomes": outcomes(weights, DATA, count)}), flush=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
