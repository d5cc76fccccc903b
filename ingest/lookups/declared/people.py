"""Look up what a person declares of themselves: claims on accounts elsewhere, and links of their profile and document.

Their own repository also tells how many services they write records of; that is asked of its data server alone.

Only authors of open pull requests in watched repositories and people whose page somebody opens are looked up, each once
in seven days. Whoever declares nothing causes no request.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec

from ingest.atproto.record_proof import ProofProblem
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.declared.claims import check_claim
from ingest.lookups.declared.facts import (
    CLAIM,
    DOCUMENT,
    LINK,
    LOOK_UPS,
    REPOSITORY,
    Fact,
    Facts,
    note_facts,
    withdraw,
    write_facts,
)
from ingest.lookups.declared.links import check_link
from ingest.lookups.engine import Due, Found, Kind, Row, Wall, fetch
from ingest.store.database import Store
from ingest.store.transaction import Rows, Transaction

KIND = LOOK_UPS[LINK]
MOST = 5  # claims, and links each of profile and document: beyond it the newest count
DECLARING = f"""
select author_id as contributor_id from account_claims where deleted_at is null and status = 'verified'
union select author_id from profiles where deleted_at is null and links <> '[]'
union select contributor_id from contributors join signals on subject = did where source = '{DOCUMENT}'
"""
OFFERING = """
select author_id as contributor_id, max(seen_at) as since
from pull_requests semi join watched_repositories using (repository_id)
where state = 'open' and deleted_at is null group by author_id
"""
# What changed since the last look is due again after a day: rewriting a record may not spend what others may ask.
DUE = f"""
with declaring as ({DECLARING}), offering as ({OFFERING}), changed as (
  select author_id, max(changed_at) as changed_at from (
    select author_id, changed_at from account_claims where deleted_at is null
    union all select author_id, changed_at from profiles where deleted_at is null
  ) group by author_id
)
select c.did as subject, c.contributor_id, c.did as payer, if(f.outcome = 'wanted', 0, 1) as rank,
  coalesce(f.due_clock, o.since) as since, coalesce(f.attempts, 0) as attempts
from contributors c semi join declaring d using (contributor_id)
left join offering o using (contributor_id) left join changed n on n.author_id = c.contributor_id
left join fetches f on f.kind = '{KIND}' and f.subject = c.did
where c.account_status <> 'deleted' and (f.outcome = 'wanted' or o.contributor_id is not null and (
  f.subject is null or f.due_clock <= $wall
  or f.attempts = 0 and n.changed_at > f.fetched_clock and f.fetched_clock <= $wall - interval 1 day
))
"""
DECLARED = f"""
select c.did, if(c.handle_verified, lower(c.handle), null) as handle,
  (select list({{uri: uri, type: type, subject: subject, claim_uri: claim_uri}}
      order by changed_at desc, uri)[:{MOST}] from account_claims
    where author_id = c.contributor_id and deleted_at is null and status = 'verified') as claims,
  (select arg_max(links, (changed_at, uri)) from profiles
    where author_id = c.contributor_id and deleted_at is null) as links,
  (select list(key order by key)[:{MOST}] from signals where subject = c.did and source = '{DOCUMENT}') as named
