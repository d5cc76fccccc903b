"""The operator's settings for judging, in one value."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from django.conf import settings

from scoring.thresholds import RepositoryRules, Thresholds, check_unit
from scoring.types import Measure


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of trust: `transfer` c in [0, 1] for each vouch, `budget` B >= 0 for each person, `hops` L in 1..4.

    Raises ValueError for anything else. The bound of the region needs B <= 1.
    """

    transfer: float = 0.10
    budget: float = 1.0
    hops: int = 4

    def __post_init__(self) -> None:
        if not 0 <= self.transfer <= 1:
            raise ValueError(f"transfer must lie in [0, 1], not {self.transfer}")
        if not 0 <= self.budget < np.inf:
            raise ValueError(f"budget must be 0 or more and finite, not {self.budget}")
        if self.hops not in (1, 2, 3, 4):
            raise ValueError(f"hops must be 1, 2, 3 or 4, not {self.hops}")


@dataclass(frozen=True, slots=True)
class AuditRules:
    """The size of the audit: all of the `first`, then `share` in [0, 1], or the share that gives `per_day` if larger.

    By the defaults, at a share of 5 % alone and 20 a day, a rate of 12 % bad instead of 5 % is found after 79 days. Of
    a lane that was opened on an estimate only the share `estimated` counts, from the first one on. Raises ValueError
    for values outside their range, and where nothing of an estimated lane would be drawn.
    """

    share: float = 0.05
    per_day: float = 5.0
    first: int = 60
    estimated: float = 1 / 3

    def __post_init__(self) -> None:
        check_unit("AUDIT_SHARE", self.share)
        check_unit("ESTIMATED_AUDIT_SHARE", self.estimated)
        if self.estimated == 0:
            raise ValueError("ESTIMATED_AUDIT_SHARE must be above 0: without its audit nobody notices a bad lane")
        if not 0 <= self.per_day < float("inf") or self.first < 0:
            raise ValueError("AUDIT_PER_DAY and AUDIT_FIRST must be 0 or more")


FILE = Path(__file__).parents[1] / "models" / "starter_model.json"


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings of the judgement; the defaults were measured in docs/measurements.md."""

    parameters: Parameters = field(default_factory=Parameters)
    half_life_days: float = 730.0
    denounce_strength: float = 1.0
    vouch_weight: float = 0.9  # of a vouch without verified evidence
    evidence_weight: float = 0.05  # what each merged pull request adds that it names, up to 1 in all
    merge_weight: float = 0.0  # of the weak vouch that verified merges make, for each merge; 0: none
    merge_cap: float = 0.09  # at or above c = .10, farmed merges by one seed alone reach s = .5
    measure: Measure = "first_passage"
    window_days: int = 14
    prior: float = 0.53
    strength: float = 5.0
    thresholds: Thresholds = field(default_factory=Thresholds)
    repository: RepositoryRules = field(default_factory=RepositoryRules)  # where one has no rules of its own
    audit: AuditRules = field(default_factory=AuditRules)
    lane_traffic: int = 50  # settled pull requests a year without which a repository has no certified lane
    models: Path | None = None  # where the serving model lies; None: the shrunk rate serves
    starter: Path | None = None  # the starter model's file; None: no order is borrowed
    graph: Path | None = None  # where the graph network's states lie; None: it is not asked
    audit_key: bytes = field(
        default=b"", repr=False, compare=False
    )  # empty: nothing is drawn, so nothing is fast-laned


def policy_from_settings() -> Policy:
    return Policy(
        parameters=Parameters(settings.TRUST_TRANSFER, settings.TRUST_BUDGET, settings.TRUST_HOPS),
        half_life_days=settings.TRUST_HALF_LIFE_DAYS,
        denounce_strength=settings.TRUST_DENOUNCE_STRENGTH,
        vouch_weight=settings.TRUST_VOUCH_WEIGHT,
        evidence_weight=settings.TRUST_EVIDENCE_WEIGHT,
        merge_weight=settings.TRUST_MERGE_WEIGHT,
        merge_cap=settings.TRUST_MERGE_CAP,
        measure=settings.TRUST,
        window_days=settings.LABEL_WINDOW_DAYS,
        prior=settings.PRIOR_CLEAN_RATE,
        strength=settings.PRIOR_STRENGTH,
        thresholds=Thresholds(
            t_low=settings.T_LOW,
            t_high=settings.T_HIGH,
            budget=settings.FALSE_APPROVAL_BUDGET,
            delta=settings.FALSE_APPROVAL_DELTA,
            low_budget=settings.FALSE_ALARM_BUDGET,
            trust=settings.TRUST_FAST_LANE,
            two_ways=settings.TRUST_TWO_WAYS,
            r_low=settings.R_LOW,
            r_high=settings.R_HIGH,
            account_change_days=settings.ACCOUNT_CHANGE_DAYS,
            silent_days=settings.SILENT_DAYS,
            conditions=tuple(settings.LANE_CONDITIONS),
        ),
        repository=RepositoryRules(never_fast_paths=tuple(settings.NEVER_FAST_PATHS)),
        lane_traffic=settings.LANE_TRAFFIC,
        models=settings.MODEL_DIR,
        starter=FILE if settings.BORROW_ORDER else None,
        graph=settings.PYG_ROOT if settings.SHOW_GRAPH_MODEL else None,
        audit=AuditRules(
            settings.AUDIT_SHARE, settings.AUDIT_PER_DAY, settings.AUDIT_FIRST, settings.ESTIMATED_AUDIT_SHARE
        ),
        audit_key=str(settings.AUDIT_KEY).encode(),
    )
