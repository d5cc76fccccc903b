"""The page that describes the API, for anybody: it names no person and no figure."""

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from triage.api import api
from triage.api_reference import operations, shapes
from triage.requests import Request


@require_safe
def api_reference(request: Request) -> HttpResponse:
    """Every operation with what it takes and answers, from the same document that programs read."""
    document = api.get_openapi_schema(path_prefix="/")
    shown = {"title": document["info"]["title"], "operations": operations(document), "shapes": shapes(document)}
    shown |= {"requests": settings.API_REQUESTS_A_MINUTE, "anonymous": settings.API_ANONYMOUS_A_MINUTE}
    return render(request, "api.html", shown)
