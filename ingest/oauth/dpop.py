"""Send requests that prove the possession of a key (RFC 9449), with the nonce that each server wants.

A server that wants another nonce says so once for each request; the request is then sent a second and last time.
Nonces are not secret and belong to a server, so that all sessions of a process share them.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Annotated, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
from joserfc.jwk import ECKey

from ingest.errors import OAuthRefused
from ingest.http.fetcher import Exchanged, Fetcher
from ingest.json_decoding import decode_json
from ingest.oauth.client import Client
from ingest.oauth.proofs import assert_client, prove_possession

ANSWER_LIMIT = 200_000  # bytes
SERVERS = 1_000  # whose nonces are held
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

T = TypeVar("T")
Token = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._~+/=:-]+$", max_length=8_000)]  # fit for a header

_NONCE = re.compile(r"[\x21-\x7e]{1,500}")
_ERROR = re.compile(r"[A-Za-z_]{1,60}")


class _Refusal(msgspec.Struct):
    error: str = ""


class DpopSender:
    """Sends requests by one fetcher. Safe to share between threads."""

    def __init__(self, fetcher: Fetcher) -> None:
        self.fetcher = fetcher
        self._lock = threading.Lock()
        self._nonces: OrderedDict[str, str] = OrderedDict()

    def post_form(self, client: Client, issuer: str, url: str, fields: Mapping[str, str], key: ECKey) -> Exchanged:
        """Post a form to the authorization server in the client's name. Raises FetchProblem."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        for is_last in (False, True):
            form = {**fields, "client_id": client.client_id}
            if client.key is not None:
                assertion = assert_client(client.key, client.client_id, issuer)
                form |= {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
            answer = self._send("POST", url, headers, urlencode(form).encode(), key)
            if is_last or not self._wants_nonce(answer):
                break
        return answer

    def ask(self, method: str, url: str, key: ECKey, access_token: str, body: bytes | None = None) -> Exchanged:
        """Send a request with an access token to the person's own data server. Raises FetchProblem."""
        headers = {"Authorization": f"DPoP {access_token}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        answer = self._send(method, url, headers, body, key, access_token)
        return self._send(method, url, headers, body, key, access_token) if self._wants_nonce(answer) else answer

    def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        key: ECKey,
        access_token: str = "",
    ) -> Exchanged:
        server = urlsplit(url).netloc
        with self._lock:
            nonce = self._nonces.get(server, "")
        proof = prove_possession(key, method, url, nonce, access_token)
        answer = self.fetcher.exchange(method, url, {**headers, "DPoP": proof}, body, ANSWER_LIMIT)
        if _NONCE.fullmatch(answer.headers["dpop-nonce"]):
            with self._lock:
                self._nonces[server] = answer.headers["dpop-nonce"]
                self._nonces.move_to_end(server)
                if len(self._nonces) > SERVERS:
                    self._nonces.popitem(last=False)
        return answer

    @staticmethod
    def _wants_nonce(answer: Exchanged) -> bool:
        if not _NONCE.fullmatch(answer.headers["dpop-nonce"]):
            return False
        return answer.status in (400, 401) and "use_dpop_nonce" in (read_error(answer), challenge_error(answer))


def read_error(answer: Exchanged) -> str:
    """Return the error's name in the body of a refusal, or "" if it has none that can be shown."""
    try:
        error = decode_json(answer.body, _Refusal).error
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return ""
    return error if _ERROR.fullmatch(error) else ""


def decode_answer(host: str, answer: Exchanged, shape: type[T]) -> T:
    """Return the JSON of an answer. Raises OAuthRefused."""
    try:
        return decode_json(answer.body, shape)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise OAuthRefused(f"{host} answered in a form that cannot be used; tell those who run it") from None


def challenge_error(answer: Exchanged) -> str:
    """Return the error's name in the header of a data server's refusal, or ""."""
    parts = re.search(r'\berror="([A-Za-z_]{1,60})"', answer.headers["www-authenticate"])
    return parts[1] if parts else ""
