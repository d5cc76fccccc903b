"""Bring the service account's repository to the rows of `PublishedRecord`, within what its data server allows.

Each write names the CID that it replaces, so sending again after a kill or a lost answer writes nothing twice. What a
server answered is not believed where an answer was lost: then, and at each start of the worker, the repository is
listed and compared with the rows. Deletions go first: an erasure is not complete before them.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Case, F, QuerySet, Sum, Value, When

from ingest.clock import parse_time
from ingest.errors import FetchProblem, OAuthRefused
from ingest.http.fetcher import end_within
from ingest.oauth.dpop import DpopSender
from ingest.oauth.resource import DataServer, Repository, StoredRecord
from ingest.oauth.scopes import DEFINITION, published_collections
from triage.access.oauth.keys import KeyProblem
from triage.access.oauth.sessions import SessionEnded
from triage.models import PublishedRecord, PublishingPoints, ServiceAccount
from triage.services.publishing.records import LANE_LABEL_KEY, service_account
from triage.services.publishing.service_account import open_server

CREATE, UPDATE, DELETE = 3, 2, 1  # points, as data servers count them
HOUR, DAY = 5_000, 35_000  # points that they allow
FOR_DELETIONS = 500  # of an hour's points, and ten times as many of a day's, so that news never delay an erasure
AT_ONCE = 500
RUN_SECONDS = 30.0
COMPARE_SECONDS = 600.0  # 100,000 records take some 100 s
LONGEST_KEY, LONGEST_CID = 512, 200  # characters; the protocol has no longer keys
FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=30), timedelta(hours=1)
GONE = ("AccountTakedown", "AccountDeactivated", "AccountSuspended", "RepoTakendown", "RepoDeactivated")
ENDED = "The grant of the service account has ended, or the account moved. Connect it again; nothing is lost."
NO_KEY = (
    "This site cannot prove itself to the service account's server: see its keys with `manage.py oauth_key --list`."
)
FOREIGN = "Another program writes with the service account: what it wrote is replaced. Change its app passwords."
SPENT = "The points of this hour are spent. The rest is sent as they come back."
log = logging.getLogger(__name__)


class Publisher:
    """Sends what waits. One lives as long as the worker; the first thing that it does is to compare."""

    def __init__(self, sender: DpopSender, clock: Callable[[], datetime]) -> None:
        self._sender, self._clock = sender, clock
        self._compared: object = None  # id of the connection whose repository was compared
        self._server: DataServer | None = None

    def send_waiting(self) -> int:
        """Send what waits, as far as the server allows now; return how many records were written or deleted."""
        account, now = service_account(), self._clock()
        if account is None or (account.paused_until and now < account.paused_until):
            return 0
        if self._compared == account.pk and not _due(now).exists():
            return 0
        try:
            return self._send(account)
        except SessionEnded:
            self._pause(account, ENDED, LONGEST_WAIT)
        except KeyProblem as problem:
            log.error("nothing can be published: %s", problem)
            self._pause(account, NO_KEY)
        except FetchProblem as problem:
            self._explain(account, problem)
        return 0

    def _send(self, account: ServiceAccount) -> int:
        self._server = self._server if self._server and self._server.did == account.did else None
        server = self._server = open_server(account, self._sender, self._server)
        try:
            return self._send_by(account, server)
        except OAuthRefused as problem:
            if not problem.stale:
                raise
        self._server = server = open_server(account, self._sender, server, renew=True)
        return self._send_by(account, server)

    def _send_by(self, account: ServiceAccount, server: DataServer) -> int:
        note = ""
        if self._compared != account.pk:
            with end_within(COMPARE_SECONDS):
                note = compare(server, self._clock())
            self._compared = account.pk
        sent, ends = 0, time.monotonic() + RUN_SECONDS
        for number in list(_due(self._clock()).values_list("pk", flat=True)[:AT_ONCE]):
            # Read at the last moment: somebody may have been erased since the run began.
            row = PublishedRecord.objects.filter(pk=number, waits=True).first()
            if row is None:
                continue
            if time.monotonic() > ends:
                break
            if not spend_points(_cost(row), self._clock()):
                note = SPENT
                break
            try:
                note = self._send_row(row, server) or note
                sent += 1
            except OAuthRefused as problem:
                if _is_about_account(problem, row.collection):
                    raise
                _put_off(row, problem, self._clock())
        ServiceAccount.objects.filter(pk=account.pk).update(failures=0, paused_until=None, problem=note)
        return sent

    def _send_row(self, row: PublishedRecord, server: DataServer) -> str:
        """Write or delete one record; return a note for the operator, "" for none. Raises FetchProblem."""
        try:
            cid = _write(row, server)
        except OAuthRefused as problem:
            if not problem.moved_on:
                raise
            stored = server.read_record(row.collection, row.rkey)
            if is_as_wanted(row, stored):  # an earlier try arrived whose answer was lost
                _settle(row, stored.cid if stored else "", self._clock())
                return ""
            row.cid = stored.cid if stored else ""
            _settle(row, _write(row, server), self._clock())
            return FOREIGN
        _settle(row, cid, self._clock())
        return ""

    def _explain(self, account: ServiceAccount, problem: FetchProblem) -> None:
        """Pause, with one sentence on what went wrong; where an answer was lost, compare before the next try."""
        host = account.server.removeprefix("https://")
        if problem.retry and problem.status != 429:
            self._compared = None
        is_gone, self._server = self._is_gone(problem), None  # it is looked up anew: the account may have moved
        if is_gone:
            words = f"The service account is taken down or deactivated at {host}. Nothing is sent until it is back."
            self._pause(account, words, LONGEST_WAIT)
        elif getattr(problem, "missing_scope", ""):
            words = "The service account does not allow its collections. Connect it again and allow both."
            self._pause(account, words, LONGEST_WAIT)
        elif getattr(problem, "ended", False):
            self._pause(account, f"{str(problem)[:1].upper()}{str(problem)[1:]}. Connect the service account again.")
        elif problem.status == 429:
            wait = timedelta(seconds=problem.after) if problem.after else timedelta(minutes=5)
            self._pause(account, f"{host} asks to wait. The newest state of each record is sent then.", wait)
        else:
            self._pause(account, f"{host} cannot take records just now ({problem}). Sending is tried again by itself.")

    def _is_gone(self, problem: FetchProblem) -> bool:
        """Return whether the account is not active; a data server names many reasons for what it then refuses."""
        if getattr(problem, "error", "") in GONE:
            return True
        if self._server is None or problem.status not in (400, 401, 403, 404):
            return False
        try:
            return not self._server.get_session().active
        except FetchProblem as other:
            return getattr(other, "error", "") in GONE

    def _pause(self, account: ServiceAccount, words: str, wait: timedelta | None = None) -> None:
        wait = wait or min(FIRST_WAIT * 2 ** min(account.failures, 10), LONGEST_WAIT)
        paused = {"problem": words[:500], "paused_until": self._clock() + wait, "failures": F("failures") + 1}
        ServiceAccount.objects.filter(pk=account.pk).update(**paused)
        log.warning("nothing is published for now: %s", words)


def compare(server: DataServer, now: datetime) -> str:
    """Set each row to what the repository holds; what no row knows is deleted. Returns a note. Raises FetchProblem."""
    named = PublishedRecord.objects.values_list("collection", flat=True)
    collections = {*published_collections(settings.LEXICON_AUTHORITY), *named}
    stray = sum(_compare_collection(server, collection, now) for collection in sorted(collections))
    return f"Unknown records stood in this site's collections and are deleted: {stray:,}." if stray else ""


def _compare_collection(server: DataServer, collection: str, now: datetime) -> int:
    """Compare one collection as it is listed; return how many records no row knew. Raises FetchProblem."""
    rows = {row.rkey: row for row in PublishedRecord.objects.filter(collection=collection)}
    missing, unknown, stray = dict(rows), dict[str, str](), 0
    for rkey, stored in list_published(server, collection):
        if row := missing.pop(rkey, None):
            _note_stored(row, stored, now)
        elif rkey not in rows and len(rkey) <= LONGEST_KEY and len(stored.cid) <= LONGEST_CID:
            unknown[rkey] = stored.cid
        if len(unknown) >= AT_ONCE:  # a server may list without an end what it likes
            stray += _have_deleted(collection, unknown, now)
            unknown.clear()
    for row in missing.values():
        _note_stored(row, None, now)
    return stray + _have_deleted(collection, unknown, now)


def list_published(server: Repository, collection: str) -> Iterator[tuple[str, StoredRecord]]:
    """Yield the records of a collection by key, of Tangled's definitions only this site's. Raises FetchProblem."""
    for stored in server.list_records(collection):
        rkey = stored.uri.rpartition("/")[2]
        if collection != DEFINITION or rkey == LANE_LABEL_KEY:
            yield rkey, stored


def _have_deleted(collection: str, unknown: Mapping[str, str], now: datetime) -> int:
    """Write down records, by key with their CID, that are to be deleted; return how many."""
    fields = {"collection": collection, "waits": True, "changed_at": now, "due_at": now}
    rows = [PublishedRecord(rkey=rkey, cid=cid, **fields) for rkey, cid in unknown.items()]
    PublishedRecord.objects.bulk_create(rows, ignore_conflicts=True)  # a server may list one again
    return len(rows)


def _note_stored(row: PublishedRecord, stored: StoredRecord | None, now: datetime) -> None:
    """Note what the repository holds of a row, unless the row was changed meanwhile."""
    same = PublishedRecord.objects.filter(pk=row.pk, changed_at=row.changed_at)
    if stored is not None and _is_adopted(row, stored):
        row.record = {name: value for name, value in stored.value.items() if name != "$type"}
        same.update(record=row.record)
    waits, cid = not is_as_wanted(row, stored), stored.cid if stored else ""
    if stored is None and row.record is None:
        same.delete()
    elif (row.waits, row.cid) != (waits, cid):
        same.update(waits=waits, cid=cid, due_at=now)


def _is_adopted(row: PublishedRecord, stored: StoredRecord) -> bool:
    """Return whether a row that was written down anew only lacks the time of the record that stands there.

    So rows that were lost, or that a backup does not know, have nothing written again.
    """
    if row.record is None or row.cid or parse_time(str(stored.value.get("createdAt"))) is None:
        return False
    return {**stored.value, "createdAt": ""} == {"$type": row.collection, **row.record, "createdAt": ""}


def is_as_wanted(row: PublishedRecord, stored: StoredRecord | None) -> bool:
    """Return whether the repository holds what the row says."""
    if stored is None or row.record is None:
        return stored is None and row.record is None
    return stored.value == {"$type": row.collection, **row.record}


def spend_points(cost: int, now: datetime) -> bool:
    """Count the points before they are spent, so that a kill never makes it more than allowed; False: too many."""
    minute = now.replace(second=0, microsecond=0)
    kept = 0 if cost == DELETE else FOR_DELETIONS
    in_hour, in_day = points_spent(now, timedelta(hours=1)) + cost, points_spent(now, timedelta(days=1)) + cost
    if in_hour > HOUR - kept or in_day > DAY - 10 * kept:
        return False
    PublishingPoints.objects.filter(minute__lt=now - timedelta(days=2)).delete()
    PublishingPoints.objects.get_or_create(minute=minute, defaults={"points": 0})
    return bool(PublishingPoints.objects.filter(minute=minute).update(points=F("points") + cost))


def points_spent(now: datetime, span: timedelta) -> int:
    """Return the points of this span up to now; a minute that lies in it in part counts whole."""
    spent = PublishingPoints.objects.filter(minute__gt=now - span - timedelta(minutes=1))
    return spent.aggregate(sum=Sum("points"))["sum"] or 0


def _is_about_account(problem: OAuthRefused, collection: str) -> bool:
    """Return whether a refusal concerns everything that waits, and not one record alone.

    A new grant does not allow the collections of a former LEXICON_AUTHORITY: what is left there waits alone.
    """
    if problem.missing_scope and collection not in published_collections(settings.LEXICON_AUTHORITY):
        return False
    is_over = problem.stale or problem.ended or problem.error in GONE
    return is_over or bool(problem.missing_scope) or problem.retry or problem.status in (401, 403, 404)


def _due(now: datetime) -> QuerySet:
    """Return what is to be sent: deletions first, then the newest."""
    deletes_first = Case(When(record__isnull=True, then=Value(0)), default=Value(1))
    return PublishedRecord.objects.filter(waits=True, due_at__lte=now).order_by(deletes_first, "-changed_at", "pk")


def _cost(row: PublishedRecord) -> int:
    if row.record is None:
        return DELETE
    return UPDATE if row.cid else CREATE


def _write(row: PublishedRecord, server: DataServer) -> str:
    """Send one record; return the CID of what is there now, "" for nothing. Raises FetchProblem.

    Of a record that is to go and was never known to be there, the answer may have been lost: so it is looked for.
    """
    if row.record is not None:
        record: Mapping[str, Any] = row.record
        return server.put_record(row.collection, row.rkey, dict(record), row.cid or None).cid
    stored = None if row.cid else server.read_record(row.collection, row.rkey)
    if cid := stored.cid if stored else row.cid:
        server.delete_record(row.collection, row.rkey, cid)
    return ""


def _settle(row: PublishedRecord, cid: str, now: datetime) -> None:
    """Note what is there now. A state that was wanted meanwhile goes on waiting, with this one to be replaced."""
    same = PublishedRecord.objects.filter(pk=row.pk, changed_at=row.changed_at)
    if row.record is None:
        same.delete()
    else:
        same.update(waits=False, sent_at=now, problem="", tries=0)
    PublishedRecord.objects.filter(pk=row.pk).update(cid=cid)


def _put_off(row: PublishedRecord, problem: FetchProblem, now: datetime) -> None:
    """Try a record that the server refuses again later, while the others go on."""
    wait = min(FIRST_WAIT * 2 ** min(row.tries, 10), LONGEST_WAIT)
    fields = {"tries": F("tries") + 1, "problem": str(problem)[:500], "due_at": now + wait}
    PublishedRecord.objects.filter(pk=row.pk, changed_at=row.changed_at).update(**fields)
    log.warning("%s/%s is not published: %s", row.collection, row.rkey, problem)
