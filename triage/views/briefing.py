"""The briefing: its page, read aloud by the browser, and a private podcast with an item each morning.

The address of the podcast and of its sounds holds a token, as that of the Atom feed does. An item is written at the
first request after BRIEFING_HOUR and stays as it is for the day, so that text and sound agree.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import partial
from math import ceil

from django.conf import settings
from django.core.cache import cache
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.feedgenerator import Enclosure, Rss201rev2Feed
from django.utils.html import escape
from django.utils.xmlutils import SimplerXMLGenerator
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from ingest.store.snapshots import Snapshot
from triage.access.permissions import Role, Roles, roles_of, signed_in
from triage.access.problems import prefers_json
from triage.access.requests import Request
from triage.access.sign_in import viewing
from triage.access.tokens import bearer_secret
from triage.api import answer_as_json
from triage.api.briefing import briefing_lines
from triage.context import digest
from triage.models import ApiToken
from triage.presenters.briefing import speech_seconds
from triage.services import speech
from triage.services.speech import Espeak, Sound, SpeechBusy, SpeechProblem
from triage.views.inbox.feed import RETRY_SECONDS, answer_token
from triage.views.lanes.lists import for_any_maintainer

RSS = "application/rss+xml; charset=utf-8"
A_DAY = timedelta(days=1)
KINDS = ("rss", "wav", "mp3")
_RANGE = re.compile(r"bytes=([0-9]{1,9})-([0-9]{0,9})")  # the whole is sent for any other form, as HTTP allows
ITUNES = "http://www.itunes.com/dtds/podcast-1.0.dtd"


@require_safe
def briefing(request: Request) -> HttpResponse:
    """Show the morning in sentences; JSON for a token, and for clients that rank it above HTML."""
    if prefers_json(request) or bearer_secret(request):
        return answer_as_json("get_briefing", request)
    return _briefing_page(request)


@for_any_maintainer
def _briefing_page(request: Request, snapshot: Snapshot) -> HttpResponse:
    person, now = signed_in(request), timezone.now()
    lines = briefing_lines(snapshot, viewing(request), "", person.last_visit(now), now)
    if request.method == "GET":
        person.note_visit(now)
    voice = speech.choose_voice()
    shown = {
        "lines": lines,
        "seconds": 5 * ceil(speech_seconds([line.said for line in lines]) / 5),
        "sound": ("espeak" if voice.program else "none") if isinstance(voice, Espeak) else "elevenlabs",
        "hour": f"{settings.BRIEFING_HOUR:02}:00",
    }
    return render(request, "briefing/briefing.html", shown)


@dataclass(frozen=True, slots=True)
class Item:
    """What the podcast says this morning."""

    made_at: datetime
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the text to speak."""
        return " ".join(self.sentences)


@csrf_exempt  # a page that changes nothing needs no form token; a refusal would log the address
def briefing_feed(request: Request, secret: str, kind: str) -> HttpResponse:
    """Serve the podcast of a maintainer's token as <token>/briefing.rss, and its sound beside it."""
    # Django logs the path of a refused request, which must not contain the secret
    request.path = request.path_info = "/feed/"
    return _briefing_feed(request, secret, kind)


@require_safe
def _briefing_feed(request: Request, secret: str, kind: str) -> HttpResponse:
    response = answer_token(request, secret if kind in KINDS else "", partial(_answer, kind=kind, secret=secret))
    response["Cache-Control"] = "private, no-store"  # so it is not packed either: the feed holds its own address
    return response


def _answer(request: Request, snapshot: Snapshot, token: ApiToken, kind: str, secret: str) -> HttpResponse:
    roles = roles_of(token.person)
    roles = roles.within(str(token.repo_key)) if token.repo_key else roles
    if roles.highest() < Role.MAINTAINER:
        raise Http404
    item = _item_of(snapshot, token, roles, timezone.now())
    try:
        sound, problem = speech.speak(item.text), ""
    except SpeechProblem as silent:
        sound, problem = None, str(silent)
    except SpeechBusy:
        return HttpResponse(status=503, headers={"Retry-After": str(RETRY_SECONDS)})
    if kind == "rss":
        address = partial(_sound_address, request, secret)
        return HttpResponse(_write_rss(request, token, item, sound, problem, address), content_type=RSS)
    if sound is None or sound.ending != kind:
        return HttpResponse(problem, status=404, content_type="text/plain; charset=utf-8")
    return _write_sound(request, sound)


def _write_sound(request: Request, sound: Sound) -> HttpResponse:
    """Return the sound, or the part of it that is asked for: players of Apple's take no other server's."""
    size, asked = len(sound.data), _RANGE.fullmatch(request.headers.get("Range", ""))
    first, last = (int(asked[1]), min(int(asked[2] or size), size - 1)) if asked else (0, size - 1)
    if first > last:
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{size}"})
    response = HttpResponse(sound.data[first : last + 1], content_type=sound.media_type, status=206 if asked else 200)
    response["Accept-Ranges"] = "bytes"
    if asked:
        response["Content-Range"] = f"bytes {first}-{last}/{size}"
    return response


def _item_of(snapshot: Snapshot, token: ApiToken, roles: Roles, now: datetime) -> Item:
    """Return this morning's item of a token; it is written anew where its person's roles changed."""
    day = (now.astimezone(UTC) - timedelta(hours=settings.BRIEFING_HOUR)).date()
    made_at = datetime.combine(day, time(settings.BRIEFING_HOUR), UTC)

    def write() -> Item:
        lines = briefing_lines(snapshot, roles, str(token.repo_key), None, now)
        return Item(made_at, tuple(line.said for line in lines))

    key = digest((token.pk, made_at, roles.least, sorted(roles.held.items())))
    return cache.get_or_set(f"briefing:{key}", write, A_DAY.total_seconds())


def _sound_address(request: Request, secret: str, ending: str) -> str:
    return request.build_absolute_uri(reverse("briefing_feed", args=[secret, ending]))


def _write_rss(
    request: Request, token: ApiToken, item: Item, sound: Sound | None, problem: str, address_of: Callable[[str], str]
) -> str:
    """Return the feed with its one item; its text is in it too, and says why where there is no sound."""
    home = request.build_absolute_uri(reverse("briefing"))
    feed = _Podcast("Sunstead briefing", home, "What waits, each morning. The address is a secret.", language="en")
    said = [*item.sentences, *([f"({problem})"] if problem else [])]
    sounds = [Enclosure(address_of(sound.ending), str(len(sound.data)), sound.media_type)] if sound else []
    feed.add_item(
        title=f"Briefing of {item.made_at.day} {item.made_at:%B %Y}",
        link=home,
        description="".join(f"<p>{escape(sentence)}</p>" for sentence in said),
        unique_id=f"briefing-{token.pk}-{item.made_at:%Y-%m-%d}",  # the same after a restart, else it comes twice
        unique_id_is_permalink=False,
        pubdate=item.made_at,
        enclosures=sounds,
    )
    return feed.writeString("utf-8")


class _Podcast(Rss201rev2Feed):
    """RSS 2.0 that asks directories of podcasts not to list it."""

    def rss_attributes(self) -> dict[str, str]:
        return {**super().rss_attributes(), "xmlns:itunes": ITUNES}

    def add_root_elements(self, handler: SimplerXMLGenerator) -> None:
        super().add_root_elements(handler)
        handler.addQuickElement("itunes:block", "Yes")
