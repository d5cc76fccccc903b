"""The pages. Each view validates, asks `scoring.read`, shapes, renders; one fragment serves page and update."""

from collections.abc import Sequence
from functools import wraps
from urllib.parse import parse_qsl, urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.views.decorators.http import require_safe
from django_htmx.http import HttpResponseClientRedirect

from ingest.snapshot import Snapshot
from scoring import read
from scoring.learning.shown_model import ShownLane, read_serving
from scoring.policy import policy_from_settings
from scoring.serving import LABEL
from triage import acting, approval_charts, as_shown, charts, lane_heads, lane_offers, objections, rows
from triage.access import reader_required, refuse_reading, viewer_did, viewing
from triage.api import answer_as_json
from triage.conditional import Page, unless_fresh, unless_held
from triage.context import dashboard_of, present, told_dashboard
from triage.dids import MalformedDid, parse_did
from triage.diff_quotes import flag_quotes
from triage.forge_links import forge_place
from triage.forms import LeaderboardFilters, QueueFilters, read_leaderboard, read_queue
from triage.incidents import banners
from triage.looks import looks
from triage.middleware import Request
from triage.permissions import Role, SignInNeeded, roles_of, sees_thresholds
from triage.plots import Plot
from triage.problems import ApiProblem, prefers_json, problem_response
from triage.toggling import Toggled, toggled
from triage.vouch_drawing import vouch_plot

SENTENCES = {
    400: ("This request could not be read", "Nothing was changed. Go back and try again."),
    403: ("This is not yours to see", "Nothing was changed. Sign in as somebody who may, then try again."),
    404: ("There is nothing here", "The address may be mistyped, or what was here is gone."),
    422: ("This is not a DID", "A DID looks like did:plc:ewvi7nxzyoun6zhxrhs64oiz."),
    500: ("Something went wrong here", "Nothing was changed. Try again; the log says what happened."),
}

UNKNOWN_NAME = (
    "This site does not answer to that name",
    "Use the address that the site's operator gave you. "
    "The operator adds the name to ALLOWED_HOSTS and starts the web again.",
)


def reading(page: Page) -> Page:
    """A page that reads the snapshot: for readers only, never from a shared cache; first run until there is one."""

    @wraps(page)
    def answer(request: Request, **arguments: str) -> HttpResponse:
        snapshot = request.snapshot
        response = page(request, snapshot, **arguments) if snapshot and is_begun(snapshot) else first_run(request)
        patch_vary_headers(response, ("HX-Request", "Cookie", "Accept"))
        patch_cache_control(response, private=True, no_cache=True)
        return response

    return require_safe(reader_required(answer))


def is_begun(snapshot: Snapshot) -> bool:
    """Whether anything is watched: before that no page has anything to show."""
    return dashboard_of(snapshot).watched > 0


def first_run(request: Request) -> HttpResponse:
    """To /setup for who may begin; others are told in words that nothing is watched yet."""
    if roles_of(request.user).role("") < Role.MAINTAINER:
        return render(request, "empty.html")
    return HttpResponseClientRedirect(reverse("setup")) if request.htmx else redirect("setup")


def wants_fragment(request: Request) -> bool:
    """Whether htmx asks for the part to swap; never for the Back button, which needs the whole page."""
    return bool(request.htmx) and not request.htmx.history_restore_request


