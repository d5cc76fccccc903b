"""A person at the real data server's own pages, without a browser: signs in, consents in whole or in part, or says no.

The requests are those of the server's own page (@atproto/oauth-provider 0.15); 0.5 of the data server takes `did`
where 0.4.217 takes `sub`.
"""

import http.client
import json
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.peers.network import PDS_HOST, PeerProblem, RealNetwork
from tests.waiting import LONG_SECONDS

PAGE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
SCRIPT = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "same-origin", "Sec-Fetch-Dest": "empty"}
PASSWORD = "correct horse"


class Visit:
    """One visit to the address that a sign-in leads to."""

    def __init__(self, network: RealNetwork, address: str) -> None:
        self._port, self._address = network.pds_port, address
        self._cookies: dict[str, str] = {}
        self._token = self._sub = ""
        parts = urlsplit(address)
        assert parts.netloc == PDS_HOST, f"the sign-in leads to {parts.netloc}"
        status, page = self._send("GET", f"{parts.path}?{parts.query}", PAGE)
        if status != 200:
            raise PeerProblem(f"the page of the sign-in: {status} {page[:300].decode(errors='replace')}")

    def sign_in(self, handle: str, password: str = PASSWORD) -> None:
        """Give the password on the server's page."""
        said = {"locale": "en", "username": handle, "password": password, "remember": False}
        told = self._call("sign-in", said)
        self._token, self._sub = told["ephemeralToken"], told["account"]["sub"]

    def consent(self, scope: str | None = None) -> dict[str, str]:
        """Agree, to this scope alone where one is given; returns the query of the callback."""
        told = self._call("consent", {"sub": self._sub} | ({} if scope is None else {"scope": scope}))
        return dict(parse_qsl(urlsplit(told["url"]).query))

    def reject(self) -> dict[str, str]:
        """Say no; returns the query of the callback."""
        return dict(parse_qsl(urlsplit(self._call("reject", {})["url"]).query))

    def _call(self, method: str, said: dict[str, Any]) -> dict[str, Any]:
        headers = SCRIPT | {
            "Origin": f"https://{PDS_HOST}",
            "Referer": self._address,
            "Content-Type": "application/json",
            "x-csrf-token": self._cookies["csrf-token"],
        }
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        status, told = self._send("POST", f"/@atproto/oauth-provider/~api/{method}", headers, json.dumps(said).encode())
        if status != 200:
            raise PeerProblem(f"{method}: {status} {told[:300].decode(errors='replace')}")
        return json.loads(told)

    def _send(self, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> tuple[int, bytes]:
        cookies = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=LONG_SECONDS)
        connection.request(method, path, body, {**headers, "Host": PDS_HOST} | ({"Cookie": cookies} if cookies else {}))
        answer = connection.getresponse()
        told = answer.read()
        for line in answer.headers.get_all("Set-Cookie") or []:
            self._cookies |= {name: morsel.value for name, morsel in SimpleCookie(line).items()}
        connection.close()
        return answer.status, told
