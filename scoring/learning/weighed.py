"""What the trees of the newest quarter weigh, as shap's summary plot draws it.

Their shares of each case are LightGBM's own exact Shapley values, which are shap's to 1e-9 (a test compares them).
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill

import numpy as np
from numpy.typing import NDArray

from scoring.explain import factor_label
from scoring.learning.boosted import Boosted
from scoring.learning.contributions import contributions
from scoring.learning.design import Floats
from scoring.learning.paired import Estimator

MOST_CASES = 500  # points a row: more of them hide one another
MOST_COLUMNS = 12
LINE = 44  # characters of a label's line


@dataclass(frozen=True, slots=True)
class Weighed:
    """Of n cases and the columns `names`: `shares` of the log odds (n, columns), and the raw `values` (n, columns)."""

    names: tuple[str, ...]
    shares: Floats
    values: Floats


def weighed(
    model: Estimator | None, features: Mapping[str, Floats], which: NDArray[np.bool_], seed: int
) -> Weighed | None:
    """The shares of at most MOST_CASES of `which` (n), drawn by the seed; None where no trees could be fitted."""
    places = np.flatnonzero(which)
    if not isinstance(model, Boosted) or not len(places):
        return None
    places = np.sort(np.random.default_rng(seed).permutation(places)[:MOST_CASES])
    rows = {name: features[name][places] for name in model.names_}
    found = contributions(model, rows)
    return Weighed(found.names, found.shares, np.column_stack([rows[name] for name in found.names]))


def summary_plot(found: Weighed) -> bytes:
    """A PNG of shap's beeswarm: a point a case, to the right what raises P, coloured by the raw value."""
    import matplotlib as mpl

    mpl.use("Agg")  # no window, and none is asked for
    import shap
    from matplotlib import pyplot as plt

    labels = [fill(factor_label(name), LINE) for name in found.names]
    told = shap.Explanation(values=found.shares, data=found.values, feature_names=labels)
    state = np.random.get_state()  # shap spreads the points by this generator
    np.random.seed(0)
    figure = plt.figure(figsize=(10, 7), facecolor="white")
    try:
        shap.plots.beeswarm(told, max_display=MOST_COLUMNS, show=False, plot_size=None)
        plt.xlabel("Share of the log odds of clean")
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=90, bbox_inches="tight", metadata={"Software": None})
    finally:
        plt.close(figure)
        np.random.set_state(state)
    return drawn.getvalue()
