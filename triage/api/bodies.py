"""What is read of a body: JSON in UTF-8 that says it is JSON, of a size that its address needs."""

import json
from typing import Any

from django.http import HttpRequest
from ninja.parser import Parser

from triage.problems import ApiProblem

SMALL = 65_536  # bytes: 100 DIDs take 4 kB, those of did:web some more
LIMITS = {"/score": SMALL}  # elsewhere Django's own limit holds, DATA_UPLOAD_MAX_MEMORY_SIZE
NO_JSON = "The body must be JSON in UTF-8, with finite numbers of at most 4,300 digits and no deep nesting."


class StrictParser(Parser):
    """JSON as RFC 8259 has it; django-ninja wraps what this raises, and `triage.api.base` takes it out again."""

    def parse_body(self, request: HttpRequest) -> Any:
        """The value; ApiProblem 400, 413 or 415."""
        if request.content_type != "application/json":
            raise ApiProblem(415, "Send Content-Type: application/json.")
        limit = LIMITS.get(request.path_info)
        if limit and len(request.body) > limit:
            raise too_large(limit)
        try:
            return json.loads(request.body.decode(), parse_constant=_refuse)
        except (ValueError, RecursionError) as problem:
            raise ApiProblem(400, NO_JSON) from problem


def too_large(limit: int) -> ApiProblem:
    """413, which names the limit."""
    return ApiProblem(413, f"A body may have {limit:,} bytes at most.")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")
