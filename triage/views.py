"""The pages. Each view validates, asks `scoring.read`, shapes, renders; one fragment serves page and update."""

from collections.abc import Callable
from functools import wraps

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.views.decorators.http import require_safe

from ingest.snapshot import Snapshot
from scoring import read
from scoring.policy import policy_from_settings
from scoring.redteam.last_run import read_last_run
from scoring.verdict import Lane
from triage import acting, as_shown, attacked, charts, objections, rows, words
from triage.access import reader_required, refuse_reading, viewer_did, viewing
from triage.api import leaderboard_json
from triage.context import present, told_dashboard
from triage.dids import MalformedDid, parse_did
from triage.forms import LeaderboardFilters, QueueFilters, read_leaderboard, read_queue
from triage.incidents import banners
from triage.looks import looks
from triage.middleware import Request
from triage.models import Person
from triage.permissions import Role, SignInNeeded, sees_thresholds

Page = Callable[..., HttpResponse]
REPOSITORIES_ASKED = 5  # of those that somebody maintains: each costs what its seeds reach, at most half a second
HTML, JSON = "text/html", "application/json"
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
    """A page that reads the snapshot: for readers only, never from a shared cache, empty until there is something."""

    @wraps(page)
    def answer(request: Request, **arguments: str) -> HttpResponse:
        snapshot = request.snapshot
        response = page(request, snapshot, **arguments) if snapshot else render(request, "empty.html")
        patch_vary_headers(response, ("HX-Request", "Cookie", "Accept"))
        patch_cache_control(response, private=True, no_cache=True)
        return response

    return require_safe(reader_required(answer))


def wants_fragment(request: Request) -> bool:
    """Whether htmx asks for the part to swap; never for the Back button, which needs the whole page."""
    return bool(request.htmx) and not request.htmx.history_restore_request


@reading
def queue(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Open pull requests of watched repositories by lane; `?open=` expands one."""
    filters = read_queue(request.GET)
    found, now = as_shown.queue(snapshot, filters.query()), timezone.now()
    opened = next((row for group in found.groups for row in group.rows if row.uri == filters.opened), None)
    more = expanded(request, snapshot, opened) if opened else rows.NOTHING
    groups = rows.group_views(found, filters, present(snapshot), more)
    elsewhere = bool(filters.opened) and not rows.has_open(groups)
    fragment = wants_fragment(request)
    shown: dict[str, object] = {"filters": filters, "found": found, "groups": groups, "fragment": fragment}
    counted = acting.less_in_flight(found, snapshot, now)
    shown |= {"tiles": rows.tiles(counted), "opened_elsewhere": elsewhere, "board": told_dashboard(request, snapshot)}
    shown |= {
        "closures": banners(request, snapshot),
        "acts": acting.acts_of(request.user, snapshot, (row for group in found.groups for row in group.rows), now),
        "approved": () if filters.narrowed else as_shown.approved(snapshot),
        "next": reverse("queue") + filters.search(),
    }
    response = render(request, "_fragments/queue_update.html" if fragment else "queue.html", shown)
    return _at(response, fragment, reverse("queue") + filters.search())


@reading
def pull(request: Request, snapshot: Snapshot, uri: str) -> HttpResponse:
    """One pull request on a page of its own."""
    row = as_shown.pull(snapshot, uri)
    if row is None:
        raise Http404("No open pull request of a watched repository has this address; it may be merged or closed.")
    item = rows.row_view(row, present(snapshot), True, QueueFilters(), expanded(request, snapshot, row))
    shown = {"item": item, "board": told_dashboard(request, snapshot), "next": reverse("pull", args=[uri])}
    shown["acts"] = acting.acts_of(request.user, snapshot, [row], timezone.now())
    return render(request, "pull.html", shown)


@reading
def leaderboard(request: Request, snapshot: Snapshot) -> HttpResponse:
    """Contributors in order; JSON only for who ranks it above HTML."""
    filters = read_leaderboard(request.GET)
    board = read.leaderboard(snapshot, filters.sort, filters.descending, filters.page)
    if request.get_preferred_type([HTML, JSON]) == JSON:
        return JsonResponse(leaderboard_json(board))
    fragment = wants_fragment(request)
    shown = {"filters": filters, "found": board, "fragment": fragment, "columns": _columns(filters)}
    response = render(request, "_fragments/leaderboard_results.html" if fragment else "leaderboard.html", shown)
    return _at(response, fragment, reverse("leaderboard") + filters.search())


@reading
def dashboard(request: Request, snapshot: Snapshot) -> HttpResponse:
    """How the score is doing, every figure with its denominator."""
    board = told_dashboard(request, snapshot)
    fast, total = board.lanes.get(Lane.FAST_LANE, 0), sum(board.lanes.values())
    shown = {
        "board": board,
        "closures": banners(request, snapshot),
        "fast": fast,
        "open": total,
        "fast_rate": charts.percent(fast, total),
        "histogram": charts.histogram(board),
        "shares": charts.lane_shares(board),
        "recorded": settings.STREAM_CLOCK,
        "reread": read.reread(snapshot, settings.R_LOW, settings.R_HIGH),
        "attacked": _attacked(request),
        "lag": words.lag_words(board.newest_event_at, present(snapshot), settings.STREAM_CLOCK),
    }
    return render(request, "dashboard.html", shown)


@reading
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
        "worth": _worth(request, snapshot, person),
        "trend": charts.trend(page.history),
        "history": sorted(page.history, key=lambda point: point.as_of, reverse=True)[:20],
    }
    return render(request, "contributor.html", shown)


def expanded(request: Request, snapshot: Snapshot, row: read.QueueRow) -> rows.Expanded:
    """What is read only for a row that is open; nothing of what the audit keeps back."""
    if row.is_sealed:
        return rows.NOTHING
    explained = _explained(snapshot, row.author.did, row.repository_key)
    exact = sees_thresholds(viewing(request), row.repository_key)
    said = objections.sentences(row.author.did, row.uri)
    return rows.Expanded(explained, read.content_review(snapshot, row.uri), exact, said)


def _explained(snapshot: Snapshot, did: str, repository: str | None = None) -> read.TrustExplanation | None:
    return read.explain_trust(snapshot, did, repository, policy_from_settings())


def _attacked(request: Request) -> tuple[str, ...]:
    """What the red team found, for maintainers: it names the trust that counts and what an attack would bring."""
    if not sees_thresholds(viewing(request)):
        return ()
    return attacked.attack_sentences(read_last_run(settings.REDTEAM_PATH))


def _worth(request: Request, snapshot: Snapshot, did: str) -> tuple[read.VouchesWorth, ...]:
    """On one's own page: the vouches worth making by somebody who maintains something here."""
    viewer = request.user
    if not isinstance(viewer, Person) or viewer.did != did:
        return ()
    maintained = sorted(viewing(request).keys(Role.MAINTAINER))[:REPOSITORIES_ASKED]
    if not maintained:
        return ()
    return read.vouches_worth_making(snapshot, did, [key for key in maintained if key], policy_from_settings())


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
    """404, with the sentence of the view that looked where it gave one."""
    sentence = exception.args[0] if exception.args and isinstance(exception.args[0], str) else ""
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
        (words, filters.sorted_by(sort), _aria_sort(filters, sort), "text" if sort == "score" else "figure")
        for sort, words in named
    ]


def _aria_sort(filters: LeaderboardFilters, sort: str) -> str:
    if filters.sort != sort:
        return "none"
    return "descending" if filters.descending else "ascending"
