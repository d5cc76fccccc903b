"""Requests to a person's own data server with what they granted: read the session, write and delete records.

Each request is sent once, and a second time only where the server wants another nonce. The access token goes to the
data server of its session and nowhere else.
"""

import re
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

import msgspec

from ingest.errors import OAuthRefused
from ingest.http.fetcher import Exchanged
from ingest.oauth.dpop import ANSWER_LIMIT, DpopSender, Token, challenge_error, decode_answer, read_error
from ingest.oauth.flow import Grant
from ingest.oauth.proofs import load_key

_MISSING_SCOPE = re.compile(r'Missing required scope "([\x21\x23-\x7e]{1,300})"')


@dataclass(frozen=True, slots=True)
class AccountState:
    """What the server says of the account. A deactivated one can still sign in."""

    handle: str
    active: bool


class Written(msgspec.Struct, frozen=True):
    """The address of a record, and the CID of what it holds now."""

    uri: str
    cid: str


class StoredRecord(msgspec.Struct, frozen=True):
    uri: str
    cid: str
    value: dict[str, Any]


class _Session(msgspec.Struct):
    did: str
    handle: str = ""
    active: bool = True


class _ServiceToken(msgspec.Struct):
    token: Token


class _Refused(msgspec.Struct):
    message: str = ""


class OwnServer:
    """The data server of a signed-in person, who acts through it."""

    def __init__(self, sender: DpopSender, grant: Grant) -> None:
        self.sender, self.grant = sender, grant
        self._key = load_key(grant.key)

    @property
    def did(self) -> str:
        return self.grant.did

    @property
    def host(self) -> str:
        return self.grant.pds.removeprefix("https://")

    def get_session(self) -> AccountState:
        """Return the state of the account. Raises FetchProblem."""
        session = decode_answer(self.host, self._ask("GET", "com.atproto.server.getSession"), _Session)
        if session.did != self.did:
            raise OAuthRefused(f"{self.host} answered for another account; sign in again", ended=True)
        return AccountState(session.handle, session.active)

    def read_record(self, collection: str, rkey: str) -> StoredRecord | None:
        """Return a record of the person's own, or None if there is none. Records are public. Raises FetchProblem."""
        query = urlencode({"repo": self.did, "collection": collection, "rkey": rkey}, quote_via=quote)
        url = f"{self.grant.pds}/xrpc/com.atproto.repo.getRecord?{query}"
        answer = self.sender.fetcher.exchange("GET", url, {"Accept": "application/json"}, limit=ANSWER_LIMIT)
        if answer.status == 400 and read_error(answer) == "RecordNotFound":
            return None
        if answer.status != 200:
            self._refuse(answer)
        return decode_answer(self.host, answer, StoredRecord)

    def create_record(self, collection: str, record: dict[str, Any], rkey: str | None = None) -> Written:
        """Write a new record. With a key of one's own it can be looked for after a lost answer. Raises FetchProblem."""
        said = {"collection": collection, "record": {"$type": collection, **record}}
        return self._write("createRecord", said | ({"rkey": rkey} if rkey else {}))

    def put_record(self, collection: str, rkey: str, record: dict[str, Any], replaces: str | None) -> Written:
        """Write the record of a key in place of the one with this CID, or of none.

        Raises FetchProblem, `moved_on` if another record is there by now.
        """
        said = {"collection": collection, "rkey": rkey, "record": {"$type": collection, **record}}
        return self._write("putRecord", said | {"swapRecord": replaces})

    def delete_record(self, collection: str, rkey: str, replaces: str) -> None:
        """Delete the record of a key that has this CID. Raises FetchProblem, `moved_on` if it has another by now."""
        said = {"repo": self.did, "collection": collection, "rkey": rkey, "swapRecord": replaces}
        self._ask("POST", "com.atproto.repo.deleteRecord", said)

    def service_token(self, audience: str, method: str) -> str:
        """Return a token of one minute for one method of one service; it is sent there only. Raises FetchProblem."""
        query = urlencode({"aud": audience, "lxm": method}, quote_via=quote)
        return decode_answer(
            self.host, self._ask("GET", f"com.atproto.server.getServiceAuth?{query}"), _ServiceToken
        ).token

    def _write(self, method: str, said: dict[str, Any]) -> Written:
        return decode_answer(
            self.host, self._ask("POST", f"com.atproto.repo.{method}", {"repo": self.did, **said}), Written
        )

    def _ask(self, method: str, path: str, said: dict[str, Any] | None = None) -> Exchanged:
        url = f"{self.grant.pds}/xrpc/{path}"
        body = None if said is None else msgspec.json.encode(said)
        answer = self.sender.ask(method, url, self._key, self.grant.access_token, body)
        if answer.status != 200:
            self._refuse(answer)
        return answer

    def _refuse(self, answer: Exchanged) -> NoReturn:
        """Raise the refusal for an answer, in words."""
        error, status = read_error(answer), answer.status
        if status == 401 and "invalid_token" in (error, challenge_error(answer)):
            raise OAuthRefused("your sign-in was renewed or has ended; try again", status=status, stale=True)
        if error == "ScopeMissingError":
            parts = _MISSING_SCOPE.search(decode_answer(self.host, answer, _Refused).message)
            scope = parts[1] if parts else "unknown"
            sentence = f"you have not allowed this here ({scope}); allow it at your own server"
            raise OAuthRefused(sentence, status=status, missing_scope=scope)
        if error == "InvalidSwap":
            raise OAuthRefused("the record changed meanwhile; look at it and try again", status=status, moved_on=True)
        raise OAuthRefused(f"{self.host} refused ({error or f'status {status}'}); nothing was done", status=status)
