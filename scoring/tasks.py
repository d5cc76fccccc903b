"""The Huey task of the scoring hop."""

from django.conf import settings

from ingest.queue import huey
from ingest.runtime import current
from scoring.gate import Thresholds
from scoring.policy import Policy
from scoring.score import score
from scoring.trust import Parameters


def policy_from_settings() -> Policy:
    """The operator's policy."""
    return Policy(
        parameters=Parameters(settings.TRUST_TRANSFER, settings.TRUST_BUDGET, settings.TRUST_HOPS),
        half_life_days=settings.TRUST_HALF_LIFE_DAYS,
        window_days=settings.LABEL_WINDOW_DAYS,
        prior=settings.PRIOR_CLEAN_RATE,
        strength=settings.PRIOR_STRENGTH,
        thresholds=Thresholds(
            t_low=settings.T_LOW,
            t_high=settings.T_HIGH,
            budget=settings.FALSE_APPROVAL_BUDGET,
            delta=settings.FALSE_APPROVAL_DELTA,
        ),
    )


@huey.task()
def score_everyone() -> None:
    """Judge anew if anything changed."""
    runtime = current()
    if score(runtime.store, runtime.clock, policy_from_settings()):
        runtime.changed("score_everyone")
