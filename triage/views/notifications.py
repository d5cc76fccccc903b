"""A maintainer's notifications: what they are told of by push, when not, and in which browsers."""

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Max
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from ingest.push.message import MalformedSubscription
from triage.access.oauth.attempts import describe_browser
from triage.access.oauth.sessions import held_session
from triage.access.permissions import Role, require_reader, session_roles
from triage.access.requests import Request
from triage.forms.notifications import HOURS, ChoiceProblem, read_chosen, read_subscription, read_zone, time_zones
from triage.models import Person, PushSubscription
from triage.models.push import IN_BROWSER
from triage.services.notifying import push

WORDS = {
    "flagged": "A pull request needs a human",
    "audit": "An audit is due",
    "closed": "The fast lane was closed",
}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def notifications(request: Request) -> HttpResponse:
    """Show what the viewer is told of, and in which browsers; POST saves what and when."""
    person = _maintainer(request)
    if request.method != "POST":
        return _page(request, person)
    try:
        chosen = read_chosen(request.POST, request.POST.getlist("events"))
    except ChoiceProblem as problem:
        return _page(request, person, str(problem), 422)
    push.choose(person, chosen.events, chosen.quiet, chosen.time_zone, timezone.now())
    messages.success(request, "Saved.")
    return redirect("notifications")


@never_cache
@require_POST
def subscribe(request: Request) -> HttpResponse:
    """Have the viewer told in this browser, which sends its address and keys."""
    person = _maintainer(request)
    if not push.is_offered():
        raise Http404("This site sends no notifications.")
    name = describe_browser(request.headers.get("User-Agent", ""))
    try:
        browser = read_subscription(request.POST)
        row = push.subscribe(person, browser, name, read_zone(request.POST), timezone.now(), held_session(request))
    except (MalformedSubscription, push.PushProblem) as problem:
        return _page(request, person, str(problem), 422)
    request.session[IN_BROWSER] = row.pk
    messages.success(request, "Notifications are on in this browser.")
    return redirect("notifications")


@never_cache
@require_POST
def end(request: Request, number: int) -> HttpResponse:
    """End the notifications in one of the viewer's browsers."""
    if not PushSubscription.objects.filter(person=_maintainer(request), pk=number).delete()[0]:
        raise Http404("Notifications in this browser ended before.")
    messages.success(request, "Notifications ended in that browser.")
    return redirect("notifications")


def _maintainer(request: Request) -> Person:
    person = require_reader(request)
    if session_roles(request).highest() < Role.MAINTAINER:
        raise PermissionDenied("Notifications are for maintainers.")
    return person


def _page(request: Request, person: Person, problem: str = "", status: int = 200) -> HttpResponse:
    browsers = PushSubscription.objects.filter(person=person).annotate(told_at=Max("deliveries__delivered_at"))
    this = request.session.get(IN_BROWSER)
    context = {
        "problem": problem,
        "offered": push.is_offered(),
        "staged": settings.STAGED,
        "site_key": push.site_key() if push.is_offered() else "",
        "browsers": browsers.order_by("made_at", "pk"),
        "this": this,
        "is_on": browsers.filter(pk=this).exists(),
        "choice": push.choice_of(person, timezone.now()),
        "events": WORDS.items(),
        "example": push.words_of({"flagged": 2, "audit": 1}),
        "hours": HOURS,
        "time_zones": time_zones(),
    }
    return render(request, "settings/notifications.html", context, status=status)