@reading
@unless_held
def queue(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Open pull requests of watched repositories by lane; `?open=` expands one."""
    filters = read_queue(request.GET)
    found, now = as_shown.queue(snapshot, filters.query()), timezone.now()
    fragment = wants_fragment(request)
    if fragment and (some := toggled(request.htmx.target, _query_before(request), filters, found)):
        return _rows_alone(request, snapshot, filters, some)
    opened = next((row for group in found.groups for row in group.rows if row.uri == filters.opened), None)
    more = expanded(request, snapshot, opened) if opened else rows.NOTHING
    groups = rows.group_views(found, filters, present(snapshot), more)
    elsewhere = bool(filters.opened) and not rows.has_open(groups)
    shown: dict[str, object] = {"filters": filters, "found": found, "groups": groups, "fragment": fragment}
    counted = acting.less_in_flight(found, snapshot, now)
    shown |= {"tiles": rows.tiles(counted), "opened_elsewhere": elsewhere, "board": told_dashboard(request, snapshot)}
    shown |= {
        "closures": banners(request, snapshot),
        "acts": acting.acts_of(
            request.user, viewing(request), snapshot, (row for group in found.groups for row in group.rows), now
        ),
        "approved": () if filters.narrowed else as_shown.approved(snapshot),
        "next": reverse("queue") + filters.search(),
        **lane_shown(request, snapshot, filters.repository),
        "like_these": approval_charts.like_these(_backtested_lane()),
    }
    response = render(request, "_fragments/queue_update.html" if fragment else "queue.html", shown)
    response["HX-Retarget"] = "#results"  # a row may have asked that is not in view any more
    return _at(response, fragment, reverse("queue") + filters.search())


def lane_shown(request: Request, snapshot: Snapshot, repository: str) -> dict[str, object]:
    """What the queue says of its fast lane, and what a maintainer may open where it only watches."""
    roles = viewing(request)
    return {
        "lane_head": lane_heads.lane_head(snapshot, roles, repository, present(snapshot)),
        "lane_offer": lane_offers.offered(snapshot, roles, repository),
    }


def _backtested_lane() -> ShownLane | None:
    """What the model that serves would have let through, where it was tried."""
    _, model = read_serving(settings.MODEL_DIR, LABEL)
    return model.lane if model else None


def _rows_alone(request: Request, snapshot: Snapshot, filters: QueueFilters, some: Sequence[Toggled]) -> HttpResponse:
    """The rows that open or close, the first of them in place of what asked."""
    now, address = present(snapshot), reverse("queue") + filters.search()
    shown = {
        "toggled": [
            {
                "item": rows.row_view(one.row, now, one.opens, filters, _more(request, snapshot, one)),
                "group": {"bucket": one.group},
            }
            for one in some
        ],
        "acts": acting.acts_of(request.user, viewing(request), snapshot, (one.row for one in some), timezone.now()),
        "filters": filters,
        "board": told_dashboard(request, snapshot),
        "next": address,
    }
    return _at(render(request, "_fragments/toggled.html", shown), True, address)


def _more(request: Request, snapshot: Snapshot, one: Toggled) -> rows.Expanded:
    return expanded(request, snapshot, one.row) if one.opens else rows.NOTHING


def _query_before(request: Request) -> dict[str, str]:
    """The query of the page that htmx asks from."""
    return dict(parse_qsl(urlsplit(request.htmx.current_url or "").query))


@reading
@unless_fresh
def live(request: Request, snapshot: Snapshot) -> HttpResponse:
    """The frame's freshness, which open pages ask for: 304 for as long as nothing happens."""
    return render(request, "_fragments/freshness.html")


@reading
@unless_held
def pull(request: Request, snapshot: Snapshot, uri: str) -> HttpResponse:
    """One pull request on a page of its own."""
    row = as_shown.pull(snapshot, uri)
    if row is None:
        raise Http404("No open pull request of a watched repository has this address; it may be merged or closed.")
    item = rows.row_view(row, present(snapshot), True, QueueFilters(), expanded(request, snapshot, row))
    shown = {"item": item, "board": told_dashboard(request, snapshot), "next": reverse("pull", args=[uri])}
    shown["acts"] = acting.acts_of(request.user, viewing(request), snapshot, [row], timezone.now())
    return render(request, "pull.html", shown)


@require_safe
def leaderboard(request: Request) -> HttpResponse:
    """Contributors in order; JSON, before anything is watched too, only for who ranks it above HTML."""
    if prefers_json(request):
        return answer_as_json("get_leaderboard", request)
    return _leaderboard_page(request)


@reading
@unless_held
def _leaderboard_page(request: Request, snapshot: Snapshot) -> HttpResponse:
    filters = read_leaderboard(request.GET)
    board = read.leaderboard(snapshot, filters.sort, filters.descending, filters.page)
    fragment = wants_fragment(request)
    shown = {"filters": filters, "found": board, "fragment": fragment, "columns": _columns(filters)}
    response = render(request, "_fragments/leaderboard_results.html" if fragment else "leaderboard.html", shown)
    return _at(response, fragment, reverse("leaderboard") + filters.search())


@reading
@unless_held
def contributor(request: Request, snapshot: Snapshot, did: str) -> HttpResponse:
    """Everything that is shown about one DID."""
    try:
        person = parse_did(did)
        page = read.contributor(snapshot, person, viewer_did(request))
    except MalformedDid as problem:
        return problem_page(request, 422, str(problem))
    if hidden := read.hidden_because(snapshot, person):
        raise Http404(f"The account {person[:200]} {hidden}, so it is not shown here meanwhile.")
    if page is None:
        raise Http404("This DID wrote no record that reached this site, and nobody here vouched for it.")
    looks.note(person)
    shown = {
        "page": page,
        "person_shown": rows.person_view(page.score.person),
        "judgement": rows.score_judgement(page.score, _explained(snapshot, person), sees_thresholds(viewing(request))),
        "vouch_plot": _vouch_plot(snapshot, person),
        "trend": charts.trend(page.history),
        "history": sorted(page.history, key=lambda point: point.as_of, reverse=True),
    }
    return render(request, "contributor.html", shown)


def expanded(request: Request, snapshot: Snapshot, row: read.QueueRow) -> rows.Expanded:
    """What is read only for a row that is open; nothing of what the audit keeps back."""
    home = read.forge_home(snapshot, row.uri, row.author.did, row.repository_key)
    place = forge_place(home, settings.APPVIEW_URL)
    if row.is_sealed:
        return rows.Expanded(place=place)
    explained = _explained(snapshot, row.author.did, row.repository_key)
    exact = sees_thresholds(viewing(request), row.repository_key)
    said = objections.sentences(row.author.did, row.uri, row.repository_key, row.repository_name)
    review = read.content_review(snapshot, row.uri)
    return rows.Expanded(explained, review, exact, said, place, flag_quotes(snapshot, row.uri, review))


def _explained(snapshot: Snapshot, did: str, repository: str | None = None) -> read.TrustExplanation | None:
    return read.explain_trust(snapshot, did, repository, policy_from_settings())


def _vouch_plot(snapshot: Snapshot, did: str) -> Plot | None:
    """The vouch graph around a person; None where nobody stands around them."""
    graph = read.vouch_graph(snapshot, did, policy_from_settings())
    return vouch_plot(graph) if graph else None


def problem_page(request: Request, status: int, sentence: str = "") -> HttpResponse:
    """An error in words: what happened, what it did to the data, what to do next."""
    title, usual = SENTENCES[status]
    return render(request, "error.html", {"title": title, "sentence": sentence or usual}, status=status)


def bad_request(request: Request, exception: Exception) -> HttpResponse:
    """400. Without the frame: such a request may have failed before there was a session."""
    if isinstance(exception, DisallowedHost):
        return _bare_problem(400, *UNKNOWN_NAME)
    return _bare_problem(400, *SENTENCES[400])


def forbidden(request: Request, exception: Exception) -> HttpResponse:
    """403; whoever only has to sign in first is sent there."""
    if isinstance(exception, SignInNeeded):
        return refuse_reading(request)
    return problem_page(request, 403)


def not_found(request: Request, exception: Exception) -> HttpResponse:
    """404, with the sentence of the view that looked where it gave one; as problem details for a program."""
    sentence = exception.args[0] if exception.args and isinstance(exception.args[0], str) else ""
    if prefers_json(request):
        return problem_response(ApiProblem(404, sentence or "There is nothing at this address."))
    return problem_page(request, 404, sentence)


def broken(request: Request) -> HttpResponse:
    """500. Without the frame: what broke may be what the frame reads."""
    return _bare_problem(500, *SENTENCES[500])


def _bare_problem(status: int, title: str, sentence: str) -> HttpResponse:
    return HttpResponse(render_to_string("error.html", {"title": title, "sentence": sentence}), status=status)


def _at(response: HttpResponse, fragment: bool, address: str) -> HttpResponse:
    """The response, which tells htmx the address that alone restores this view."""
    if fragment:
        response["HX-Push-Url"] = address
    return response


def _columns(filters: LeaderboardFilters) -> list[tuple[str, str, str, str]]:
    """Sortable headers: words, query string, `aria-sort`, class."""
    named: tuple[tuple[read.LeaderboardSort, str], ...] = (
        ("score", "P(clean)"),
        ("merged", "Merged"),
        ("reverts", "Reverts"),
        ("hops", "Hops from the seeds"),
    )
    return [
        (words, filters.sorted_by(sort), _aria_sort(filters, sort), "" if sort == "score" else "number")
        for sort, words in named
    ]


def _aria_sort(filters: LeaderboardFilters, sort: str) -> str:
    if filters.sort != sort:
        return "none"
    return "descending" if filters.descending else "ascending"
