"""The addresses of the site, and an empty page behind the same middleware to compare with."""

from django.http import HttpRequest, HttpResponse
from django.urls import path

from trustsite.urls import urlpatterns as pages


def empty(request: HttpRequest) -> HttpResponse:
    """Nothing."""
    return HttpResponse("")


urlpatterns = [*pages, path("empty", empty)]
