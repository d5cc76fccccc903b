"""The extension as a file: the same bytes everywhere, accepted by the linter, handed to people with a role."""

import json
import os
import re
import shutil
import subprocess
import zipfile
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.utils import timezone

from tests.ingest.stream.frames import ANA, REPO
from tests.triage.overlay.browser import OVERLAY
from tests.triage.worlds.small_site import CABIN
from triage.access.tokens import find_token
from triage.models import ApiToken, Maintainer, Person
from triage.services.overlay import archive, pack

pytestmark = pytest.mark.django_db
SECRET = re.compile(r"sunstead_[A-Za-z0-9_-]{43}")
LINTS = ("lint", "--output", "json", "--self-hosted", "--no-config-discovery", "--source-dir")
FETCHES = re.compile(r"\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon")
MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|importScripts")
SHIPPED = [
    "answers.js",
    "hat.js",
    "icons/128.png",
    "icons/16.png",
    "icons/48.png",
    "instance.js",
    "manifest.json",
    "options.html",
    "options.js",
    "own.css",
    "page.js",
    "places.js",
    "popup.html",
    "popup.js",
    "worker.js",
]
LEFT_BEHIND = (
    ".DS_Store",
    ".hidden.js",
    ".git/hook.js",
    "worker.js~",
    "worker.js.orig",
    "notes.txt",
    "icons/Thumbs.db",
)
ADDRESS = re.compile(r"https?://[\w-]+(?:\.[\w-]+)*")
KNOWN = {"https://tangled.org", "http://www.w3.org", "https://sunstead.example", "http://127.0.0.1"}


def reader(role: str = "maintainer", repo_key: str = REPO) -> Client:
    """Somebody who is signed in with this role there."""
    person = Person.objects.create(did=ANA)
    Maintainer.objects.create(person=person, repo_key=repo_key, role=role)
    client = Client()
    client.force_login(person)
    return client


def test_the_same_sources_give_the_same_bytes_wherever_and_whenever_they_lie(tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(OVERLAY, copy)
    for number, path in enumerate(sorted(copy.rglob("*"), reverse=True)):
        path.chmod(0o700)
        os.utime(path, (number * 1e6, number * 1e6))
    assert pack(copy) == archive()
    for name in LEFT_BEHIND:
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text("left behind")
    assert pack(copy) == archive()
    (copy / "worker.js").write_text("changed")
    assert pack(copy) != archive()
    entries = zipfile.ZipFile(BytesIO(archive())).infolist()
    assert [one.filename for one in entries] == SHIPPED
    assert {(one.date_time, one.external_attr >> 16) for one in entries} == {((1980, 1, 1, 0, 0, 0), 0o100644)}


def test_the_command_writes_what_the_site_serves_and_says_where_it_cannot(
    tmp_path: Path, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("overlay", tmp_path / "overlay.zip")
    served = reader().get("/overlay/sunstead-overlay.zip")
    assert served.content == (tmp_path / "overlay.zip").read_bytes() == archive()
    assert served["Content-Type"] == "application/zip"
    assert "sunstead-overlay.zip" in served["Content-Disposition"]
    assert sha256(archive()).hexdigest() in capsys.readouterr().out
    with pytest.raises(CommandError, match=r"cannot be written: No such file or directory\.$"):
        call_command("overlay", tmp_path / "no" / "folder.zip")


def test_the_page_says_how_to_install_it_and_what_it_sends(small: Path) -> None:
    page = reader().get("/overlay").content.decode()
    version = json.loads((OVERLAY / "manifest.json").read_text())["version"]
    for words in (f"version {version}", sha256(archive()).hexdigest(), "chrome://extensions", "about:debugging"):
        assert words in page
    assert "<code>http://testserver</code>" in page, "the address to type"


@pytest.mark.parametrize(("repo_key", "is_made"), [("", True), (REPO, True), (CABIN, False)])
def test_one_click_makes_a_token_that_reads_for_one_repository_or_all(
    small: Path, repo_key: str, is_made: bool
) -> None:
    ana = reader()
    for page in ("/tokens", "/overlay"):
        shown = ana.get(page).content.decode()
        form = shown.partition('<input type="hidden" name="name" value="Browser extension">')[2].partition("</form>")[0]
        assert '<input type="hidden" name="scopes" value="read">' in form
        assert f'<option value="{REPO}">' in form
        assert CABIN not in form
    sent = {"name": "Browser extension", "scopes": "read", "repo_key": repo_key}
    answer = ana.post("/tokens/make", sent)
    found = SECRET.findall(answer.content.decode())
    assert bool(found) is is_made
    if is_made:
        assert "Paste it into the extension" in answer.content.decode()
        token = find_token(found[0], "read", timezone.now())
        assert token is not None
        assert (token.scopes, token.repo_key) == (["read"], repo_key)
    assert ApiToken.objects.exists() is is_made


def test_the_linter_of_extensions_finds_no_error(web_ext: Path) -> None:
    told = subprocess.run(
        [web_ext, *LINTS, OVERLAY],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "NO_UPDATE_NOTIFIER": "1"},
    )
    found = json.loads(told.stdout)
    assert found["errors"] == []
    # Chromium wants what Firefox passes over: one manifest names both.
    assert [one["code"] for one in found["warnings"]] == ["BACKGROUND_SERVICE_WORKER_IGNORED"]


def test_it_asks_for_no_more_than_it_needs_and_writes_no_markup() -> None:
    manifest = json.loads((OVERLAY / "manifest.json").read_text())
    assert manifest["permissions"] == ["storage"]
    assert manifest["host_permissions"] == ["https://tangled.org/*"]
    assert set(manifest["optional_host_permissions"]) == {"https://*/*", "http://127.0.0.1/*", "http://localhost/*"}
    assert not {"web_accessible_resources", "externally_connectable", "update_url"} & manifest.keys()
    sources = {path.name: path.read_text() for path in (*OVERLAY.glob("*.js"), *OVERLAY.glob("*.html"))}
    assert [name for name, text in sources.items() if MARKUP.search(text)] == []
    assert [name for name, text in sources.items() if FETCHES.search(text)] == ["instance.js"]
    assert {found for text in sources.values() for found in ADDRESS.findall(text)} <= KNOWN
    in_pages = [sources[name] for script in manifest["content_scripts"] for name in script["js"]]
    assert not any("storage" in text or "token" in text.replace("no token", "") for text in in_pages)
