"""The data server of an account whose app password this site was given, for sites that no authorization server reaches.

Such a password opens the whole repository; a grant opens the collections that it names, so prefer that.
"""

import base64
import binascii
from contextlib import suppress
from typing import Annotated

import msgspec

from ingest.atproto.identity import read_identity
from ingest.errors import OAuthRefused
from ingest.http.fetcher import Exchanged, Fetcher
from ingest.json_decoding import decode_json
from ingest.oauth.dpop import ANSWER_LIMIT, Token, decode_answer, read_error
from ingest.oauth.resource import DataServer

WHOLE_ACCOUNT = "com.atproto.access"  # the scope of a token that the account's own password gave


class _Opened(msgspec.Struct):
    did: str
    accessJwt: Token  # noqa: N815 - the field's name on the network
    handle: Annotated[str, msgspec.Meta(max_length=253)] = ""
    active: bool = True


class _Claims(msgspec.Struct):
    scope: str = ""


class PasswordServer(DataServer):
    """Acts with an access token that the app password gives, and asks for another once that one has expired.

    The password is sent to the data server that the account's identity document names now, and nowhere else.
    """

    def __init__(self, fetcher: Fetcher, plc_url: str, did: str, password: str) -> None:
        """Look up the account's data server. Raises FetchProblem."""
        identity = read_identity(fetcher, plc_url, did)
        if identity.pds is None:
            raise OAuthRefused(f"{did} has no data server", ended=True)
        super().__init__(fetcher, did, identity.pds)
        self._password, self._token, self.handle = password, "", ""

    def sign_in(self) -> None:
        """Ask for an access token. Raises OAuthRefused for a wrong password, and for the account's own one."""
        said = msgspec.json.encode({"identifier": self.did, "password": self._password})
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        url = f"{self.pds}/xrpc/com.atproto.server.createSession"
        answer = self.fetcher.exchange("POST", url, headers, said, ANSWER_LIMIT)
        error = read_error(answer)
        if answer.status == 401 and error in ("AuthenticationRequired", "AuthFactorTokenRequired"):
            raise OAuthRefused(f"{self.host} does not take this app password", status=401, ended=True, error=error)
        if answer.status != 200:
            self._refuse(answer)
        opened = decode_answer(self.host, answer, _Opened)
        if opened.did != self.did:
            raise OAuthRefused(f"{self.host} answered for another account", ended=True)
        if _scope_of(opened.accessJwt) == WHOLE_ACCOUNT:
            raise OAuthRefused("this is the account's own password; make an app password for this site", ended=True)
        self._token, self.handle = opened.accessJwt, opened.handle

    def _send(self, method: str, url: str, body: bytes | None) -> Exchanged:
        if not self._token:
            self.sign_in()
        answer = self._send_once(method, url, body)
        if answer.status in (400, 401) and read_error(answer) in ("ExpiredToken", "InvalidToken"):
            self.sign_in()
            return self._send_once(method, url, body)
        return answer

    def _send_once(self, method: str, url: str, body: bytes | None) -> Exchanged:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        return self.fetcher.exchange(method, url, headers, body, ANSWER_LIMIT)


def _scope_of(token: str) -> str:
    """Return the scope that a token claims, "" for one that cannot be read: it is not checked here, only looked at."""
    part = [*token.split("."), "", ""][1]
    with suppress(binascii.Error, msgspec.MsgspecError, ValueError):
        return decode_json(base64.urlsafe_b64decode(f"{part}=="), _Claims).scope
    return ""
