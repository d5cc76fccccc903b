"""Firefox without a window, driven by WebDriver BiDi over its own socket; no driver beside it is needed."""

import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.triage.overlay.browser import OVERLAY
from tests.triage.overlay.forge import NAME, Forge
from tests.waiting import LONG_SECONDS, wait_for

ADDON, HOST = "overlay@sunstead.org", "11111111-2222-4333-8444-555555555555"
LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
CHUNK = 64 * 1024
FLAGS = ("--headless", "--no-remote", "--remote-debugging-port=0", "--remote-allow-system-access")


def _preferences(proxy: int) -> Mapping[str, str | int | bool]:
    """All names lead to the forge or nowhere; a permission that a click asks for is given without a prompt."""
    return {
        "network.proxy.type": 1,
        "network.proxy.ssl": "127.0.0.1",
        "network.proxy.ssl_port": proxy,
        "network.proxy.no_proxies_on": "127.0.0.1",
        "network.captive-portal-service.enabled": False,
        "network.connectivity-service.enabled": False,
        "extensions.webextensions.uuids": json.dumps({ADDON: HOST}),
        "extensions.webextOptionalPermissionPrompts": False,
        "extensions.systemAddon.update.enabled": False,
        "app.update.enabled": False,
        "datareporting.policy.dataSubmissionEnabled": False,
        "browser.shell.checkDefaultBrowser": False,
    }


@contextmanager
def _proxy(forge: Forge) -> Generator[int]:
    """A proxy that lets connections to the forge's name through to it, and refuses all others; its port."""

    def serve(browser: socket.socket) -> None:
        with suppress(OSError), browser:
            asked = b""
            while b"\r\n\r\n" not in asked and (piece := browser.recv(CHUNK)):
                asked += piece
            if not asked.startswith(f"CONNECT {NAME}:443 ".encode()):
                return
            with socket.create_connection(("127.0.0.1", forge.port)) as site:
                browser.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=_copy, args=(site, browser), daemon=True)
                back.start()
                _copy(browser, site)
                back.join()

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, name="proxy", daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@dataclass
class Firefox:
    """A browser with one tab and the extension."""

    connection: ClientConnection
    tab: str = ""

    def __post_init__(self) -> None:
        self._numbers = count(1)

    def send(self, method: str, **parameters: object) -> Any:
        """One command; its result."""
        number = next(self._numbers)
        self.connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (told := json.loads(self.connection.recv(LONG_SECONDS))).get("id") != number:
            pass  # an event
        assert told["type"] == "success", told
        return told["result"]

    def open(self, address: str) -> None:
        """Load an address in the tab."""
        self.send("browsingContext.navigate", context=self.tab, url=address, wait="complete")

    def run(self, expression: str) -> Any:
        """The value of an expression in the page's own world, a text or a number."""
        told = self.send("script.evaluate", expression=expression, target={"context": self.tab}, awaitPromise=True)
        return told["result"].get("value")

    def run_within(self, selector: str, function: str) -> Any:
        """What a function gives of the shadow root of the first element that fits, a closed one too."""
        found = self.send(
            "browsingContext.locateNodes",
            context=self.tab,
            locator={"type": "css", "value": selector},
            serializationOptions={"includeShadowTree": "all"},
        )
        root = {"sharedId": found["nodes"][0]["value"]["shadowRoot"]["sharedId"]}
        target = {"context": self.tab}
        told = self.send(
            "script.callFunction", functionDeclaration=function, arguments=[root], target=target, awaitPromise=False
        )
        return told["result"].get("value")

    def click(self, selector: str) -> None:
        """Press a button as a person does, which alone may ask for permissions."""
        place = "(box => [box.x + box.width / 2, box.y + box.height / 2].map(Math.round).join(' '))"
        x, y = map(int, self.run(f"{place}(document.querySelector('{selector}').getBoundingClientRect())").split())
        press = ({"type": f"pointer{way}", "button": 0} for way in ("Down", "Up"))
        hand = {"type": "pointer", "id": "hand", "actions": [{"type": "pointerMove", "x": x, "y": y}, *press]}
        self.send("input.performActions", context=self.tab, actions=[hand])


@contextmanager
def running(program: str, folder: Path, forge: Forge) -> Generator[Firefox]:
    """Firefox with the extension, as a temporary add-on, and the forge behind its name."""
    profile = folder / "profile"
    profile.mkdir(parents=True)
    with _proxy(forge) as port:
        lines = (f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in _preferences(port).items())
        (profile / "user.js").write_text("".join(lines))
        log = folder / "firefox.log"
        with log.open("w") as out:
            child = subprocess.Popen(
                [program, *FLAGS, "--profile", profile, "about:blank"],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "HOME": str(folder), "MOZ_CRASHREPORTER_DISABLE": "1"},
            )
        try:
            wait_for(lambda: LISTENING.search(log.read_text()) or child.poll() is not None, what="Firefox")
            found = LISTENING.search(log.read_text())
            assert found is not None, log.read_text()
            with connect(f"{found[1]}/session", max_size=None, open_timeout=LONG_SECONDS) as connection:
                firefox = Firefox(connection)
                firefox.send("session.new", capabilities={"alwaysMatch": {"acceptInsecureCerts": True}})
                firefox.send("webExtension.install", extensionData={"type": "path", "path": str(OVERLAY)})
                firefox.tab = firefox.send("browsingContext.getTree")["contexts"][0]["context"]
                yield firefox
        finally:
            child.kill()
            child.wait()
