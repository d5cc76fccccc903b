"""Every address of the site: JSON operations at the root before pages, since programs send more requests than
people.
"""

from django.urls import include, path

from triage.api import api
from triage.urls import urlpatterns as pages

SHARED = ("queue", "leaderboard", "briefing")  # pages with an address that django-ninja uses too
urlpatterns = [
    *(page for page in pages if page.name in SHARED),
    path("", api.urls),
    path("", include("triage.urls")),
]

handler400 = "triage.views.inbox.queue.bad_request"
handler403 = "triage.views.inbox.queue.forbidden"
handler404 = "triage.views.inbox.queue.not_found"
handler500 = "triage.views.inbox.queue.broken"
