"""Errors for programs, as RFC 9457 problem details."""

from collections.abc import Mapping
from http import HTTPStatus

from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="Sunstead"'}
CODES = {
    400: "malformed_request",
    401: "sign_in_needed",
    403: "not_allowed",
    404: "not_found",
    409: "changed_meanwhile",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid_value",
    429: "too_many_requests",
    500: "internal_error",
    503: "not_ready",
}
# the policy of responses that are not pages: they load and run nothing
NOTHING = "default-src 'none'; frame-ancestors 'none'"
HOW_TO_READ = "Sign in, or send Authorization: Bearer <token> with scope read."

HOW_TO_REVIEW = "A review needs a signed-in maintainer, or a token with scope review of a maintainer or the operator."


class ApiProblem(Exception):
    """An error answer: its status, one sentence that says what to do, headers, and a code for programs."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None, code: str = "") -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.code = code or CODES.get(status, "error")


def problem_response(problem: ApiProblem) -> JsonResponse:
    """Return the problem as application/problem+json, never cached for another viewer."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
    }
    response = JsonResponse(
        body, status=problem.status, content_type="application/problem+json", headers=problem.headers
    )
    mark_private(response)
    response["Content-Security-Policy"] = NOTHING
    return response


def prefers_json(request: HttpRequest) -> bool:
    """Return whether the client ranks JSON above a page."""
    return request.get_preferred_type(["text/html", "application/json"]) == "application/json"


def mark_private(response: HttpResponseBase) -> None:
    """Mark an answer as dependent on the caller and the requested form, and to be revalidated each time."""
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ("Cookie", "Authorization", "Accept"))
