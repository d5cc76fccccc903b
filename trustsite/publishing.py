"""Asks the network about the account as which this site publishes, for `manage.py service_account` and the doctor."""

from urllib.parse import quote, urlencode

from django.conf import settings
from django.db import connection

from ingest.atproto.identity import Identity, read_identity
from ingest.atproto.record_proof import prove_record
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.http.sockets import quoted
from ingest.oauth.dpop import DpopSender
from ingest.oauth.resource import Repository
from ingest.oauth.scopes import published_collections
from ingest.records.registry import DEFAULT_AUTHORITY, schema_host
from scoring.formatting import things
from triage.access.oauth.keys import KeyProblem
from triage.access.oauth.sessions import SessionEnded
from triage.models import PublishedRecord, ServiceAccount
from triage.services.publishing.publisher import list_published
from triage.services.publishing.records import service_account
from triage.services.publishing.service_account import open_server
from trustsite.doctor import Check, Patient

PROOF_BYTES = 1_000_000
TABLE = "triage_serviceaccount"  # the web process makes it when it starts


def look_at(account: ServiceAccount, sender: DpopSender) -> list[tuple[bool, str]]:
    """Ask the network about the account: whether each thing is in order, and one sentence on it. Changes nothing.

    Its DID leads to its server, the key in the directory proves a record, the right to write is alive, the operator's
    own domain leads to it, and what is listed there is what should be.
    """
    try:
        identity = read_identity(sender.fetcher, settings.PLC_URL, account.did)
    except FetchProblem as problem:
        return [(False, f"The account's DID does not resolve: {problem}.")]
    moved = identity.pds != account.server
    words = f"Its DID leads to {identity.pds or 'no server'}" + (", another one than before." if moved else ".")
    named = _look_at_name(account, sender.fetcher)
    return [(not moved, words), _look_at_right(account, sender), *named, *_look_at_records(account, sender, identity)]


def _look_at_right(account: ServiceAccount, sender: DpopSender) -> tuple[bool, str]:
    try:
        state = open_server(account, sender).get_session()
    except SessionEnded:
        return False, "The grant has ended: connect the account again."
    except (FetchProblem, KeyProblem) as problem:
        return False, f"Its right to write could not be tried: {problem}."
    return state.active, "It may be written to." if state.active else "It is deactivated at its own server."


def _look_at_name(account: ServiceAccount, fetcher: Fetcher) -> list[tuple[bool, str]]:
    """Look whether the operator's own domain leads others to the schemas in the account's repository."""
    if settings.LEXICON_AUTHORITY == DEFAULT_AUTHORITY:
        return []
    host, wanted = schema_host(settings.LEXICON_AUTHORITY), f"did={account.did}"
    try:
        found = [quoted(text) for text in fetcher.texts(host) if text.startswith("did=")]
    except FetchProblem as problem:
        return [(False, f"The schemas' domain could not be looked up: {problem}.")]
    if found == [wanted]:
        return [(True, f"{host} leads to its schemas.")]
    words = f"says {' and '.join(found[:3])}" if found else "has no TXT record of a DID"
    return [(False, f'{host} {words}: set "{wanted}" there, and nothing else, so that others find the schemas.')]


def _look_at_records(account: ServiceAccount, sender: DpopSender, identity: Identity) -> list[tuple[bool, str]]:
    rows = {(row.collection, row.rkey): row for row in PublishedRecord.objects.exclude(cid="")}
    reader = Repository(sender.fetcher, account.did, account.server)
    listed: dict[tuple[str, str], str] = {}
    try:
        for collection in {*published_collections(settings.LEXICON_AUTHORITY), *(name for name, _ in rows)}:
            listed |= {(collection, rkey): one.cid for rkey, one in list_published(reader, collection)}
        proven = _prove_one(sender, account, identity, next(iter(sorted(listed)), None))
    except FetchProblem as problem:
        return [(False, f"Its records could not be listed: {problem}.")]
    same = listed == {key: row.cid for key, row in rows.items()}
    words = f"It holds {things(len(listed), 'record')}, and this site knows of {len(rows):,}"
    return [(same, f"{words}{'.' if same else ': the worker mends that when it starts.'}"), *proven]


def _prove_one(
    sender: DpopSender, account: ServiceAccount, identity: Identity, key: tuple[str, str] | None
) -> list[tuple[bool, str]]:
    """Prove the first record by the key in the directory, as any reader does. Raises FetchProblem."""
    if key is None:
        return []
    query = urlencode({"did": account.did, "collection": key[0], "rkey": key[1]}, quote_via=quote)
    car = sender.fetcher.get(f"{account.server}/xrpc/com.atproto.sync.getRecord?{query}", PROOF_BYTES)
    try:
        prove_record(car, account.did, *key, identity.signing_key or "")
    except ValueError as problem:
        return [(False, f"The account's key in the directory does not prove its records: {problem}.")]
    return [(True, "The account's key in the directory proves its records.")]


def describe_refused() -> str:
    """Return a sentence on the records that the server refuses while it takes others, "" for none."""
    refused = PublishedRecord.objects.exclude(problem="").order_by("-changed_at")
    newest, count = refused.first(), things(refused.count(), "record")
    return f"The server refuses {count}, such as {newest.rkey}: {newest.problem}." if newest else ""


def publishing_check(fetcher: Fetcher, network: bool) -> Check:
    """Return the doctor's check of the service account: what the worker noted and, if asked, what the network says."""

    def check(patient: Patient) -> tuple[bool, str]:
        has_table = patient.places.accounts.exists() and TABLE in connection.introspection.table_names()
        if not has_table or (account := service_account()) is None:
            return True, "no service account is connected, so nothing is published"
        if problem := account.problem or describe_refused():
            return False, str(problem)
        found = look_at(account, DpopSender(fetcher)) if network else []
        wrong = [sentence for is_fine, sentence in found if not is_fine]
        name = account.handle or account.did
        return not wrong, " ".join(wrong) or " ".join([f"{name} publishes.", *(sentence for _, sentence in found)])

    return check
