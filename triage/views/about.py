"""Pages for anybody: how the site judges, whether somebody's pull request is here, and the API's description.

The page that describes the API names no person and no figure.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ingest.atproto.syntax import LONGEST_DID, MalformedDid, parse_did, parse_handle
from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.pipeline.interventions import DAYS
from scoring.queries import read
from triage.access import throttle
from triage.access.requests import Request
from triage.access.sign_in import may_read, person_of
from triage.api import api
from triage.context import present
from triage.forms.filters import QueueFilters
from triage.models import Person
from triage.presenters.about import Facts, sections
from triage.presenters.text import first_answer_words
from triage.services.actions import false_alarms
from triage.services.author_answers import find_waiting
from triage.services.notifying import push
from triage.services.publishing.records import service_account

LONGEST = LONGEST_DID + 600  # characters: an at-uri with the longest DID, collection and key
FEWEST = 5  # first answers below which a median would tell of single people
_AT_URI = re.compile(r"at://(did:[^/\s]+)/[A-Za-z0-9.-]+/[A-Za-z0-9._:~-]+")
_answers = PerSnapshot[tuple[read.Answers, read.Answers]]()
Document = Mapping[str, Any]


@require_safe
def about(request: Request) -> HttpResponse:
    """Return how it judges, what is never used, what leaves this machine, how to object."""
    return render(request, "about/about.html", {"sections": sections(facts_from_settings(_readers(request)))})


@require_safe
@never_cache
def find(request: Request) -> HttpResponse:
    """Return whether the pull request at an address, or of a title, handle or DID (`q`), is here, since when, and how
    to get further.

    Neither lane, score, reason nor finding; whoever may read is led to the open row that tells them. It tells that the
    author was asked something, and never what. What is hidden is told as what is not here, and nothing is fetched.
    """
    asked = request.GET.get("q", "").strip()
    wait = _seconds_to_wait(request) if asked else 0
    shown: dict[str, object] = {"q": asked[:LONGEST], "wait": wait, "may_read": may_read(request)}
    shown["own_page"] = reverse("own_decision", args=[asked]) if _is_pull(asked) else reverse("me")
    if asked and not wait:
        found = _found(request.snapshot, asked, may_read(request))
        rows = read.pulls(request.snapshot, [one.uri for one in found]) if found and request.snapshot else ()
        on_author = {row.uri for row in rows if row.on_author}
        waiting = [one for one in found if one.state == "open" and one.uri not in on_author]
        groups = sorted({one.first_timer for one in waiting}, reverse=True)
        waits = [first_answer(request.snapshot, "", "", first) for first in groups]
        shown |= {
            "asked": True,
            "found": [_shown(request, one, bool(shown["may_read"]), one.uri in on_author) for one in found],
            "waits": [words for words in waits if words],
            "is_short": len(asked) < read.FEWEST_OF_TITLE,
            "repositories": _repositories_called(request.snapshot, asked) if not found else (),
            "place": _place_of(request.snapshot, asked) if not found else None,
        }
    response = render(request, "about/find.html", shown, status=429 if wait else 200)
    response["X-Robots-Tag"] = "noindex"
    if wait:
        response["Retry-After"] = str(wait)
    return response


@dataclass(frozen=True, slots=True)
class Found:
    """A pull request that was found; for who may read, `address` is its page, and `outcome` says how it ended.

    `is_asked`: something waits here for its author's answer. `is_own`: its author is signed in.
    """

    pull: read.Here
    address: str
    outcome: str
    on_author: bool
    is_asked: bool
    is_own: bool


def _shown(request: Request, found: read.Here, reads: bool, on_author: bool) -> Found:
    author, is_open = found.uri.removeprefix("at://").partition("/")[0], found.state == "open"
    asked = find_waiting(author, request.snapshot, timezone.now()) if is_open and request.snapshot else {}
    is_own = isinstance(request.user, Person) and request.user.did == author
    if not reads or request.snapshot is None:
        return Found(found, "", "", on_author, found.uri in asked, is_own)
    row = reverse("queue") + QueueFilters().opening(found.uri)
    address = row if is_open else reverse("history", args=[found.uri])
    outcome = (
        ""
        if is_open or person_of(request) is None
        else read.settled_outcomes(request.snapshot, [found.uri]).get(found.uri, "")
    )
    return Found(found, address, outcome, on_author, found.uri in asked, is_own)


def _seconds_to_wait(request: Request) -> int:
    """Count one search of this address; 0, or the seconds until it may search again."""
    network, now = throttle.network_of(request.META.get("REMOTE_ADDR", "")), time.time()
    searches = throttle.count("find", network, throttle.WINDOW_SECONDS, now)
    return throttle.seconds_left(throttle.WINDOW_SECONDS, now) if searches > throttle.LIMIT else 0


def _found(snapshot: Snapshot | None, asked: str, reads: bool) -> tuple[read.Here, ...]:
    """Return what was found; a title or handle finds decided ones only for who may read the list of them."""
    if snapshot is None or len(asked) > LONGEST:
        return ()
    if "/" in asked:
        return read.here(snapshot, _address(asked), "", asked, reads)
    return read.here(snapshot, "", _who(asked), asked, reads)


def _place_of(snapshot: Snapshot | None, asked: str) -> tuple[str, bool] | None:
    if snapshot is None or len(asked) > LONGEST or "/" not in asked:
        return None
    return read.repository_at(snapshot, _address(asked))


def _repositories_called(snapshot: Snapshot | None, asked: str) -> list[tuple[str, str]]:
    """Return key and name of each watched repository with this name, without regard to case."""
    names = read.repository_names(snapshot) if snapshot else {}
    return [(key, name) for key, name in names.items() if asked.casefold() == name.casefold()]


def _address(asked: str) -> str:
    if asked.startswith("at://"):
        return asked if _is_pull(asked) else ""
    return asked if asked.startswith(("https://", "http://")) else f"https://{asked}"


def _is_pull(asked: str) -> bool:
    return len(asked) <= LONGEST and _AT_URI.fullmatch(asked) is not None


def _who(asked: str) -> str:
    try:
        return parse_handle(asked) or parse_did(asked)
    except MalformedDid:
        return ""


def first_answer(snapshot: Snapshot | None, repository: str, where: str, first_timers: bool) -> str:
    """Say how soon first-timers, or regulars, heard back `where`; "" where too few did.

    `repository` is the key of the one that counts, "" for all. Read once for each snapshot.
    """
    if snapshot is None:
        return ""
    first, regular = _answers.get(snapshot, repository, lambda: read.answers(snapshot, present(snapshot), repository))
    asked = first if first_timers else regular
    return first_answer_words([asked], where) if asked.all and asked.all.n >= FEWEST else ""


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
        audited_estimated=settings.ESTIMATED_AUDIT_SHARE,
        models=tuple(dict.fromkeys(filter(None, (*models, screen)))) if settings.ANTHROPIC_API_KEY else (),
        dollars=settings.REVIEW_DOLLARS_A_DAY,
        api=settings.ANTHROPIC_BASE_URL,
        readers=readers,
        streams=(*settings.JETSTREAM_URLS, *settings.KNOT_STREAMS),
        directories=(settings.PLC_URL, *settings.BACKFILL_HOSTS),
        profiles=settings.BLUESKY_API,
        forge=settings.APPVIEW_URL,
        asks_advisories=settings.ASK_ADVISORIES,
        asks_registries=settings.ASK_REGISTRIES,
        asks_declared=settings.ASK_DECLARED,
        objection_days=DAYS,
        is_recording=settings.STREAM_CLOCK,
        false_alarms=false_alarms() if readers is not None else {},
        buys_speech=bool(settings.ELEVENLABS_API_KEY),
        publishes=(account.handle or account.did) if (account := service_account()) else "",
        pushes=push.is_offered(),
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
    return render(request, "about/api.html", shown)


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter or a field: `kind` says type and range in words, `shape` names the schema it holds ("": none)."""

    name: str
    kind: str
    shape: str
    needed: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class Answer:
    """One status with what it carries; `shape` names the schema ("": no body, or one of another kind)."""

    status: str
    phrase: str
    media: str
    shape: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One method at one address; `body` names the schema of what is sent ("": nothing)."""

    anchor: str
    method: str
    path: str
    summary: str
    meaning: str
    body: str
    fields: tuple[Field, ...]
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A JSON object with its fields."""

    name: str
    meaning: str
    fields: tuple[Field, ...]


