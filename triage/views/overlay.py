"""The page from which people with a role install the browser extension, and its file."""

from hashlib import sha256

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from triage.access.permissions import require_reader
from triage.access.requests import Request
from triage.services.overlay import ARCHIVE, archive, version
from triage.views.people.people import token_places


@never_cache
@require_safe
def overlay(request: Request) -> HttpResponse:
    """Show how to install it, what it sends and what it can see."""
    require_reader(request)
    context = {
        "origin": request.build_absolute_uri("/").rstrip("/"),
        "version": version(),
        "digest": sha256(archive()).hexdigest(),
        "kilobytes": -(-len(archive()) // 1_000),
        "places": token_places(request),
    }
    return render(request, "settings/overlay.html", context)


@never_cache
@require_safe
def overlay_file(request: Request) -> HttpResponse:
    """Return the extension as a zip."""
    require_reader(request)
    response = HttpResponse(archive(), content_type="application/zip")
    response["Content-Disposition"] = f'attachment; filename="{ARCHIVE}"'
    return response
