"""The operator's page of what this site publishes: its account, how far the records are, and taking them back."""

from datetime import timedelta

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from ingest.oauth.scopes import DEFINITION
from scoring.queries import read
from triage.access.permissions import Role, require
from triage.access.requests import Request
from triage.models import PublishedRecord
from triage.services.publishing.publisher import HOUR, points_spent
from triage.services.publishing.records import count_records, label_definition, retract_all, service_account

SHOWN = 20  # records that the server refuses


@require_safe
@never_cache
def publishing(request: Request) -> HttpResponse:
    """Show the service account and how far its records are."""
    require(request, "", Role.ADMIN)
    now = timezone.now()
    context = {
        "account": service_account(),
        "counts": count_records(),
        "points": points_spent(now, timedelta(hours=1)),
        "most_points": HOUR,
        "repositories": read.watched_repositories(request.snapshot) if request.snapshot else (),
        "refused": PublishedRecord.objects.exclude(problem="").order_by("-changed_at", "pk")[:SHOWN],
        "authority": settings.LEXICON_AUTHORITY,
        "lane_label": DEFINITION if settings.LANE_LABEL else "",
        "definition": label_definition(),
        "has_address": bool(settings.PUBLIC_ORIGIN),
        "staged": settings.STAGED,
    }
    return render(request, "settings/publishing.html", context)


@require_POST
@never_cache
def take_back(request: Request) -> HttpResponse:
    """Have every public record deleted, and publish nothing more until an account is connected again."""
    person = require(request, "", Role.ADMIN)
    count = retract_all(person, timezone.now())
    messages.info(request, f"The worker deletes {count:,} records now. Copies that others made may stay.")
    return redirect("publishing")
