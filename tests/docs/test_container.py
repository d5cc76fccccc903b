"""The container file, by its text and by its probe: no runtime for containers is needed to see what it promises."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from tests.conftest import with_environment
from tests.docs.pages import text_of
from tests.sources import PROJECT

# What the processes run from, and the licence.
PACKAGES = ("ingest", "scoring", "triage", "trustsite", "templates", "static")
BESIDE = ("manage.py", "requirements/base.txt", "LICENSE")
SECRET = re.compile(r"(?i)(api_key|secret|password|token)\w*\s*=")


def instructions() -> list[tuple[str, str]]:
    """Each instruction with its arguments, continued lines joined, comments gone."""
    text = re.sub(r"^#.*\n", "", text_of("Containerfile"), flags=re.MULTILINE).replace("\\\n", " ")
    return [
        (word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line.strip())
    ]


def arguments(word: str) -> list[str]:
    return [rest for found, rest in instructions() if found == word]


def let_in() -> list[str]:
    """The lines of .containerignore without its comments."""
    return [line for line in text_of(".containerignore").splitlines() if line and not line.startswith("#")]


def probe() -> list[str]:
    """The program of the health check, with this interpreter."""
    command = json.loads(arguments("HEALTHCHECK")[0].partition("CMD ")[2])
    assert command[0] == "python"
    return [sys.executable, *command[1:]]


@contextmanager
def answering(status: int) -> Generator[tuple[int, list[tuple[str, str]]]]:
    """A site that answers so: its port, and path and Host of what it was asked."""
    asked: list[tuple[str, str]] = []

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Host"]))
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_it_stands_on_the_python_that_the_project_asks_for() -> None:
    assert arguments("FROM") == ["docker.io/library/python:3.11-slim"]


def test_it_installs_the_pins_that_serve_and_no_others() -> None:
    installs = [rest for rest in arguments("RUN") if "pip install" in rest]
    assert len(installs) == 1
    assert installs[0].endswith("-r requirements/base.txt")
    order = [rest for _, rest in instructions()]
    assert order.index("requirements/base.txt requirements/base.txt") < order.index(installs[0]) < order.index(". .")


def test_it_runs_as_nobody_special_and_keeps_state_in_the_volume_alone() -> None:
    assert arguments("USER") == ["10001:10001"]
    order = [word for word, _ in instructions()]
    assert order.index("USER") < order.index("ENTRYPOINT")
    assert "RUN" not in order[order.index("USER") :]
    assert arguments("VOLUME") == ["/data"]
    assert "DATA_ROOT=/data" in arguments("ENV")[0]
    assert [*arguments("ENTRYPOINT"), *arguments("CMD")] == ['["python", "manage.py"]', '["web"]']


def test_the_volume_is_nobodys_home_since_no_drive_may_be_one() -> None:
    (home,) = re.findall(r"--home-dir (\S+)", " ".join(arguments("RUN")))
    assert home == "/nonexistent"
    assert "HOME" not in " ".join(arguments("ENV"))


def test_nothing_but_what_is_named_comes_into_an_image() -> None:
    everything, *named = let_in()
    assert everything == "*", "else a token, a key or a mailbox that lies in the clone comes into the image"
    wanted = {one for one in named if one.startswith("!")}
    assert wanted == {f"!{one}" for one in (*PACKAGES, *BESIDE)}
    assert set(named) - wanted == {"**/__pycache__", "**/*.token"}
    assert all((PROJECT / one.removeprefix("!")).exists() for one in wanted)
    assert SECRET.search(text_of("Containerfile")) is None


def test_what_the_container_file_copies_is_let_in() -> None:
    for source in (rest.split()[0] for rest in arguments("COPY")):
        assert (PROJECT / source).exists()
        assert source == "." or f"!{source}" in let_in()


def test_the_probe_fails_where_the_site_is_not_ready() -> None:
    with answering(503) as (port, asked):
        environment = with_environment({"BIND": f"0.0.0.0:{port}", "ALLOWED_HOSTS": "sunstead.example,127.0.0.1"})
        done = subprocess.run(probe(), env=environment, capture_output=True, check=False)
    assert done.returncode != 0
    assert asked == [("/health", "sunstead.example")], "asked by a name that ALLOWED_HOSTS has"


def test_the_image_is_built_in_the_format_that_keeps_the_health_check() -> None:
    (build,) = re.findall(r"^podman build .*?(?= +#)", text_of("docs/deploy.md"), re.MULTILINE)
    assert "--format docker" in build


def test_the_compose_example_uses_what_the_image_promises() -> None:
    import yaml

    text = text_of("docs/deploy.md").split("```yaml\n", 1)[1].split("```", 1)[0]
    services = yaml.safe_load(text)["services"]
    for half in (services["worker"], services["web"]):
        assert half["read_only"] is True
        assert half["tmpfs"] == ["/tmp"]
        assert half["volumes"] == ["sunstead:/data"]
    told = services["web"]["environment"]
    assert told["TRUSTED_PROXY"] == services["caddy"]["networks"]["inside"]["ipv4_address"]
    assert told["CSRF_TRUSTED_ORIGINS"] == f"https://{told['ALLOWED_HOSTS']}"
    assert services["worker"]["environment"] == told, "the worker writes links, and refuses what the web refuses"
