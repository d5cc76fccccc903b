"""Compares what two versions of the code do: `make behaviour BEFORE=COMMIT DIR=RECORDING` prints the differences.

Both versions run here, one after the other: the digest of the recorded history, the demo's story, the OpenAPI document
and the HTML of every page that links lead to. The pages of both answer from one drive, filled by the demo of the
version before, to a visitor and to the demo's maintainer. What differs between two runs of one version (tokens, the
hashes in names of static files) is masked.
"""

import difflib
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.http import HttpResponse

PROJECT = Path(__file__).resolve().parent.parent
MOST_PAGES = 400  # of each visitor
ADMIN = "did:plc:" + "2" * 24
MASKS = (
    (r'(csrfmiddlewaretoken"? value="|X-CSRFToken(?:&quot;|")[: ]+(?:&quot;|"))[\w-]+', r"\1"),
    (r"(static/[\w./-]+?)\.[0-9a-f]{12}\.", r"\1."),
    (r"\d+(\.\d+)? ?s\b|\"seconds\": [\d.]+", "(seconds)"),
)


def compare(before: str, recording: str) -> int:
    """Print a diff of every answer that differs; returns how many do."""
    with tempfile.TemporaryDirectory(prefix="sunstead-behaviour-") as folder:
        scratch = Path(folder)
        tree = scratch / "before"
        _run(["git", "worktree", "add", "--quiet", "--detach", str(tree), before], PROJECT)
        try:
            then = _answers(tree, scratch, recording)
            now = _answers(PROJECT, scratch, recording)
        finally:
            _run(["git", "worktree", "remove", "--force", str(tree)], PROJECT)
    different = [name for name in sorted(then | now) if then.get(name) != now.get(name)]
    for name in different:
        sys.stdout.writelines(_difference(name, then.get(name, ""), now.get(name, "")))
    print(f"{len(different)} of {len(then | now)} answers differ", file=sys.stderr)  # noqa: T201
    return len(different)


def _answers(tree: Path, scratch: Path, recording: str) -> dict[str, str]:
    """Return every answer of the code in `tree` by its name; the first tree leaves the drive that both show."""
    own, shared = scratch / f"{tree.name}-drive", scratch / "drive"
    own.mkdir()
    _manage(tree, own, "init_drive")
    story = _manage(tree, own, "demo", "--check")
    if not shared.exists():
        shutil.copytree(own, shared)
    answers = {"the demo's story": story, "the OpenAPI document": (tree / "docs" / "openapi.json").read_text()}
    answers["the replay"] = _manage(tree, own, "replay", recording)
    answers["its digest"] = _manage(tree, own, "digest", "--replay", recording)
    pages, copy = scratch / f"{tree.name}-pages", scratch / f"{tree.name}-copy"
    pages.mkdir()
    shutil.copytree(shared, copy)
    _run([sys.executable, "-P", __file__, "pages", str(pages)], tree, copy)
    answers |= {page.name.replace("|", "/"): page.read_text() for page in pages.iterdir()}
    return {name: _masked(text) for name, text in answers.items()}


def _manage(tree: Path, drive: Path, *arguments: str) -> str:
    return _run([sys.executable, str(tree / "manage.py"), *arguments], tree, drive)


def _run(command: list[str], folder: Path, drive: Path | None = None) -> str:
    """Return the standard output; SystemExit with the standard error where the command fails."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment |= {"PYTHONPATH": str(folder), **({"DATA_ROOT": str(drive)} if drive else {})}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed in {folder}:\n{done.stderr}")
    return done.stdout


def _masked(text: str) -> str:
    for pattern, instead in MASKS:
        text = re.sub(pattern, instead, text)
    return text


def _difference(name: str, then: str, now: str) -> Iterator[str]:
    lines = [text.splitlines(keepends=True) for text in (then, now)]
    yield from difflib.unified_diff(*lines, fromfile=f"before: {name}", tofile=f"after: {name}", n=1)


def write_pages(folder: Path) -> None:
    """Write every page that links lead to from the inbox of the demo on DATA_ROOT, as a visitor and an admin see it.

    Runs with the code of the working directory.
    """
    sys.argv = ["manage.py", "demo"]  # whose state is read
    os.environ["DJANGO_SETTINGS_MODULE"] = "trustsite.settings"
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    from triage.models import Maintainer, Person

    settings.ALLOWED_HOSTS, settings.STREAM_CLOCK = ["testserver"], True
    call_command("migrate", verbosity=0, interactive=False)
    person, _ = Person.objects.get_or_create(did=ADMIN)
    Maintainer.objects.get_or_create(person=person, role="admin")
    visitor, admin = Client(), Client()
    admin.force_login(person)
    for name, client in (("visitor", visitor), ("admin", admin)):
        for address, text in _linked_pages(client.get):
            (folder / f"{name} {address.replace('/', '|')}"[:200]).write_text(text)


def _linked_pages(get: Callable[[str], "HttpResponse"]) -> Iterator[tuple[str, str]]:
    waiting, seen = ["/"], {"/"}
    while waiting and len(seen) <= MOST_PAGES:
        address = waiting.pop(0)
        answer = get(address)
        if answer.streaming or not answer["Content-Type"].startswith("text/html"):
            continue
        text = answer.content.decode()
        yield f"{answer.status_code} {address}", text
        for found in re.findall(r'href="(/[^"#]*)', text):
            link = html.unescape(found)
            if link not in seen and not link.startswith(("/static/", "/sign-out")):
                seen.add(link)
                waiting.append(link)


if __name__ == "__main__":
    if sys.argv[1] == "pages":
        write_pages(Path(sys.argv[2]))
    else:
        sys.exit(compare(sys.argv[1], str(Path(sys.argv[2]).resolve())) > 0)
