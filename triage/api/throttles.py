"""How much one caller may ask, as django-ninja's throttles: fixed windows, counted in Django's cache.

django-ninja's own SimpleRateThrottle keeps the times of all requests of a window: 50 µs a request at 1,200 a minute,
where a count takes 9, and one object holds them for all threads.
"""

import time
from typing import cast

from django.conf import settings
from django.http import HttpRequest
from ninja.throttling import BaseThrottle

from triage import throttle
from triage.requests import Request
from triage.token_access import counted_as, token_of


def caller(request: Request) -> tuple[str, bool]:
    """Return who is counted and whether they are known: the person, else the token, else the network address.

    A person's tokens count with their pages, so that making and revoking tokens begins no new count.

    The address is the server's word. X-Forwarded-For is never read: waitress puts a trusted proxy's into REMOTE_ADDR.
    """
    if request.user.is_authenticated:
        return f"person:{request.user.pk}", True
    if (token := token_of(request)) is not None:
        return counted_as(token), True
    return throttle.network_of(request.META.get("REMOTE_ADDR", "")), False


class Requests(BaseThrottle):
    """API_REQUESTS_A_MINUTE of a person or a lone token, API_ANONYMOUS_A_MINUTE of an address, each `times` over."""

    def __init__(self, purpose: str = "api", times: int = 1) -> None:
        self.purpose = purpose
        self.times = times

    def allow_request(self, request: HttpRequest) -> bool:
        """Count it; False beyond the limit."""
        whom, known = caller(cast(Request, request))
        limit = settings.API_REQUESTS_A_MINUTE if known else settings.API_ANONYMOUS_A_MINUTE
        return throttle.count(self.purpose, whom, throttle.MINUTE, time.time()) <= limit * self.times

    def wait(self) -> float:
        """Seconds until the window ends."""
        return throttle.seconds_left(throttle.MINUTE, time.time())


class Reviews(BaseThrottle):
    """REVIEWS_AN_HOUR of a person or a lone token: each may cost money."""

    def allow_request(self, request: HttpRequest) -> bool:
        """Count it; False beyond the limit."""
        whom, _ = caller(cast(Request, request))
        return throttle.count("review", whom, throttle.HOUR, time.time()) <= settings.REVIEWS_AN_HOUR

    def wait(self) -> float:
        """Seconds until the window ends."""
        return throttle.seconds_left(throttle.HOUR, time.time())