def operations(document: Document) -> tuple[Operation, ...]:
    """Every operation, in the document's order."""
    return tuple(
        _operation(method, path, told)
        for path, methods in document["paths"].items()
        for method, told in methods.items()
    )


def shapes(document: Document) -> tuple[Shape, ...]:
    """Every object that an operation takes or gives, by name."""
    found = document["components"]["schemas"].items()
    return tuple(_shape(name, schema) for name, schema in sorted(found) if "properties" in schema)


def _operation(method: str, path: str, told: Mapping[str, Any]) -> Operation:
    sent = next(iter(told.get("requestBody", {}).get("content", {}).values()), {})
    return Operation(
        anchor=told["operationId"],
        method=method.upper(),
        path=path,
        summary=told["summary"],
        meaning=told.get("description", ""),
        body=_named(sent.get("schema", {})),
        fields=tuple(_parameter(one) for one in told.get("parameters", ())),
        answers=tuple(_answer_shapes(told["responses"])),
    )


def _parameter(told: Mapping[str, Any]) -> Field:
    schema = told["schema"]
    return Field(told["name"], _kind(schema), _named(schema), told["required"], told.get("description", ""))


def _answer_shapes(told: Mapping[str, Any]) -> Iterator[Answer]:
    for status, answer in told.items():
        media, content = next(iter(answer.get("content", {}).items()), ("", {}))
        yield Answer(str(status), HTTPStatus(int(status)).phrase, media, _named(content.get("schema", {})))


