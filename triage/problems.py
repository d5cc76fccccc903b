"""Errors for programs, as RFC 9457 problem details."""

from collections.abc import Mapping
from http import HTTPStatus

from django.http import JsonResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="Sunstead"'}
HOW_TO_READ = "Reading needs a signed-in person or a token: send Authorization: Bearer <token> with scope read."


class ApiProblem(Exception):
    """An answer that is an error: its status, one sentence that says what to do, and headers."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})


def problem_response(problem: ApiProblem) -> JsonResponse:
    """The problem as application/problem+json, never cached for another viewer."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
    }
    response = JsonResponse(
        body, status=problem.status, content_type="application/problem+json", headers=problem.headers
    )
    mark_private(response)
    return response


def mark_private(response: HttpResponseBase) -> None:
    """Say that an answer depends on who asks and in what form, and must be asked for again each time."""
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ("Cookie", "Authorization", "Accept"))
