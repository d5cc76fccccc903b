"""Somebody follows the pages word for word, from a fresh clone to a restored backup, behind both proxies of the pages.

The stream is a stand-in on loopback that tells of one repository.
"""

import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.conftest import with_environment
from tests.docs.box import Box
from tests.docs.pages import block_below, lines_of, rows_below, spans, text_of
from tests.docs.proxies import NAME, Browser, guess, proxy, take_a_form
from tests.docs.test_container import probe
from tests.ingest.stream.frames import Frames
from tests.triage.access.test_proxy import within_one_window
from tests.waiting import wait_for
from trustsite.standins.jetstream import Jetstream
from trustsite.standins.recording import make_recording

OPERATE, DEPLOY, FAULTS = "docs/operate.md", "docs/deploy.md", "docs/faults.md"
OWNER = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"  # who follows the pages, which say YOUR_HANDLE or YOUR_DID
PYTHON = '"$DATA_ROOT/venv/bin/python" manage.py'


def commands_below(page: str, heading: str) -> list[str]:
    """The commands of a section's first block that need nothing which a test has not."""
    return [line.command for line in lines_of(block_below(page, heading), page) if not line.is_marked]


def stream() -> Jetstream:
    """A stream on which one repository of the page's person will be told."""
    frames = Frames()
    frames.repository(OWNER)
    return Jetstream(make_recording([*frames], {}, (), ()), hold_after=0)


def settings_behind_a_proxy() -> str:
    """What the page has written into .env."""
    section = text_of(DEPLOY).split("## Behind a proxy with TLS\n", 1)[1]
    return section.split("```ini\n", 1)[1].split("```", 1)[0]


def test_the_page_explains_the_settings_that_it_sets() -> None:
    named = [line.partition("=")[0] for line in settings_behind_a_proxy().splitlines()]
    assert named == [spans(row[0])[0] for row in rows_below(DEPLOY, "Behind a proxy with TLS")]


def test_the_pages_lead_from_a_fresh_clone_to_a_repository_in_shadow_mode_behind_a_proxy_and_a_restored_backup(
    tmp_path: Path,
) -> None:
    with stream() as jetstream, ExitStack() as doors:
        box = Box(tmp_path, jetstream.url)
        ports = {}
        for name in ("nginx", "caddy"):
            (tmp_path / name).mkdir()
            ports[name] = doors.enter_context(proxy(name, tmp_path / name, box.port))
        *before, run = commands_below(OPERATE, "Your own box in five commands")
        assert len(before) == 4
        link = begin(box, before)
        site = Browser(ports["caddy"], "127.0.0.4")
        with box.running(run):
            assert site.ask("GET", link)[0].status == 200
            assert box.status("/queue") == 401
            look_at_the_doors(ports)
            look_at_the_probe(box)
            wait_for(lambda: jetstream.connections, what="the worker on the stream")
            jetstream.release(None)
            token = watch_the_first_repository(box, site)
            told = box.type(commands_below(FAULTS, "Backup and restore")[0])
        go_up_and_back(box)
        backup = box.root / "backups" / Path(told.partition(" holds the state")[0].splitlines()[-1]).name
        restored = restore_elsewhere(box, backup, tmp_path / "second")
        with box.running(restored, healthy=503):
            assert site.told(f"/score/{OWNER}", token)["did"] == OWNER
            assert site.told("/metrics", token)["watched"] == 1


def begin(box: Box, commands: list[str]) -> str:
    """The commands before the last, with the settings behind a proxy in .env; the path of the printed link."""
    box.type(commands[0])
    box.keep_state_in(box.root)
    (box.clone / ".env").write_text(settings_behind_a_proxy())
    said = [box.type(command.replace("YOUR_HANDLE", OWNER)) for command in commands[1:]]
    assert "is marked" in said[1]
    assert said[2].startswith(f"https://{NAME}/sign-in/")
    return said[2].strip().removeprefix(f"https://{NAME}")


def look_at_the_doors(ports: dict[str, int]) -> None:
    """Forms are taken over TLS through each proxy, and each visitor behind one has an address of their own."""
    for number, port in enumerate(ports.values(), start=2):
        address = f"127.0.0.{number}"
        take_a_form(Browser(port, address))
        within_one_window(lambda port=port, address=address: guess(port, address))


def look_at_the_probe(box: Box) -> None:
    """The health check of the image finds a real web process well."""
    environment = with_environment({"BIND": f"0.0.0.0:{box.port}", "ALLOWED_HOSTS": f"{NAME},127.0.0.1"})
    assert subprocess.run(probe(), env=environment, check=False).returncode == 0


def watch_the_first_repository(box: Box, site: Browser) -> str:
    """As the pages say, with the commands that need no network; the token, which reads scores."""
    (making,) = commands_below("docs/api.md", "Signing in")
    token = box.type(making.replace("YOUR_DID", OWNER)).strip()
    assert site.told("/queue", token)["total"] == 0
    wait_for(lambda: site.told("/metrics", token)["repositories"], what="the repository")
    box.type(f"{PYTHON} add_maintainer {OWNER} --repo at://{OWNER}/sh.tangled.repo/lantern")
    wait_for(lambda: site.told("/metrics", token)["watched"], what="a watched repository")
    assert "watching: the lane is shut" in box.type(f"{PYTHON} shadow_report")
    assert site.told(f"/score/{OWNER}", token)["did"] == OWNER
    return token


def go_up_and_back(box: Box) -> None:
    """Every line of upgrade and rollback but the start: state and code are those from before."""
    store, accounts = box.root / "duckdb" / "trust.duckdb", box.root / "web.sqlite3"
    was = store.read_bytes(), accounts.read_bytes()
    for command in commands_below(DEPLOY, "Upgrade"):
        if command == "make setup":
            box.take_new_code()
        if command != "make run":
            box.type(command)
    store.write_bytes(b"damaged")
    accounts.unlink()
    for command in commands_below(DEPLOY, "Rollback"):
        if command != "make run":
            box.type(command)
    assert (store.read_bytes(), accounts.read_bytes()) == was
    assert not (box.clone / "NEW").exists(), "the code is that from before, too"


def restore_elsewhere(box: Box, backup: Path, second: Path) -> str:
    """The backup on a second drive, by the page; the command that then starts it."""
    block = text_of(FAULTS).split("On another drive or machine", 1)[1].split("```sh\n", 1)[1].split("```", 1)[0]
    *before, run = [line.command for line in lines_of(block, FAULTS)]
    box.keep_state_in(second)
    said = [box.type(command.replace(" DIR", f" {backup}")) for command in before]
    assert "is restored" in said[-1]
    return run
