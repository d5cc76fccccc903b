"""Count and time this web process's requests for Prometheus, by the name of their route, and name them for the log.

A path may hold a DID, a secret link or any typed text, and there are endless paths: no metric or log line contains one.
"""

from collections.abc import Callable
from contextvars import ContextVar
from random import Random
from time import perf_counter

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

STATIC, NO_ROUTE = "static", "none"  # outside our routes: a static file, and what is refused or not found
BUCKETS = (0.005, 0.02, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0)  # seconds; a page takes 20 to 100 ms

MEASURES = CollectorRegistry(auto_describe=False)
REQUESTS = Counter(
    "sunstead_http_requests", "Requests answered, by route and status.", ("route", "status"), registry=MEASURES
)
SECONDS = Histogram(
    "sunstead_http_request_duration_seconds",
    "From a request to its answer, without sending it.",
    ("route",),
    registry=MEASURES,
    buckets=BUCKETS,
)
for _collector in (ProcessCollector, PlatformCollector, GCCollector):
    _collector(registry=MEASURES)

# The names are public, so later values can be predicted from them: use this generator for nothing else. The system's
# own randomness would let other threads run at every request.
_names = Random()  # noqa: S311
request_id: ContextVar[str] = ContextVar("request_id", default="")


def route_of(request: HttpRequest) -> str:
    """Return the name of the request's route, one of a fixed set."""
    match = getattr(request, "resolver_match", None)
    if match is not None:
        return match.url_name or NO_ROUTE
    return STATIC if request.path_info.startswith(settings.STATIC_URL) else NO_ROUTE


class MeasuredMiddleware:
    """Counts and times each request, and gives it a random name for its answer and its log lines."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response, with the request's name in X-Request-Id."""
        began, name = perf_counter(), f"{_names.getrandbits(64):016x}"
        request.request_id = name  # ty: ignore[missing-attribute]
        token = request_id.set(name)
        try:
            response = self.get_response(request)
        finally:
            request_id.reset(token)
        response["X-Request-Id"] = name
        route = route_of(request)
        REQUESTS.labels(route, response.status_code).inc()
        SECONDS.labels(route).observe(perf_counter() - began)
        return response
