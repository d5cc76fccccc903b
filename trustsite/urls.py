"""Every address of the site: pages first, then the JSON operations at the root."""

from django.urls import include, path

from triage.api import api

urlpatterns = [path("", include("triage.urls")), path("", api.urls)]

handler400 = "triage.views.bad_request"
handler403 = "triage.views.forbidden"
handler404 = "triage.views.not_found"
handler500 = "triage.views.broken"
