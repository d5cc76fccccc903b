"""Prove the assessments that peers wrote: each counts only as far as the peer's signed repository shows it.

The stream and listings only say that there is something to look at. A repository's revisions grow, so a proof that is
older than the event or than an earlier proof is a state that somebody replays, and shows nothing. Only assessments of
pull requests in watched repositories are asked for: of open ones, and of decided ones for some weeks, since a site that
publishes nothing of open ones tells its fast lane only then.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ingest.atproto.record_proof import ProofProblem
from ingest.atproto.syntax import PATTERN
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.engine import Due, Found, Kind, Note, Wall, fetch
from ingest.lookups.records import fetch_record
from ingest.records.assessment import Assessment, read_assessment
from ingest.records.fields import Unreadable
from ingest.store.database import Store
from ingest.store.transaction import Transaction

AGAIN = timedelta(hours=6)  # a withdrawn assessment that the stream missed is found within this time
DECIDED = timedelta(days=30)  # how long after its decision a pull request's assessments are still proven

# Due again at once if the record was rewritten since, unless the last look-up failed.
DUE = """
select a.uri as subject, a.record_cid, a.rev, c.did as payer, 0 as rank, a.learned_at as since,
  coalesce(f.attempts, 0) as attempts,
  (select max(n.proven_rev) from peer_assessments n where n.author_id = a.author_id) as newest_rev
from peer_assessments a join contributors c on c.contributor_id = a.author_id
semi join (
  from pull_requests semi join watched_repositories using (repository_id)
  where state = 'open' or state in ('merged', 'closed') and state_at > $decided
) p on p.pull_uri = a.subject_uri
left join fetches f on f.kind = 'peer_assessment' and f.subject = a.uri
where c.did in (select unnest($peers::varchar[])) and (f.subject is null or f.due_clock <= $wall
  or f.attempts = 0 and a.record_cid is distinct from a.checked_cid)
"""
# A change of one of these may change a decision.
JUDGEMENT = ("subject_cid", "patch_id", "decision", "reasons", "second_hand")
Row = Mapping[str, Any]
Answer = tuple[str, str, Assessment]  # CID and revision that were proven


class Withheld(Exception):
    """The repository does not show the assessment; the message is the reason."""


def fetch_peer_assessments(store: Store, fetcher: Fetcher, plc_url: str, now: datetime, wall: Wall) -> int:
    """Prove the assessments that are due; return how many. `now` is the present of decisions."""
    kind = Kind(
        "peer_assessment",
        Due(DUE, {"peers": sorted(store.registry.peers), "decided": now - DECIDED}),
        lambda row: _prove(fetcher, plc_url, row),
        lambda txn, results: _write(txn, results, now),
        lambda answer: Note(AGAIN, None if isinstance(answer, tuple) else str(answer)),
    )
    return fetch(store, fetcher, wall, kind)


def _prove(fetcher: Fetcher, plc_url: str, row: Row) -> Answer | Withheld:
    """Prove one assessment, or say why its repository does not show it. Raises FetchProblem."""
    did, collection, rkey = row["subject"].removeprefix("at://").split("/")
    try:
        proven = fetch_record(fetcher, plc_url, did, collection, rkey).proven
        if proven.record is None or proven.cid is None:
            return Withheld("its repository does not hold the record")
        known = max((rev for rev in (row["rev"], row["newest_rev"]) if rev and PATTERN.fullmatch(rev)), default="")
        if not PATTERN.fullmatch(proven.rev) or proven.rev < known:
            return Withheld("its repository was shown as it was before")
        return proven.cid, proven.rev, read_assessment(proven.record, rkey)
    except (ProofProblem, Unreadable) as problem:
        return Withheld(str(problem)[:300])


def _write(txn: Transaction, results: Sequence[Found[Answer | Withheld]], now: datetime) -> None:
    uris = [[result.row["subject"] for result in results]]
    stored = txn.rows("select * from peer_assessments where uri in (select unnest(?))", uris)
    before = {row["uri"]: row for row in stored}
    # A record that was deleted meanwhile has no row any more.
    pairs = [(before[uri], result) for result in results if (uri := result.row["subject"]) in before]
    rows = [row for previous, result in pairs if (row := _row(previous, result, now)) is not None]
    txn.upsert("peer_assessments", rows)
    if any(_judges_differently(before[str(row["uri"])], row) for row in rows):
        txn.inputs_changed()


def _row(previous: Row, result: Found[Answer | Withheld], now: datetime) -> dict[str, Any] | None:
    """Return the row after an answer; None if nobody answered, which proves nothing and disproves nothing."""
    answer = result.answer
    if isinstance(answer, FetchProblem):
        return None
    checked = {"checked_at": now, "checked_cid": result.row["record_cid"]}
    if isinstance(answer, Withheld):
        return {**previous, **checked, "proof": "refused", "reason": str(answer)}
    cid, rev, assessment = answer
    claims = {
        "subject_cid": assessment.subject_cid,
        "patch_id": assessment.patch_id,
        "decision": assessment.decision,
        "reasons": list(assessment.reasons),
        "second_hand": bool(assessment.uses),
        "evaluator": assessment.evaluator,
        "certificate": assessment.certificate,
    }
    stands = all(previous[name] == claims[name] for name in JUDGEMENT if name != "reasons")
    row = {**previous, **checked, **claims, "proof": "proven", "reason": None, "proven_rev": rev}
    # The stream may not have brought yet what the repository holds; an event that came meanwhile has its own turn.
    newest = {"record_cid": cid, "checked_cid": cid} if previous["record_cid"] == result.row["record_cid"] else {}
    return row | newest | {"since": previous["since"] if stands and previous["since"] else now}


def _judges_differently(previous: Row, row: Row) -> bool:
    counted = previous["proof"] == "proven" and previous["checked_cid"] == previous["record_cid"]
    counts = row["proof"] == "proven" and row["checked_cid"] == row["record_cid"]
    return counted != counts or (counts and any(previous[name] != row[name] for name in JUDGEMENT))
