"""What holds in one repository: the operator's thresholds and rules under what its maintainers set. Pure."""

from dataclasses import replace

from scoring.repository_settings import RepositorySettings
from scoring.rules import RepositoryRules, Thresholds


def thresholds_under(thresholds: Thresholds, budget: float | None) -> Thresholds:
    """The site's thresholds as they hold under a repository's own budget in (0, 1), None for the site's.

    A certificate speaks for its budget and every larger one. Under a smaller one it says nothing, so the fast lane is
    shut there until a threshold is certified that keeps it; a threshold that was set by hand stays what it is. A lane
    that was opened on an estimate has the budget of its opening.
    """
    if budget is None or budget == thresholds.budget or thresholds.estimated is not None:
        return thresholds
    if thresholds.certified and budget < thresholds.budget:
        return replace(thresholds, budget=budget, t_high=None, certified=False)
    return replace(thresholds, budget=budget)


def rules_under(default: RepositoryRules, settings: RepositorySettings) -> RepositoryRules:
    """The gate's rules of a repository: its own path patterns beside the operator's, which nothing there takes back."""
    # The last pattern that matches decides, also one that takes back.
    paths = (*settings.never_fast_paths, *default.never_fast_paths)
    return replace(default, never_fast_paths=paths, tier=settings.tier)