from contributors c where c.did in (select unnest(?))
"""
_decode_links = msgspec.json.Decoder(list[str]).decode


@dataclass(frozen=True, slots=True)
class Signers:
    """The accounts whose signature on a claim counts, as DIDs, and the directory that knows their keys."""

    dids: Collection[str]
    plc_url: str


def fetch_declared(store: Store, fetcher: Fetcher, signers: Signers, now: datetime, wall: Wall) -> int:
    """Withdraw what is not declared any more, and check what is due; return how many facts and people that were."""

    def write(txn: Transaction, results: Sequence[Found[Facts]]) -> None:
        write_facts(txn, results, (CLAIM, LINK), now, wall())

    def ask(row: Row) -> Facts:
        return _check_all(fetcher, signers, row, now)

    kind = Kind(KIND, Due(DUE), ask, write, note_facts, _add_declared)
    return withdraw(store, signers.dids, wall()) + fetch(store, fetcher, wall, kind)


def _add_declared(rows: Rows, chosen: list[dict[str, Any]]) -> None:
    """Add to each person what they declare."""
    stored = rows.rows(DECLARED, [[row["subject"] for row in chosen]]) if chosen else []
    by_did = {row["did"]: row for row in stored}
    for row in chosen:
        row |= by_did[row["subject"]]


def _check_all(fetcher: Fetcher, signers: Signers, row: Row, now: datetime) -> Facts:
    """Check each claim and link by itself; one that nobody answers about leaves the others as they are."""
    did = row["subject"]
    names = frozenset(name for name in (did.lower(), row["handle"]) if name)
    found: list[Fact] = []
    unanswered: set[str] = set()
    for claim in row["claims"] or () if signers.dids else ():
        try:
            found.append(check_claim(fetcher, signers.plc_url, signers.dids, did, claim, now))
        except ProofProblem:
            continue
        except FetchProblem as problem:
            _refuse_closed(problem)
            unanswered.add(claim["uri"])
    for address in dict.fromkeys([*_decode_links(row["links"] or "[]")[:MOST], *(row["named"] or ())]):
        try:
            found.append(check_link(fetcher, names, address))
        except FetchProblem as problem:
            _refuse_closed(problem)
            unanswered.add(address)
    return Facts(tuple({(fact.source, fact.key): fact for fact in found}.values()), frozenset(unanswered))


def _refuse_closed(problem: FetchProblem) -> None:
    if problem.closed:
        raise problem


FOOTPRINT = LOOK_UPS[REPOSITORY]
DESCRIPTION_LIMIT = 1_000_000  # bytes
WITH_SERVER = f"""
select contributor_id from contributors semi join ({DECLARING}) using (contributor_id)
where pds is not null and account_status <> 'deleted'
"""
DUE_FOOTPRINTS = f"""
with offering as ({OFFERING})
select c.did as subject, c.pds, c.did as payer, if(f.outcome = 'wanted', 0, 1) as rank,
  coalesce(f.due_clock, o.since) as since, coalesce(f.attempts, 0) as attempts
from contributors c semi join ({DECLARING}) using (contributor_id) left join offering o using (contributor_id)
left join fetches f on f.kind = '{FOOTPRINT}' and f.subject = c.did
where c.account_status <> 'deleted' and c.pds is not null
  and (f.outcome = 'wanted' or o.contributor_id is not null and (f.subject is null or f.due_clock <= $wall))
"""


UNDECLARED = f"""
from signals where source = '{REPOSITORY}' and subject not in (
  select did from contributors semi join ({DECLARING}) using (contributor_id)
)
"""


class _Description(msgspec.Struct):
    did: str
    collections: list[str]


def fetch_footprints(store: Store, fetcher: Fetcher, now: datetime, wall: Wall) -> int:
    """Ask people's data servers which services' records their repositories hold; return how many people that were.

    The facts of people who declare nothing any more are withdrawn, and count too.
    """

    def write(txn: Transaction, results: Sequence[Found[Facts]]) -> None:
        write_facts(txn, results, (REPOSITORY,), now, wall())

    kind = Kind(FOOTPRINT, Due(DUE_FOOTPRINTS), lambda row: _ask_footprint(fetcher, row), write, note_facts)
    return _withdraw_footprints(store) + fetch(store, fetcher, wall, kind)


def _withdraw_footprints(store: Store) -> int:
    with store.read() as rows:
        if not rows.value(f"select count(*) {UNDECLARED}"):
            return 0
    with store.write() as txn:
        return len(txn.rows(f"delete {UNDECLARED} returning subject"))


def _ask_footprint(fetcher: Fetcher, row: Row) -> Facts:
    """Count the authorities of a repository's collections. Source: com.atproto.repo.describeRepo."""
    did = row["subject"]
    address = f"{row['pds']}/xrpc/com.atproto.repo.describeRepo?repo={quote(did, safe='')}"
    description = fetcher.get_json(address, _Description, DESCRIPTION_LIMIT)
    if description.did != did:
        raise FetchProblem("the repository that was described is another one's")
    # Two labels name who runs a service: app.bsky has a dozen collections, and counts once.
    authorities = {".".join(name.split(".")[:2]) for name in description.collections}
    return Facts((Fact(REPOSITORY, "collections", str(len(authorities)), address),))
