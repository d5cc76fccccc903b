"""Shared parts of the pages, and the leaderboard, contributor and error pages.

One template serves page and htmx update.
"""

from dataclasses import replace
from functools import wraps

from django.contrib import messages
from django.core.exceptions import DisallowedHost
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.views.decorators.http import require_safe
from django_htmx.http import HttpResponseClientRedirect

from ingest.atproto.syntax import MalformedDid, parse_did
from ingest.store.snapshots import Snapshot
from scoring.config.policy import policy_from_settings
from scoring.formatting import visible
from scoring.models.registry import SHRUNK_RATE
from scoring.queries import read
from triage.access.oauth.sessions import held_session
from triage.access.permissions import NOT_INVITED, NotInvited, Role, SignInNeeded, roles_of, sees_thresholds
from triage.access.problems import ApiProblem, prefers_json, problem_response
from triage.access.requests import Request
from triage.access.sign_in import reader_required, refuse_reading, viewing
from triage.api import answer_as_json
from triage.context import dashboard_of, present, told_dashboard
from triage.forms.filters import LeaderboardFilters, is_page, read_leaderboard
from triage.http_cache import Page, unless_fresh, unless_held
from triage.presenters import contributor as contributor_page
from triage.presenters import lists
from triage.presenters.queue import rows
from triage.presenters.vouching import vouching_shown
from triage.services.profiles import looks

SENTENCES = {
    400: ("This request could not be read", "Nothing was changed. Go back and try again."),
    403: ("You don't have access", "Nothing was changed. Sign in as somebody with access, then try again."),
    404: ("There is nothing here", "The address may be mistyped, or what was here is gone."),
    422: ("This is not a DID", "A DID looks like did:plc:ewvi7nxzyoun6zhxrhs64oiz."),
    500: ("Something went wrong here", "Nothing was changed. Try again; the log says what happened."),
}

NOTHING_WATCHED = "Nothing is watched yet, so the other pages have nothing to show. They open once something is."
UNKNOWN_NAME = (
    "This site does not answer to that name",
    "Use the address that the site's operator gave you. "
    "The operator adds the name to ALLOWED_HOSTS and starts the web again.",
)


def reading(page: Page) -> Page:
    """Wrap a page that reads the snapshot: for readers only, never from a shared cache; /setup until there is one.

    404 for a `page` number that no list can have.
    """

    @wraps(page)
    def answer(request: Request, **arguments: str) -> HttpResponse:
        snapshot, page_number = request.snapshot, request.GET.get("page", "")
        if page_number and not is_page(page_number):
            raise Http404(f"There is no page “{visible(page_number[:40])}”.")
        response = page(request, snapshot, **arguments) if snapshot and is_begun(snapshot) else first_run(request)
        patch_vary_headers(response, ("HX-Request", "Cookie", "Accept"))
        patch_cache_control(response, private=True, no_cache=True)
        return response

    return require_safe(reader_required(answer))


def is_begun(snapshot: Snapshot) -> bool:
    """Return whether anything is watched: before that pages have nothing to show."""
    return dashboard_of(snapshot).watched > 0


def first_run(request: Request) -> HttpResponse:
    """Redirect people who may start watching to /setup; tell others that nothing is watched yet."""
    if roles_of(request.user).role("") < Role.MAINTAINER:
        return render(request, "setup/empty.html")
    messages.info(request, NOTHING_WATCHED)
    return HttpResponseClientRedirect(reverse("setup")) if request.htmx else redirect("setup")


def wants_fragment(request: Request) -> bool:
    """Return whether htmx requests the part to swap; never for the Back button, which needs the whole page."""
    return bool(request.htmx) and not request.htmx.history_restore_request


