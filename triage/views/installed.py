"""The site as an installed app: its manifest, its service worker, and the page that the worker shows offline.

They are the same for everybody and name nobody.
"""

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.http import require_safe

CANVAS = "#f7f7f5"  # as in static/css/tokens.css
SHEETS = ("site", "reset", "tokens", "base", "components", "utilities", "overrides")


@require_safe
def manifest(request: HttpRequest) -> HttpResponse:
    """Answer with the web app manifest (w3.org/TR/appmanifest)."""
    icons = [{"src": static("icons/sunstead.svg"), "sizes": "any", "type": "image/svg+xml"}]
    icons += [
        {"src": static(f"icons/{name}.png"), "sizes": f"{size}x{size}", "type": "image/png", "purpose": purpose}
        for name, size, purpose in (("192", 192, "any"), ("512", 512, "any"), ("maskable", 512, "maskable"))
    ]
    described = {
        "id": "/",
        "name": "Sunstead",
        "short_name": "Sunstead",
        "description": "Open pull requests, sorted by what needs your eyes.",
        "lang": "en",
        "start_url": reverse("queue"),
        "scope": "/",
        "display": "standalone",
        "background_color": CANVAS,
        "theme_color": CANVAS,
        "icons": icons,
    }
    return JsonResponse(described, content_type="application/manifest+json")


@require_safe
def service_worker(request: HttpRequest) -> HttpResponse:
    """Answer with the worker; its text changes with every file of ours, so browsers then fetch the new ones."""
    files = [reverse("offline"), static("js/theme.js"), *(static(f"css/{name}.css") for name in SHEETS)]
    context = {"files": files, "version": settings.STATIC_URL, "icon": static("icons/192.png")}
    context["badge"] = static("icons/badge.png")
    return render(None, "installed/service_worker.js", context, content_type="text/javascript")


@require_safe
def offline(request: HttpRequest) -> HttpResponse:
    """Show that the site cannot be reached; a browser keeps this page, and it knows nobody."""
    return render(None, "installed/offline.html")
