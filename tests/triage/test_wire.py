"""Bytes that a browser is sent: pages are packed, and a file of ours is asked for once in a year.

The inbox holds 50 rows that share no name, title or address, so that they are packed worse than those of a real site.
"""

import gzip
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.parser import BytesParser
from random import Random
from string import ascii_lowercase
from urllib.parse import urlencode, urljoin, urlsplit

import pytest
from django.conf import settings as configured
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.test import Client
from playwright.sync_api import expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer
from whitenoise.responders import StaticFile

from scoring.queries import read
from scoring.queries.read import Person, QueueRow
from tests.sources import PROJECT
from tests.triage.conftest import OpenPage
from tests.triage.worlds.drawn_rows import pull_request
from tests.triage.worlds.pages_world import DrawnWorld, draw
from tests.waiting import LONG_SECONDS
from triage.middleware import ONE_PACKET, StaticMiddleware
from triage.models import Maintainer
from triage.models import Person as Account

pytestmark = pytest.mark.django_db(transaction=True)
INBOX_BYTES, FIRST_VISIT_BYTES = 60_000, 90_000
ROWS = 50
PACKED = {"Accept-Encoding": "gzip, deflate, br"}
# Not what a browser asks for only where somebody installs the site.
LOADED = re.compile(r"""<(?:link(?! rel="(?:manifest|apple))|script|use)[^>]* (?:href|src)=["']([^"'#]+)""")
IMPORTED = re.compile(r'@import "([^"]+)"')


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: all its bytes counted with its head, and its body as a browser reads it."""

    status: int
    wire: int
    head: Message
    text: str


@dataclass(frozen=True, slots=True)
class Wire:
    """The real server, asked over a socket."""

    place: tuple[str, int]

    def ask(self, path: str, headers: dict[str, str]) -> Answer:
        """The answer to a GET."""
        told = {"Host": "{}:{}".format(*self.place)} | headers
        lines = [f"GET {path} HTTP/1.0", *(f"{name}: {value}" for name, value in told.items()), "", ""]
        with socket.create_connection(self.place, LONG_SECONDS) as line:
            line.sendall("\r\n".join(lines).encode())
            came = b"".join(iter(lambda: line.recv(65_536), b""))
        top, _, body = came.partition(b"\r\n\r\n")
        first, _, rest = top.partition(b"\r\n")
        head = BytesParser().parsebytes(rest)
        text = (gzip.decompress(body) if head["Content-Encoding"] == "gzip" else body).decode()
        return Answer(int(first.split()[1]), len(came), head, text)

    def load(self, page: str, headers: dict[str, str]) -> dict[str, Answer]:
        """The files that a page names, and those that they import."""
        found: dict[str, Answer] = {}
        waiting = LOADED.findall(page)
        while waiting:
            if (path := waiting.pop()) in found:
                continue
            found[path] = self.ask(path, headers)
            waiting += [urljoin(path, name) for name in IMPORTED.findall(found[path].text)]
        return found


def row(number: int) -> QueueRow:
    """A pull request by somebody of whom nothing else is here."""
    draws = Random(number)

    def word(length: int) -> str:
        return "".join(draws.choices(ascii_lowercase, k=length))

    author = Person(f"did:plc:{word(24)}", f"{word(9)}.example")
    return pull_request(number, author, " ".join(word(6) for _ in range(8)), 3, 1)


def patch_of(paths: Iterable[str]) -> str:
    """A change that adds sources of ours."""
    told = []
    for path in paths:
        lines = (PROJECT / path).read_text().splitlines()
        told += [f"diff --git a/{path} b/{path}", "new file mode 100644", "--- /dev/null", f"+++ b/{path}"]
        told += [f"@@ -0,0 +1,{len(lines)} @@", *(f"+{line}" for line in lines)]
    return "\n".join(told) + "\n"


class LongChange(DrawnWorld):
    """Every pull request changes some 600 lines."""

    def rounds(self, snapshot: object, uri: str) -> tuple[read.Round, ...]:
        """One, which was read."""
        text, seen = "0" * 64, datetime(2026, 3, 12, tzinfo=UTC)
        return (read.Round("1", 1, "blob:made-up", seen, True, "read", text, "9f3c" * 10, 9, ""),)


@pytest.fixture
def wire(live_server: LiveServer, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Wire:
    """A site whose own middleware serves files, which Django's live server would do in its place."""
    settings.STREAM_CLOCK = True
    draw(monkeypatch, LongChange(tuple(row(number) for number in range(1, 81))))
    text = patch_of(
        ("triage/http_cache.py", "triage/middleware.py", "triage/views/inbox/feed.py", "triage/views/setup.py")
    )
    monkeypatch.setattr(read, "kept_text", lambda folder, sha256: text)
    monkeypatch.setattr(StaticFilesHandler, "_should_handle", lambda handler, path: False)
    place = urlsplit(live_server.url)
    return Wire((str(place.hostname), int(place.port or 0)))


