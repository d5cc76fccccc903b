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
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ingest.atproto.syntax import LONGEST_DID, MalformedDid, parse_did, parse_handle
from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.pipeline.interventions import DAYS
from scoring.queries import read
from triage.access import throttle
from triage.access.requests import Request
from triage.access.sign_in import may_read
from triage.api import api
from triage.context import present
from triage.forms.filters import QueueFilters
from triage.presenters.about import Facts, sections
from triage.services.actions import false_alarms

LONGEST = LONGEST_DID + 600  # characters: an at-uri with the longest DID, collection and key
FEWEST = 5  # least number of first answers: a median of fewer would reveal single people
_AT_URI = re.compile(r"at://(did:[^/\s]+)/[A-Za-z0-9.-]+/[A-Za-z0-9._:~-]+")
_answers = PerSnapshot[tuple[read.Answers, read.Answers]]()
Document = Mapping[str, Any]


@require_safe
def about(request: Request) -> HttpResponse:
    """Show how it judges, what is never used, what leaves this machine, and how to object."""
    return render(request, "about/about.html", {"sections": sections(facts_from_settings(_readers(request)))})


@require_safe
@never_cache
def find(request: Request) -> HttpResponse:
    """Show whether a pull request, by address, title, handle or DID (`q`), is here, since when, and the next steps.

    It reveals no lane, score, reason or finding; readers get a link to the open row. A hidden pull request looks like
    an unknown one, and nothing is fetched.
    """
    searched = request.GET.get("q", "").strip()
    wait = _seconds_to_wait(request) if searched else 0
    shown: dict[str, object] = {"q": searched[:LONGEST], "wait": wait, "may_read": may_read(request)}
    if searched and not wait:
        pulls = _find_pulls(request.snapshot, searched)
        groups = sorted({pull.first_timer for pull in pulls}, reverse=True)
        median_waits = [(first, first_answer_days(request.snapshot, "", first)) for first in groups]
        shown |= {
            "asked": True,
            "found": [
                (pull, QueueFilters().opening(pull.uri) if shown["may_read"] and pull.state == "open" else "")
                for pull in pulls
            ],
            "waits": [(first, days) for first, days in median_waits if days is not None],
        }
    response = render(request, "about/find.html", shown, status=429 if wait else 200)
    response["X-Robots-Tag"] = "noindex"
    if wait:
        response["Retry-After"] = str(wait)
    return response


def _seconds_to_wait(request: Request) -> int:
    """Count one search by this address; return 0, or the seconds until it may search again."""
    network, now = throttle.network_of(request.META.get("REMOTE_ADDR", "")), time.time()
    searches = throttle.count("find", network, throttle.WINDOW_SECONDS, now)
    return throttle.seconds_left(throttle.WINDOW_SECONDS, now) if searches > throttle.LIMIT else 0


def _find_pulls(snapshot: Snapshot | None, searched: str) -> tuple[read.Here, ...]:
    if snapshot is None or len(searched) > LONGEST:
        return ()
    if "/" in searched:
        return read.here(snapshot, _address(searched), "", searched)
    return read.here(snapshot, "", _who(searched), searched)


def _address(searched: str) -> str:
    if searched.startswith("at://"):
        return searched if _AT_URI.fullmatch(searched) else ""
    return searched if searched.startswith(("https://", "http://")) else f"https://{searched}"


def _who(searched: str) -> str:
    try:
        return parse_handle(searched) or parse_did(searched)
    except MalformedDid:
        return ""


def first_answer_days(snapshot: Snapshot | None, repository: str = "", first_timers: bool = True) -> float | None:
    """Return the median days until first-timers, or regulars, got an answer; None where too few did.

    `repository` is the key of the one that counts, "" for all. Read once for each snapshot.
    """
    if snapshot is None:
        return None
    first, regular = _answers.get(snapshot, repository, lambda: read.answers(snapshot, present(snapshot), repository))
    answers = first.all if first_timers else regular.all
    return answers.median if answers and answers.n >= FEWEST else None


def facts_from_settings(readers: tuple[int, int] | None) -> Facts:
    """Return the page's facts from the site's settings."""
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
        objection_days=DAYS,
        is_recording=settings.STREAM_CLOCK,
        false_alarms=false_alarms() if readers is not None else {},
    )


def _readers(request: Request) -> tuple[int, int] | None:
    """Return how many watched repositories let Claude read their changes, of how many; for people who may read."""
    if request.snapshot is None or not may_read(request):
        return None
    modes = [repository.settings.review for repository in read.watched_repositories(request.snapshot)]
    return modes.count("claude"), len(modes)


@require_safe
def api_reference(request: Request) -> HttpResponse:
    """Show every operation with its parameters and answers, from the OpenAPI document that programs read."""
    document = api.get_openapi_schema(path_prefix="/")
    shown = {"title": document["info"]["title"], "operations": operations(document), "shapes": shapes(document)}
    shown |= {"requests": settings.API_REQUESTS_A_MINUTE, "anonymous": settings.API_ANONYMOUS_A_MINUTE}
    return render(request, "about/api.html", shown)


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter or a field: `kind` is type and range in words, `shape` names its schema ("": none)."""

    name: str
    kind: str
    shape: str
    needed: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class Answer:
    """One status with its content; `shape` names the schema ("": no body, or one of another kind)."""

    status: str
    phrase: str
    media: str
    shape: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One method at one address; `body` names the request's schema ("": nothing)."""

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
    """Return every operation, in the document's order."""
    return tuple(
        _operation(method, path, details)
        for path, methods in document["paths"].items()
        for method, details in methods.items()
    )


def shapes(document: Document) -> tuple[Shape, ...]:
    """Return every object that an operation takes or returns, by name."""
    schemas = document["components"]["schemas"].items()
    return tuple(_shape(name, schema) for name, schema in sorted(schemas) if "properties" in schema)


def _operation(method: str, path: str, details: Mapping[str, Any]) -> Operation:
    body = next(iter(details.get("requestBody", {}).get("content", {}).values()), {})
    return Operation(
        anchor=details["operationId"],
        method=method.upper(),
        path=path,
        summary=details["summary"],
        meaning=details.get("description", ""),
        body=_shape_name(body.get("schema", {})),
        fields=tuple(_parameter(parameter) for parameter in details.get("parameters", ())),
        answers=tuple(_answer_shapes(details["responses"])),
    )


def _parameter(details: Mapping[str, Any]) -> Field:
    schema = details["schema"]
    return Field(
        details["name"], _kind(schema), _shape_name(schema), details["required"], details.get("description", "")
    )


def _answer_shapes(responses: Mapping[str, Any]) -> Iterator[Answer]:
    for status, answer in responses.items():
        media, content = next(iter(answer.get("content", {}).items()), ("", {}))
        yield Answer(str(status), HTTPStatus(int(status)).phrase, media, _shape_name(content.get("schema", {})))


def _shape(name: str, schema: Mapping[str, Any]) -> Shape:
    needed = schema.get("required", ())
    fields = (
        Field(field, _kind(details), _shape_name(details), field in needed, details.get("description", ""))
        for field, details in schema["properties"].items()
    )
    return Shape(name, schema.get("description", ""), tuple(fields))


def _shape_name(schema: Mapping[str, Any]) -> str:
    """Return the schema's name, or that of its list items or choices."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    inner = [part for part in (schema.get("items"), *_choices(schema)) if part]
    return next((name for part in inner if (name := _shape_name(part))), "")


def _kind(schema: Mapping[str, Any]) -> str:
    if choices := _choices(schema):
        return " or ".join(dict.fromkeys(_kind(choice) for choice in choices))
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
