"""The forge on loopback, under its own name and TLS; its pages are drawn after the shapes of its templates.

A page is the forge's frame around a pull request, a list of them, a profile or anything else, for visitors who are
signed in or not. Its policy allows scripts and styles of its own alone; swaps are made by real htmx.
"""

import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Literal, Self, get_args
from urllib.parse import urlsplit

from tests.ingest.peer import make_certificate

NAME = "tangled.org"
ORIGIN = f"https://{NAME}"
POLICY = "default-src 'self'; script-src 'self'; style-src 'self'; connect-src 'self'"
PAGES = Path(__file__).with_name("pages")
BANNER = '<div id="upgrade-banner" hx-get="/upgradeBanner" hx-trigger="load" hx-swap="innerHTML"></div>'
Form = Literal["rounds", "versions"]
FORMS: tuple[Form, ...] = get_args(Form)


@dataclass(frozen=True, slots=True)
class Pull:
    """One pull request as the forge shows it; `title` and `body` may hold markup that its author wrote."""

    number: int
    title: str
    author: str
    handle: str
    uri: str
    state: str = "open"
    body: str = "<p>It was dark.</p>"


@dataclass(frozen=True, slots=True)
class Home:
    """A repository's place, and whether its visitor is signed in, who gets more parts, some of them late."""

    owner: str
    name: str
    signed_in: bool = False

    def path(self, number: int | None = None) -> str:
        """The address of its list, or of one pull request."""
        return f"/{self.owner}/{self.name}/pulls" + (f"/{number}" if number else "")


def draw(part: str, **values: object) -> str:
    """One part of a page, filled in as it stands."""
    return Template((PAGES / f"{part}.html").read_text()).substitute(values).strip()


def frame(main: str, signed_in: bool = False, title: str = "tangled") -> str:
    """A whole page."""
    account = '<a href="/settings">settings</a>' if signed_in else '<a href="/login">login</a>'
    return draw("frame", title=title, main=main, banner=BANNER if signed_in else "", account=account)


def panel(uri: str) -> str:
    """The panel that names a record."""
    return draw("panel", uri=uri)


def pull_page(home: Home, pull: Pull, form: Form = "rounds", named: str | None = None) -> str:
    """A pull request with its rounds or, since these replaced them, versions; `named` stands in place of its panel."""
    loads = f' hx-get="{home.path(pull.number)}/round/0/actions" hx-trigger="load"' if home.signed_in else ""
    rounds = "".join(draw("round", round=at, handle=pull.handle, loads=loads) for at in (1, 0))
    content = draw(
        "pull",
        **_of(home, pull),
        body=pull.body,
        panel=panel(pull.uri) if named is None else named,
        history=rounds if form == "rounds" else '<div class="round">2 versions</div>',
    )
    return frame(draw("repository", owner=home.owner, name=home.name, content=content), home.signed_in)


def list_page(home: Home, pulls: Sequence[Pull], stacked: Sequence[Pull] = ()) -> str:
    """The list; those that are `stacked` lie below the last one."""
    below = "".join(draw("stacked", **_of(home, pull)) for pull in stacked)
    stack = f"<details open><summary>expand {len(stacked)} in this stack</summary>{below}</details>" if stacked else ""
    rows = "".join(draw("row", **_of(home, pull), stack=stack if pull is pulls[-1] else "") for pull in pulls)
    content = draw("list", owner=home.owner, name=home.name, rows=rows)
    return frame(draw("repository", owner=home.owner, name=home.name, content=content), home.signed_in)


def profile_page(handle: str, did: str, signed_in: bool = False, bio: str = "Mends lamps.") -> str:
    """A profile: the line of followers stands twice, for narrow and for wide windows."""
    followers = draw("followers", handle=handle, did=did)
    vouch = '<button class="text-sm">vouch</button>' if signed_in else ""
    return frame(draw("profile", handle=handle, bio=bio, followers=followers, vouch=vouch), signed_in)


def _of(home: Home, pull: Pull) -> Mapping[str, object]:
    card = f' hx-get="/profile/popover?did={pull.author}" hx-trigger="mouseenter once"' if home.signed_in else ""
    picture = f'<a href="/{pull.handle}" title="{pull.handle}"{card}><i class="avatar"></i></a>'
    own = {"number": pull.number, "title": pull.title, "handle": pull.handle, "state": pull.state}
    return {"owner": home.owner, "name": home.name, "picture": picture, **own}


@dataclass
class Forge:
    """The forge: its pages by path, also those that a page fetches by htmx."""

    folder: Path
    pages: dict[str, str] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)  # all that browsers sent, request by request

    def __enter__(self) -> Self:
        certificate = make_certificate(self.folder, NAME)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_name(f"{certificate.name}.key"))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.pages, self.heard))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self._server.serve_forever, name="forge", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        return self._server.server_address[1]


def _handler(pages: Mapping[str, str], heard: list[str]) -> type[BaseHTTPRequestHandler]:
    htmx = files("django_htmx").joinpath("static/django_htmx/htmx-2.min.js").read_bytes()
    static = {
        "/static/tw.css": ("text/css", (PAGES / "forge.css").read_bytes()),
        "/static/htmx.min.js": ("text/javascript", htmx),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            heard.append(f"{self.requestline}\n{self.headers}")
            kind, body = static.get(path, ("text/html; charset=utf-8", pages.get(path, "").encode()))
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
