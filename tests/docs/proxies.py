"""The two files for proxies in docs/deploy.md, run as they stand but for ports and certificates.

Without nginx or Caddy the test skips; with REQUIRE_PROXIES=1 it fails.
"""

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.certificates import write_certificate
from tests.conftest import with_environment
from tests.docs.pages import text_of
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, wait_for
from triage.access.throttle import LIMIT

NAME = "sunstead.example"
NGINX = """daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; events {{}}
http {{ access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
{block} }}
"""
CADDY = """{{
admin off
auto_https disable_redirects
local_certs
skip_install_trust
https_port {port}
}}
{block}
"""


class Browser:
    """Asks over TLS for the site by its name, from one address of this machine."""

    def __init__(self, port: int, address: str) -> None:
        self._port, self._address = port, address
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> tuple[HTTPResponse, str]:
        """The answer with its body."""
        plain = socket.create_connection(("127.0.0.1", self._port), LONG_SECONDS, (self._address, 0))
        connection = HTTPSConnection(NAME, self._port, timeout=LONG_SECONDS)
        connection.sock = self._context.wrap_socket(plain, server_hostname=NAME)
        connection.request(method, path, body, {"Host": NAME, **headers})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text

    def told(self, path: str, token: str) -> dict[str, Any]:
        """The JSON that whoever has the token is answered."""
        answer, text = self.ask("GET", path, Accept="application/json", Authorization=f"Bearer {token}")
        assert answer.status == 200, text
        return json.loads(text)


def example(language: str) -> str:
    """The one block in this language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", text_of("docs/deploy.md"), re.DOTALL)
    return found


def program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None and os.environ.get("REQUIRE_PROXIES") == "1":
        pytest.fail(f"REQUIRE_PROXIES=1, but there is no {name}")
    return found or pytest.skip(f"{name} is not on the PATH")


@contextmanager
def proxy(name: str, folder: Path, site: int) -> Generator[int]:
    """The port of the proxy with its file, once it listens."""
    port = free_port()
    (folder / "file").write_text(nginx(folder, site, port) if name == "nginx" else caddy(site, port))
    options = ["-c", str(folder / "file"), "-p", str(folder)]
    command = [
        program(name),
        *(options if name == "nginx" else ["run", "--adapter", "caddyfile", "--config", options[1]]),
    ]
    environment = with_environment({"HOME": folder, "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder})
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait_for(lambda: process.poll() is not None or listens(port), what=name)
        assert process.poll() is None, process.communicate()[0]
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=LONG_SECONDS)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def nginx(folder: Path, site: int, port: int) -> str:
    """The page's file with a certificate and ports of the test's own."""
    write_certificate(folder / "fullchain.pem", folder / "privkey.pem", NAME)
    block = example("nginx").replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl").replace(":8000", f":{site}")
    block = re.sub(r"/etc/letsencrypt/live/sunstead\.example/", f"{folder}/", block)
    return NGINX.format(folder=folder, block=block)


def caddy(site: int, port: int) -> str:
    """The page's file with a certificate of Caddy's own and ports of the test's."""
    return CADDY.format(port=port, block=example("text").replace(":8000", f":{site}"))


def take_a_form(browser: Browser) -> None:
    """The page to sign in comes over TLS with safe cookies, and its form is taken back."""
    page, text = browser.ask("GET", "/sign-in")
    assert page.status == 200
    assert page.headers["Strict-Transport-Security"] == "max-age=31536000"
    cookies = page.headers.get_all("Set-Cookie") or []
    assert cookies
    assert all("; Secure" in one for one in cookies)
    (form,) = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', text))
    body = urlencode({"csrfmiddlewaretoken": form, "link": "made-up"})
    sent = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"https://{NAME}"}
    answer, said = browser.ask("POST", "/sign-in", body, Cookie=cookies[0].partition(";")[0], **sent)
    assert answer.status == 403
    assert "not one of ours" in said, "the form was taken, and its link refused"


def guess(port: int, address: str) -> None:
    """Whatever address a visitor claims, theirs is counted, and nobody else's."""
    browser, link = Browser(port, address), "/sign-in/made-up"
    claims = [{"X-Forwarded-For": f"203.0.113.{number}"} for number in range(LIMIT + 1)]
    assert [browser.ask("GET", link, **claim)[0].status for claim in claims][-1] == 429
    assert Browser(port, "127.0.0.9").ask("GET", link)[0].status == 403
