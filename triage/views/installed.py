"""The site as an installed app: its manifest, its service worker, and the page that the worker shows offline.

They are the same for everybody and name nobody.
"""

from hashlib import blake2b

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.http import require_safe

CANVAS = "#f7f7f5"  # as in static/css/tokens.css


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
    """Answer with the worker; its text changes with the offline page and every file, so browsers then fetch anew."""
    sheets = sorted((settings.BASE_DIR / "static" / "css").glob("*.css"))
    files = [reverse("offline"), static("js/theme.js"), *(static(f"css/{sheet.name}") for sheet in sheets)]
    page = render_to_string("installed/offline.html")
    context = {"files": files, "version": blake2b(page.encode(), digest_size=8).hexdigest()}
    context["icon"] = static("icons/192.png")
    context["badge"] = static("icons/badge.png")
    return render(None, "installed/service_worker.js", context, content_type="text/javascript")


@require_safe
def offline(request: HttpRequest) -> HttpResponse:
    """Show that the site cannot be reached; a browser keeps this page, and it knows nobody."""
    return render(None, "installed/offline.html")
