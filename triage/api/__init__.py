"""JSON for programs. Every operation reads what a page reads, from the snapshot of the request."""

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern

from triage.api.base import HANDLED, Api, Reader, Requests, StrictParser, answer_problem, refuse_unknown

api = Api(
    title="Sunstead",
    version="1",
    description="The chance that a person's next pull request stays clean, judged from a repository's seeds, and why.",
    docs_url=None,
    openapi_url="openapi.json",
    auth=Reader(),
    throttle=Requests(),
    parser=StrictParser(),
)
api.add_decorator(refuse_unknown)
for _kind in HANDLED:
    api.add_exception_handler(_kind, answer_problem)
for _prefix, _router in (
    ("", "scores"),
    ("", "pulls"),
    ("", "inbox"),
    ("", "site"),
    ("", "digest"),
    ("", "briefing"),
    ("", "health"),
    ("/review", "reviews"),
):
    api.add_router(_prefix, f"triage.api.{_router}.router")


def answer_as_json(operation: str, request: HttpRequest) -> HttpResponse:
    """Return an operation's answer, for an address that people and programs share."""
    patterns = (pattern for pattern in api.urls[0] if isinstance(pattern, URLPattern) and pattern.name == operation)
    return next(patterns).callback(request)
