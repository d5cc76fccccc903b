"""First run: which repositories are watched, what may leave this machine, and the reading's progress. For maintainers.

Rows, log and messages to the worker are written in one transaction. The worker queries the network, and its answer
waits in the queue's file. The session keeps what was typed and ticked, so that nothing is lost with an answer.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import wraps
from hashlib import blake2b
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import get_conditional_response, patch_cache_control, patch_vary_headers
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from ingest.atproto.syntax import MalformedDid, parse_did, parse_handle
from ingest.store.snapshots import Snapshot
from ingest.tasks import run_job
from ingest.worker.runtime import huey
from scoring.config.repository import DEFAULTS
from scoring.handlers.actions import read_run
from scoring.queries import read
from scoring.queries.read import WatchedRepository
from scoring.review.by_hand import LOOKED_UP, new_job, reply_key
from triage.access.admission import SignInProblem, become_first_admin, check_code
from triage.access.permissions import Role, has_admin, keep_watched, require
from triage.access.requests import Request
from triage.access.sign_in import CLAIM, count_failures
from triage.context import worker_status
from triage.models import DeliveryRun, OutboxEntry, Person
from triage.models.accounts import log_change
from triage.models.outbox import put
from triage.presenters.queue import freshness
from triage.presenters.setup import REVIEWS, Choice, choices, progress_of, read_ticks
from triage.services import repository_settings
from triage.services.repository_settings import ChangedMeanwhile

KINDS = ("watched", "settings.changed", "first_reading")
LONGEST_RUN = timedelta(minutes=1)  # 500 messages take 3 s
LOST = "The answer has expired: look again. What you typed and ticked is still here."
MALFORMED = "This is neither a handle such as ana.example.com nor a DID such as did:plc:ewvi7nxzyoun6zhxrhs64oiz."
RECORDED = "This is a recording: everything in it is watched already, and nothing can be added."
KEY = "setup"
NONE_TICKED = "Nothing changed. Tick at least one repository to watch."
LATE = "Nothing changed: somebody else changed the settings of one of these at the same time. Try again."
View = Callable[[Request], HttpResponse]


def start_watching(
    person: Person, owner: str, chosen: Sequence[tuple[Choice, str]], holders: Sequence[str], now: datetime
) -> None:
    """Watch these repositories of `owner` (a DID), each with its review mode, and read their people first.

    Each is in shadow mode until a maintainer changes that. Raises ChangedMeanwhile, with nothing changed, where
    somebody saved settings of one at this moment.
    """
    with transaction.atomic():
        for choice, review in chosen:
            keep_watched(choice.record, now)
            log_change(person, "repository.watched", now, choice.repo_key, choice.record)
            repository = WatchedRepository(0, choice.repo_key, choice.name, owner, DEFAULTS)
            current = repository_settings.newest(repository)
            repository_settings.save(person, repository, replace(current, review=review), current.version, now)
        records = sorted(choice.record for choice, _ in chosen)
        name = blake2b("\n".join(records).encode(), digest_size=16).hexdigest()
        put("first_reading", f"first_reading:{name}", {"dids": list(dict.fromkeys((owner, *holders)))}, now)


def handed_over(snapshot: Snapshot | None) -> tuple[int, str]:
    """Return how many of these messages the snapshot does not show, and the problem of a failed one, "" for none."""
    waiting: Mapping[str, str] = dict(
        OutboxEntry.objects.filter(kind__in=KINDS, delivered_at=None).values_list("key", "problem")
    )
    return len(waiting) + _taken_since(snapshot), next(filter(None, waiting.values()), "")


def _taken_since(snapshot: Snapshot | None) -> int:
    """Return how many messages the worker has taken that no snapshot shows yet.

    Without them a page would say that all is done.

    A snapshot that names the newest run of deliveries shows everything; in another one, messages taken from a minute
    before it may be missing, as a message has the time at which its run began.
    """
    run = DeliveryRun.objects.first()
    if run is None or (snapshot and read_run(snapshot) == (run.store, run.number)):
        return 0
    taken = OutboxEntry.objects.filter(kind__in=KINDS).exclude(delivered_at=None)
    since = snapshot.published_at.replace(tzinfo=UTC) - LONGEST_RUN if snapshot else None
    return (taken.filter(delivered_at__gte=since) if since else taken).count()


@dataclass(slots=True)
class Search:
    """A maintainer's search: the typed text, the name of the job, and the review mode of each ticked record."""

    who: str = ""
    job: str = ""
    ticked: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, request: Request) -> "Search":
        """Return the search of this session, or an empty one."""
        return cls(**request.session.get(KEY, {}))

    def keep(self, request: Request) -> None:
        """Write it to the session."""
        request.session[KEY] = {"who": self.who, "job": self.job, "ticked": self.ticked}


@dataclass(frozen=True, slots=True)
class Answer:
    """The state of a search: `step` while it runs, then a `problem`, or `found`; nothing where none was started.

    `found` are the JSON values of `ingest.backfill.owners.Owner`.
    """

    step: str = ""
    problem: str = ""
    found: Mapping[str, Any] | None = None


def account_of(typed: str) -> str | None:
    """Return the typed handle or DID; None where it is neither."""
    text = typed.strip()
    if not text.startswith(("did:plc:", "did:web:")):
        return parse_handle(text)
    try:
        return parse_did(text)
    except MalformedDid:
        return None


def worker_trouble() -> str:
    """Return why nothing can be looked up now, "" where the worker runs and stores and this is not a recording."""
    if settings.STREAM_CLOCK:
        return RECORDED
    problems = freshness.troubles(worker_status(), time.time(), 0, recorded=False)
    return next((trouble.sentence for trouble in problems if trouble.tone == "stopped"), "")


