"""Requests to an account's data server with what was granted: read the session, write, list and delete records.

Each request is sent once, and a second time only where the server wants another nonce. The access token goes to the
data server of its session and nowhere else.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

import msgspec

from ingest.errors import OAuthRefused
from ingest.http.fetcher import Exchanged, Fetcher
from ingest.oauth.dpop import DpopSender, Token, challenge_error, decode_answer, read_error
from ingest.oauth.flow import Grant
from ingest.oauth.proofs import load_key

LIST_LIMIT = 2_000_000  # bytes of a page of records
MOST_PAGES, PAGE = 2_000, 100

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


class _Listed(msgspec.Struct):
    records: list[StoredRecord]
    cursor: str | None = None


class _Session(msgspec.Struct):
    did: str
    handle: str = ""
    active: bool = True


class _ServiceToken(msgspec.Struct):
    token: Token


class _Refused(msgspec.Struct):
    message: str = ""


class Repository:
    """The repository of the account `did` at its data server `pds` (an origin): records are public."""

    def __init__(self, fetcher: Fetcher, did: str, pds: str) -> None:
        self.fetcher, self.did, self.pds = fetcher, did, pds

    @property
    def host(self) -> str:
        return self.pds.removeprefix("https://")

    def read_record(self, collection: str, rkey: str) -> StoredRecord | None:
        """Return a record of the person's own, or None if there is none. Records are public. Raises FetchProblem."""
        answer = self._read("getRecord", {"repo": self.did, "collection": collection, "rkey": rkey})
        if answer.status == 400 and read_error(answer) == "RecordNotFound":
            return None
        if answer.status != 200:
            self._refuse(answer)
        return decode_answer(self.host, answer, StoredRecord)

    def list_records(self, collection: str) -> Iterator[StoredRecord]:
        """Yield all records of a collection. Raises FetchProblem, also for more than MOST_PAGES pages."""
        cursor: str | None = ""
        for _ in range(MOST_PAGES):
            asked = {"repo": self.did, "collection": collection, "limit": str(PAGE)}
            answer = self._read("listRecords", asked | ({"cursor": cursor} if cursor else {}))
            if answer.status != 200:
                self._refuse(answer)
            page = decode_answer(self.host, answer, _Listed)
            yield from page.records[:PAGE]
            cursor = page.cursor
            if not cursor or not page.records:
                return
        raise OAuthRefused(f"{self.host} lists records without an end; tell those who run it")

    def _read(self, method: str, asked: dict[str, str]) -> Exchanged:
        url = f"{self.pds}/xrpc/com.atproto.repo.{method}?{urlencode(asked, quote_via=quote)}"
        return self.fetcher.exchange("GET", url, {"Accept": "application/json"}, limit=LIST_LIMIT)

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
        sentence = f"{self.host} refused ({error or f'status {status}'}); nothing was done"
        raise OAuthRefused(sentence, status=status, error=error)


class DataServer(Repository, ABC):
    """The account's data server, with a right to act for it."""

    def get_session(self) -> AccountState:
        """Return the state of the account. Raises FetchProblem."""
        session = decode_answer(self.host, self._ask("GET", "com.atproto.server.getSession"), _Session)
        if session.did != self.did:
            raise OAuthRefused(f"{self.host} answered for another account; sign in again", ended=True)
        return AccountState(session.handle, session.active)

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
        body = None if said is None else msgspec.json.encode(said)
        answer = self._send(method, f"{self.pds}/xrpc/{path}", body)
        if answer.status != 200:
            self._refuse(answer)
        return answer

    @abstractmethod
    def _send(self, method: str, url: str, body: bytes | None) -> Exchanged:
        """Send a request with the account's access token. Raises FetchProblem."""


class OwnServer(DataServer):
    """The data server of an account that granted this site a session."""

    def __init__(self, sender: DpopSender, grant: Grant) -> None:
        super().__init__(sender.fetcher, grant.did, grant.pds)
        self.sender, self.grant = sender, grant
        self._key = load_key(grant.key)

    def _send(self, method: str, url: str, body: bytes | None) -> Exchanged:
        return self.sender.ask(method, url, self._key, self.grant.access_token, body)