def maintainer() -> Client:
    """A browser that is offered every button."""
    person, _ = Account.objects.get_or_create(did="did:plc:viewerviewerviewerviewer")
    Maintainer.objects.get_or_create(person=person, repo_key="", role="maintainer")
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture
def headers() -> dict[str, str]:
    """What such a browser sends."""
    return PACKED | {"Cookie": f"sessionid={maintainer().cookies['sessionid'].value}"}


def inbox() -> str:
    """A full page of one lane, with a pull request open beside it."""
    one = row(1)
    return "/?" + urlencode({"bucket": "own" if one.own else one.verdict.lane.value, "open": one.uri})


def test_a_full_inbox_and_all_files_of_a_first_visit_are_small_on_the_wire(wire: Wire, headers: dict[str, str]) -> None:
    page = wire.ask(inbox(), headers)
    assert page.text.count('<li id="pull-') == ROWS
    assert page.text.count('<tr class="plus">') > 500, "and the change is read beside them"
    assert page.wire < INBOX_BYTES
    files = wire.load(page.text, headers)
    assert {path.rpartition("/")[2] for path in files} > {"site.css", "page.js", "htmx-2.min.js", "sprite.svg"}
    assert {one.status for one in files.values()} == {200}
    assert page.wire + sum(one.wire for one in files.values()) < FIRST_VISIT_BYTES


def test_a_file_of_ours_is_kept_for_a_year_under_an_address_that_follows_its_bytes(
    wire: Wire, headers: dict[str, str]
) -> None:
    for path, one in wire.load(wire.ask("/about", headers).text, headers).items():
        assert path.startswith(configured.STATIC_URL), path
        assert one.head["Cache-Control"] == "public, max-age=31536000, immutable"
        again = wire.ask(path, headers | {"If-None-Match": one.head["ETag"]})
        assert (again.status, again.text, again.head["Content-Encoding"]) == (304, "", None)
        plain = wire.ask(path, {})
        assert (plain.text, plain.head["ETag"]) == (one.text, one.head["ETag"])
        stale = path.replace(configured.STATIC_URL, "/static/0123456789ab/")
        assert wire.ask(stale, headers).status == 404


def test_a_browser_asks_for_each_file_once(wire: Wire, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[str] = []
    serve = StaticMiddleware.serve

    def noted(file: StaticFile, request: HttpRequest) -> HttpResponseBase:
        served.append(request.path)
        return serve(file, request)

    monkeypatch.setattr(StaticMiddleware, "serve", staticmethod(noted))
    page = open_page(client=maintainer())
    for path in (inbox(), "/about", inbox()):
        page.goto(path)
        expect(page.locator("#first")).to_have_count(0)  # else the pane is cut off as it loads
    assert len(served) == len(set(served)) > 5


def test_a_held_page_is_still_a_304_where_it_was_packed(wire: Wire, headers: dict[str, str]) -> None:
    headers |= {"Cookie": f"{headers['Cookie']}; csrftoken={'a' * 32}"}
    first = wire.ask("/dashboard", headers)
    assert first.head["Content-Encoding"] == "gzip"
    again = wire.ask("/dashboard", headers | {"If-None-Match": first.head["ETag"]})
    assert (again.status, again.text, again.head["ETag"]) == (304, "", first.head["ETag"])


def test_json_is_packed_for_who_takes_it_and_small_answers_are_left(wire: Wire, headers: dict[str, str]) -> None:
    told = wire.ask("/openapi.json", headers)
    assert told.head["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in told.head["Vary"]
    plain = wire.ask("/openapi.json", {})
    assert (plain.head["Content-Encoding"], plain.text) == (None, told.text)
    small = wire.ask("/health", headers)
    assert len(small.text) < ONE_PACKET
    assert small.head["Content-Encoding"] is None


def test_a_part_of_a_file_is_sent_as_it_is(wire: Wire, headers: dict[str, str]) -> None:
    path = f"{configured.STATIC_URL}js/page.js"
    part = wire.ask(path, headers | {"Range": "bytes=0-9"})
    assert (part.status, part.head["Content-Encoding"], len(part.text)) == (206, None, 10)


def test_docs_lead_to_the_api(wire: Wire) -> None:
    answer = wire.ask("/docs", {})
    assert (answer.status, answer.head["Location"]) == (302, "/api")