def look_up(who: str) -> str:
    """Have the worker list the repositories of a handle or DID; return the name of the job."""
    job = new_job(time.time())
    key = reply_key(job, LOOKED_UP)
    huey.put(key, {"progress": {"step": "Asking the worker."}})
    run_job("find_owned", {"who": who}, key)
    return job


def answer_of(search: Search) -> Answer:
    """Return the present state of the search."""
    if not search.job:
        return Answer()
    reply = huey.get(reply_key(search.job, LOOKED_UP), peek=True)
    if not isinstance(reply, dict):
        return Answer(problem=LOST)
    if "progress" in reply:
        trouble = worker_trouble()
        return Answer(problem=trouble) if trouble else Answer(step=reply["progress"]["step"])
    return Answer(problem=reply.get("problem", ""), found=reply.get("done"))


def maintainers_only(view: View) -> View:
    """Wrap a view for maintainers of the whole site: watching a repository makes its owner a seed of the site."""

    @wraps(view)
    def guarded(request: Request) -> HttpResponse:
        require(request, "", Role.MAINTAINER)
        return view(request)

    return guarded


@require_safe
@never_cache
def begin(request: Request) -> HttpResponse:
    """Show the page on which the operator types the first admin's code; redirect to /setup once there is an admin."""
    return redirect("setup") if has_admin() else render(request, "setup/begin.html")


@require_POST
@never_cache
@sensitive_post_parameters()
def use_code(request: Request) -> HttpResponse:
    """Make the signed-in person the first admin by `code`, or whoever signs in next in this browser."""
    try:
        with count_failures(request):
            code_hash = check_code(request.POST.get("code", ""), timezone.now())
            if isinstance(request.user, Person):
                become_first_admin(request.user, code_hash, timezone.now())
    except SignInProblem as problem:
        response = render(request, "setup/begin.html", {"problem": problem.sentence}, status=problem.status)
        if problem.wait:
            response["Retry-After"] = str(problem.wait)
        return response
    if isinstance(request.user, Person):
        return redirect("setup")
    request.session[CLAIM] = code_hash
    return redirect(f"{reverse('sign_in')}?{urlencode({'next': reverse('setup')})}")


@require_safe
@never_cache
@maintainers_only
def setup(request: Request) -> HttpResponse:
    """Show the whole page: the search, its results, and the reading's progress.

    At first the search is for the viewer's own repositories.
    """
    search = Search.of(request)
    return _page(request, search if search.who else replace(search, who=str(request.user)))


@require_POST
@never_cache
@maintainers_only
def find_repositories(request: Request) -> HttpResponse:
    """Look up the repositories of a handle or DID; the typed text stays in the form."""
    search = Search.of(request)  # with earlier ticks, for a list that was lost
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
    """Watch and read the ticked repositories; do nothing where none is ticked, or where the list has expired."""
    person, search = require(request, "", Role.MAINTAINER), Search.of(request)
    search.ticked = read_ticks(request.POST.dict(), request.POST.getlist("record")[:200])
    search.keep(request)
    answer = answer_of(search).found
    if answer is None:
        return _page(request, search, status=409)
    chosen = [(item, search.ticked[item.record]) for item in choices(answer, search.ticked) if item.is_ticked]
    if not chosen:
        return _page(request, search, NONE_TICKED, status=422)
    records = {item.record for item, _ in chosen}
    holders = [did for item in answer["repositories"] if item["record"] in records for did in item["holders"]]
    try:
        start_watching(person, answer["did"], chosen, holders, timezone.now())
    except ChangedMeanwhile:
        return _page(request, search, LATE, status=409)
    Search().keep(request)
    return redirect("setup")


@require_safe
@maintainers_only
def setup_looking(request: Request) -> HttpResponse:
    """Return the polled step of a search; once it has ended the whole page is reloaded."""
    answer = answer_of(Search.of(request))
    response = _polled(request, "setup/_setup_looking.html", {"answer": answer}, answer.step)
    if not answer.step:
        response["HX-Refresh"] = "true"
    return response


@require_safe
@maintainers_only
def setup_progress(request: Request) -> HttpResponse:
    """Return the polled progress of the reading: 304 where nothing has changed."""
    shown = _progress(request)
    return _polled(request, "setup/_setup_progress.html", shown, shown)


def _polled(request: Request, template: str, context: dict[str, object], key: object) -> HttpResponse:
    """Return a fragment with an ETag of its content and its viewer."""
    tag = f'W/"{blake2b(repr((template, request.user.pk, key)).encode(), digest_size=12).hexdigest()}"'
    response = get_conditional_response(request, tag) or render(request, template, context)
    response["ETag"] = tag
    patch_vary_headers(response, ("HX-Request", "Cookie", "Accept"))
    patch_cache_control(response, private=True, no_cache=True)
    return response


def _page(request: Request, search: Search, problem: str = "", status: int = 200) -> HttpResponse:
    answer = Answer() if problem and status == 422 and not search.job else answer_of(search)
    owner = answer.found
    context = {
        "search": search,
        "answer": answer,
        "problem": problem or answer.problem,
        "found": owner,
        "choices": choices(owner, search.ticked) if owner else (),
        "reviews": REVIEWS,
        "has_key": bool(settings.ANTHROPIC_API_KEY),
        **_progress(request),
    }
    return render(request, "setup/setup.html", context, status=status)


def _progress(request: Request) -> dict[str, object]:
    snapshot = request.snapshot
    waiting, trouble = handed_over(snapshot)
    no_reading = read.FirstReading("none", is_heard=False, watched=0, unasked=0, pulls=0)
    reading = read.first_reading(snapshot, snapshot.published_at) if snapshot else no_reading
    return {"progress": progress_of(reading, waiting), "trouble": trouble or (waiting and worker_trouble())}
