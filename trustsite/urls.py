"""Every address of the site: JSON operations at the root before pages, as programs ask more often than people."""

from django.urls import include, path

from triage.api import api
from triage.urls import urlpatterns as pages

SHARED = ("queue", "leaderboard")  # pages at whose address django-ninja has something too
urlpatterns = [
    *(page for page in pages if page.name in SHARED),
    path("", api.urls),
    path("", include("triage.urls")),
]

handler400 = "triage.views.queue.bad_request"
handler403 = "triage.views.queue.forbidden"
handler404 = "triage.views.queue.not_found"
handler500 = "triage.views.queue.broken"