@reading
@unless_fresh
def live(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Return the frame's freshness, which open pages poll: 304 while nothing has changed."""
    return render(request, "frame/_freshness.html")


@require_safe
def leaderboard(request: Request) -> HttpResponse:
    """Show contributors in order; JSON only for clients that rank it above HTML, even before anything is watched."""
    if prefers_json(request):
        return answer_as_json("get_leaderboard", request)
    return _leaderboard_page(request)


@reading
@unless_held
def _leaderboard_page(request: Request, snapshot: Snapshot) -> HttpResponse:
    filters = read_leaderboard(request.GET)
    board = lists.leaderboard(request, snapshot, filters.sort, filters.descending, filters.page)
    fragment = wants_fragment(request)
    shown = {"filters": filters, "found": board, "fragment": fragment, "columns": _columns(filters)}
    shown["scores"] = read.scores(snapshot, [row.person.did for row in board.rows if not row.hidden_by])
    response = render(request, "people/_leaderboard_results.html" if fragment else "people/leaderboard.html", shown)
    return at_address(response, fragment, reverse("leaderboard") + filters.search())


@reading
@unless_held
def contributor(request: Request, snapshot: Snapshot, did: str) -> HttpResponse:
    """Show everything about one DID."""
    try:
        person = parse_did(did)
        page = lists.contributor(request, snapshot, person)
    except MalformedDid as problem:
        return problem_page(request, 422, str(problem))
    if hidden := read.hidden_because(snapshot, person):
        raise Http404(f"The account {person[:200]} {hidden}, so it is hidden for now.")
    if page is None:
        raise Http404("This DID wrote no record that reached this site, and nobody here vouched for it.")
    looks.note(person)
    return render(request, "people/contributor.html", _contributor_shown(request, snapshot, page))


def _contributor_shown(request: Request, snapshot: Snapshot, page: read.ContributorPage) -> dict[str, object]:
    exact, policy, hidden = sees_thresholds(viewing(request)), policy_from_settings(), page.score.hidden_by
    explanation, start = (
        read.explain_trust(snapshot, page.score.person.did, None, policy_from_settings()),
        told_dashboard(request, snapshot).t_high,
    )
    judgement = rows.score_judgement(page.score, explanation, exact)
    vouches, paths = (
        contributor_page.vouch_views(explanation, page),
        contributor_page.path_views(explanation, page.vouches),
    )
    return {
        "page": page,
        "person_shown": rows.person_view(page.score.person),
        "judgement": judgement,
        "is_modelled": page.score.model_version != SHRUNK_RATE,
        "lane_pill": replace(judgement.pill, number="", interval=""),
        "record_said": contributor_page.record_words(page.record),
        "vouched_said": contributor_page.vouched_words(vouches, page.record, present(snapshot)),
        "history": contributor_page.score_history(page.history, start),
        "paths": paths,
        "paths_said": contributor_page.paths_sentence(explanation, judgement.no_chain),
        "vouches": vouches,
        "vouches_said": contributor_page.vouches_words(vouches, paths),
        "record": contributor_page.record_view(page, contributor_page.read_tab(request.GET.get("record", ""))),
        "changes": tuple(contributor_page.changes(page.score, explanation, policy, start))
        if exact and not hidden
        else (),
        "signals": contributor_page.signal_rows(page.signals),
    } | vouching_shown(held_session(request), snapshot, page.score.person.did, timezone.now())


def problem_page(request: Request, status: int, sentence: str = "") -> HttpResponse:
    """Return an error page in words: what happened, its effect on the data, and what to do next."""
    title, usual = SENTENCES[status]
    return render(request, "error.html", {"title": title, "sentence": sentence or usual}, status=status)


def bad_request(request: Request, exception: Exception) -> HttpResponse:
    """Return 400 without the frame: such a request may have failed before there was a session."""
    if isinstance(exception, DisallowedHost):
        return _bare_problem(400, *UNKNOWN_NAME)
    return _bare_problem(400, *SENTENCES[400])


def forbidden(request: Request, exception: Exception) -> HttpResponse:
    """Return 403; redirect people who only have to sign in."""
    if isinstance(exception, SignInNeeded) and not request.user.is_authenticated:
        return refuse_reading(request)
    return problem_page(request, 403, NOT_INVITED if isinstance(exception, SignInNeeded | NotInvited) else "")


def not_found(request: Request, exception: Exception) -> HttpResponse:
    """Return 404 with the view's sentence where it gave one; as problem details for a program."""
    sentence = exception.args[0] if exception.args and isinstance(exception.args[0], str) else ""
    if prefers_json(request):
        return problem_response(ApiProblem(404, sentence or "There is nothing at this address."))
    return problem_page(request, 404, sentence)


def broken(request: Request) -> HttpResponse:
    """Return 500 without the frame: the frame may be what fails."""
    return _bare_problem(500, *SENTENCES[500])


def _bare_problem(status: int, title: str, sentence: str) -> HttpResponse:
    return HttpResponse(render_to_string("error.html", {"title": title, "sentence": sentence}), status=status)


def at_address(response: HttpResponse, fragment: bool, address: str) -> HttpResponse:
    """Return the response with a header that tells htmx the address of this view."""
    if fragment:
        response["HX-Push-Url"] = address
    return response


def _columns(filters: LeaderboardFilters) -> list[tuple[str, str, str, str]]:
    """Return sortable headers: words, query string, `aria-sort`, class."""
    headings: tuple[tuple[read.LeaderboardSort, str], ...] = (
        ("score", "Stays clean"),
        ("merged", "Merged"),
        ("reverts", "Reverts"),
        ("hops", "Steps from the seeds"),
    )
    return [
        (words, filters.sorted_by(sort), _aria_sort(filters, sort), "" if sort == "score" else "number")
        for sort, words in headings
    ]


def _aria_sort(filters: LeaderboardFilters, sort: str) -> str:
    if filters.sort != sort:
        return "none"
    return "descending" if filters.descending else "ascending"
