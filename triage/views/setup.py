"""First run: whose repositories are watched, what may leave this machine, and how far the first reading is."""

from collections.abc import Callable
from functools import wraps
from hashlib import blake2b

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.cache import get_conditional_response, patch_cache_control, patch_vary_headers
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from scoring.queries import read
from triage.access.permissions import Role, require
from triage.access.requests import Request
from triage.presenters.setup import REVIEWS, choices, progress_of, read_ticks
from triage.services.repository_settings import ChangedMeanwhile
from triage.views.setup_start import (
    MALFORMED,
    Answer,
    Search,
    account_of,
    answer_of,
    handed_over,
    look_up,
    start_watching,
    worker_trouble,
)

NONE_TICKED = "Nothing changed. Tick at least one repository to watch."
LATE = "Nothing changed: somebody else changed the settings of one of these at the same time. Try again."
View = Callable[[Request], HttpResponse]


def maintainers_only(view: View) -> View:
    """The view for maintainers of the whole site: whoever is watched makes their owner a seed of the site."""

    @wraps(view)
    def guarded(request: Request) -> HttpResponse:
        require(request, "", Role.MAINTAINER)
        return view(request)

    return guarded


@require_safe
@never_cache
@maintainers_only
def setup(request: Request) -> HttpResponse:
    """The whole page: the search, what it found, and how far the reading is."""
    return _page(request, Search.of(request))


@require_POST
@never_cache
@maintainers_only
def find_repositories(request: Request) -> HttpResponse:
    """Look up the repositories of a handle or DID; what was typed stays in the form."""
    search = Search.of(request)  # with what was ticked before, for a list that was lost
    search.who, search.job = request.POST.get("who", "")[:3_000], ""
    who = account_of(search.who)
    problem = MALFORMED if who is None else worker_trouble()
    if problem or who is None:
        search.keep(request)
        return _page(request, search, problem, status=422)
    search.job = look_up(who)
    search.keep(request)
    return redirect("setup")


@require_POST
@never_cache
@maintainers_only
def begin_watching(request: Request) -> HttpResponse:
    """Have what is ticked watched and read; nothing where nothing is ticked, or where its list is not kept any more."""
    person, search = require(request, "", Role.MAINTAINER), Search.of(request)
    search.ticked = read_ticks(request.POST.dict(), request.POST.getlist("record")[:200])
    search.keep(request)
    found = answer_of(search).found
    if found is None:
        return _page(request, search, status=409)
    chosen = [(one, search.ticked[one.record]) for one in choices(found, search.ticked) if one.is_ticked]
    if not chosen:
        return _page(request, search, NONE_TICKED, status=422)
    records = {one.record for one, _ in chosen}
    holders = [did for one in found["repositories"] if one["record"] in records for did in one["holders"]]
    try:
        start_watching(person, found["did"], chosen, holders, timezone.now())
    except ChangedMeanwhile:
        return _page(request, search, LATE, status=409)
    Search().keep(request)
    return redirect("setup")


@require_safe
@maintainers_only
def setup_looking(request: Request) -> HttpResponse:
    """The step that a search is at, polled; when it has ended the whole page is to be loaded."""
    answer = answer_of(Search.of(request))
    response = _polled(request, "_fragments/setup_looking.html", {"answer": answer}, answer.step)
    if not answer.step:
        response["HX-Refresh"] = "true"
    return response


@require_safe
@maintainers_only
def setup_progress(request: Request) -> HttpResponse:
    """Return how far the reading is, polled: 304 where nothing has changed."""
    shown = _progress(request)
    return _polled(request, "_fragments/setup_progress.html", shown, shown)


def _polled(request: Request, template: str, context: dict[str, object], key: object) -> HttpResponse:
    """A fragment under an ETag of what it shows and to whom."""
    tag = f'W/"{blake2b(repr((template, request.user.pk, key)).encode(), digest_size=12).hexdigest()}"'
    response = get_conditional_response(request, tag) or render(request, template, context)
    response["ETag"] = tag
    patch_vary_headers(response, ("HX-Request", "Cookie", "Accept"))
    patch_cache_control(response, private=True, no_cache=True)
    return response


def _page(request: Request, search: Search, problem: str = "", status: int = 200) -> HttpResponse:
    answer = Answer() if problem and status == 422 and not search.job else answer_of(search)
    found = answer.found
    context = {
        "search": search,
        "answer": answer,
        "problem": problem or answer.problem,
        "found": found,
        "choices": choices(found, search.ticked) if found else (),
        "reviews": REVIEWS,
        "has_key": bool(settings.ANTHROPIC_API_KEY),
        **_progress(request),
    }
    return render(request, "setup.html", context, status=status)


def _progress(request: Request) -> dict[str, object]:
    snapshot = request.snapshot
    waiting, trouble = handed_over(snapshot)
    nothing = read.FirstReading("none", is_heard=False, watched=0, unasked=0, pulls=0)
    reading = read.first_reading(snapshot, snapshot.published_at) if snapshot else nothing
    return {"progress": progress_of(reading, waiting), "trouble": trouble or (waiting and worker_trouble())}