def _shape(name: str, schema: Mapping[str, Any]) -> Shape:
    needed = schema.get("required", ())
    fields = (
        Field(field, _kind(told), _named(told), field in needed, told.get("description", ""))
        for field, told in schema["properties"].items()
    )
    return Shape(name, schema.get("description", ""), tuple(fields))


def _named(schema: Mapping[str, Any]) -> str:
    """The schema that this one is, or is a list or a choice of."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    inner = [one for one in (schema.get("items"), *_choices(schema)) if one]
    return next((name for one in inner if (name := _named(one))), "")


def _kind(schema: Mapping[str, Any]) -> str:
    if choices := _choices(schema):
        return " or ".join(dict.fromkeys(_kind(one) for one in choices))
    if "enum" in schema:
        return ", ".join(str(value) or "empty" for value in schema["enum"])
    if "$ref" in schema:
        return "object"
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}{_range(schema, 'minItems', 'maxItems')}"
    words = schema.get("format") or schema.get("type") or "any value"
    return f"{words}{_range(schema, 'minimum', 'maximum')}{_range(schema, 'minLength', 'maxLength', ' characters')}"


def _choices(schema: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return schema.get("anyOf") or schema.get("allOf") or ()


def _range(schema: Mapping[str, Any], low: str, high: str, unit: str = "") -> str:
    match schema.get(low), schema.get(high):
        case None, None:
            return ""
        case least, None:
            return f", at least {least:,}{unit}"
        case None, most:
            return f", at most {most:,}{unit}"
        case least, most:
            return f", {least:,} to {most:,}{unit}"
    return ""
