"""What a program is told that may not read: how to get in, or that it tried too often."""

import time

from django.conf import settings

from triage import throttle
from triage.problems import CHALLENGE, HOW_TO_READ, ApiProblem
from triage.requests import Request
from triage.token_access import bearer_secret, held_to
from triage.tokens import count_refused

ONE_REPOSITORY = (
    "This token reads one repository only, and this address covers others too. "
    "Ask /queue, /pull, /approved.json, /score or /trust with repo."
)


def turned_away(request: Request, how: str = HOW_TO_READ) -> ApiProblem:
    """401 with `how` for who has no good token, 403 for one that reads one repository; 429 for too many of these.

    A revoked token is counted where it is kept, so that its owner sees that somebody still has it.
    """
    if how == HOW_TO_READ and held_to(request):
        return ApiProblem(403, ONE_REPOSITORY, code="one_repository")
    network, now = throttle.network_of(request.META.get("REMOTE_ADDR", "")), time.time()
    if throttle.count("refused", network, throttle.MINUTE, now) > settings.API_ANONYMOUS_A_MINUTE:
        return too_many(throttle.seconds_left(throttle.MINUTE, now))
    if secret := bearer_secret(request):
        count_refused(secret)
    return ApiProblem(401, how, CHALLENGE)


def too_many(seconds: int) -> ApiProblem:
    """429 until the window ends."""
    return ApiProblem(429, f"Too many requests; try again in {seconds} seconds.", {"Retry-After": str(seconds)})
