"""Pages for anybody: how the site judges, whether somebody's pull request is here, and the API's description.

The page that describes the API names no person and no figure.
"""

import re
import time

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ingest.atproto.syntax import LONGEST_DID, MalformedDid, parse_did, parse_handle
from ingest.store.snapshot_cache import PerSnapshot
from ingest.store.snapshots import Snapshot
from scoring.pipeline.interventions import DAYS
from scoring.queries import read
from triage.access import throttle
from triage.access.requests import Request
from triage.access.sign_in import may_read
from triage.api import api
from triage.context import present
from triage.presenters.about import Facts, sections
from triage.services.actions import false_alarms
from triage.views.api_reference import operations, shapes

LONGEST = LONGEST_DID + 600  # characters: an at-uri with the longest DID, collection and key
FEWEST = 5  # first answers below which a median would tell of single people
_AT_URI = re.compile(r"at://(did:[^/\s]+)/[A-Za-z0-9.-]+/[A-Za-z0-9._:~-]+")
_answers = PerSnapshot[tuple[read.Answers, read.Answers]]()


@require_safe
def about(request: Request) -> HttpResponse:
    """Return how it judges, what is never used, what leaves this machine, how to object."""
    return render(request, "about.html", {"sections": sections(facts_from_settings(_readers(request)))})


@require_safe
@never_cache
def find(request: Request) -> HttpResponse:
    """Return whether the pull request at an address, or of a title, handle or DID (`q`), is here, since when, and how
    to get further.

    Neither lane, score, reason nor finding; what is hidden is told as what is not here, and nothing is fetched.
    """
    asked = request.GET.get("q", "").strip()
    wait = _seconds_to_wait(request) if asked else 0
    shown: dict[str, object] = {"q": asked[:LONGEST], "wait": wait}
    if asked and not wait:
        found = _found(request.snapshot, asked)
        groups = sorted({one.first_timer for one in found}, reverse=True)
        waits = [(first, first_answer_days(request.snapshot, "", first)) for first in groups]
        shown |= {"asked": True, "found": found, "waits": [(first, days) for first, days in waits if days is not None]}
    response = render(request, "find.html", shown, status=429 if wait else 200)
    response["X-Robots-Tag"] = "noindex"
    if wait:
        response["Retry-After"] = str(wait)
    return response


def _seconds_to_wait(request: Request) -> int:
    """Count one search of this address; 0, or the seconds until it may search again."""
    network, now = throttle.network_of(request.META.get("REMOTE_ADDR", "")), time.time()
    searches = throttle.count("find", network, throttle.WINDOW_SECONDS, now)
    return throttle.seconds_left(throttle.WINDOW_SECONDS, now) if searches > throttle.LIMIT else 0


def _found(snapshot: Snapshot | None, asked: str) -> tuple[read.Here, ...]:
    if snapshot is None or len(asked) > LONGEST:
        return ()
    if "/" in asked:
        return read.here(snapshot, _address(asked), "", asked)
    return read.here(snapshot, "", _who(asked), asked)


def _address(asked: str) -> str:
    """The at-uri or web address that somebody typed; "" for what is neither."""
    if asked.startswith("at://"):
        return asked if _AT_URI.fullmatch(asked) else ""
    return asked if asked.startswith(("https://", "http://")) else f"https://{asked}"


def _who(asked: str) -> str:
    """The handle or DID that somebody typed; "" for what is neither."""
    try:
        return parse_handle(asked) or parse_did(asked)
    except MalformedDid:
        return ""


def first_answer_days(snapshot: Snapshot | None, repository: str = "", first_timers: bool = True) -> float | None:
    """Days within which half of first-timers, or regulars, heard back; None where too few did.

    `repository` is the key of the one that counts, "" for all. Read once for each snapshot.
    """
    if snapshot is None:
        return None
    first, regular = _answers.get(snapshot, repository, lambda: read.answers(snapshot, present(snapshot), repository))
    heard = first.all if first_timers else regular.all
    return heard.median if heard and heard.n >= FEWEST else None


def facts_from_settings(readers: tuple[int, int] | None) -> Facts:
    """Return what the page says, as the site is set."""
    models = (settings.CLAUDE_MODEL, settings.CLAUDE_HARD_MODEL)
    screen = settings.CLAUDE_SCREEN_MODEL if settings.CLAUDE_SCREEN else ""
    return Facts(
        measure=settings.TRUST,
        hops=settings.TRUST_HOPS,
        window=settings.LABEL_WINDOW_DAYS,
        budget=settings.FALSE_APPROVAL_BUDGET,
        delta=settings.FALSE_APPROVAL_DELTA,
        is_by_hand=settings.T_HIGH is not None,
        audited=settings.AUDIT_SHARE,
        models=tuple(dict.fromkeys(filter(None, (*models, screen)))) if settings.ANTHROPIC_API_KEY else (),
        dollars=settings.REVIEW_DOLLARS_A_DAY,
        api=settings.ANTHROPIC_BASE_URL,
        readers=readers,
        streams=(*settings.JETSTREAM_URLS, *settings.KNOT_STREAMS),
        directories=(settings.PLC_URL, *settings.BACKFILL_HOSTS),
        profiles=settings.BLUESKY_API,
        forge=settings.APPVIEW_URL,
        asks_advisories=settings.ASK_ADVISORIES,
        objection_days=DAYS,
        is_recording=settings.STREAM_CLOCK,
        false_alarms=false_alarms() if readers is not None else {},
    )


def _readers(request: Request) -> tuple[int, int] | None:
    """Return how many watched repositories let Claude read their changes, of how many; for those who may read."""
    if request.snapshot is None or not may_read(request):
        return None
    modes = [one.settings.review for one in read.watched_repositories(request.snapshot)]
    return modes.count("claude"), len(modes)


@require_safe
def api_reference(request: Request) -> HttpResponse:
    """Every operation with what it takes and answers, from the same document that programs read."""
    document = api.get_openapi_schema(path_prefix="/")
    shown = {"title": document["info"]["title"], "operations": operations(document), "shapes": shapes(document)}
    shown |= {"requests": settings.API_REQUESTS_A_MINUTE, "anonymous": settings.API_ANONYMOUS_A_MINUTE}
    return render(request, "api.html", shown)
