"""Everything that is shown about one contributor, read from a snapshot."""

import json
from collections.abc import Iterator
from typing import Any

from ingest.transaction import Rows
from scoring.answers import ContributorPage, ContributorScore, HistoryPoint, Signal, VouchLine
from scoring.circle import CIRCLE, circle_of
from scoring.derived import display_name
from scoring.estimators import SHRUNK_RATE, shrunk_rate
from scoring.policy import Policy
from scoring.pull_lines import pull_lines, record_of
from scoring.read_scores import score, scores_everywhere
from scoring.verdict import Estimate, Lane, Person

HISTORY_SHOWN = 200
LINKS_SHOWN = 3
PROOFS = """
select k.statement, k.proof from attestation_checks k where k.contributor_id = ? and k.statement is not null
order by k.checked_at desc, k.uri limit 3
"""


def contributor(rows: Rows, did: str, viewer: str | None = None) -> ContributorPage | None:
    """Everything that is shown about one DID to `viewer`, a DID; None where nobody has been seen under it."""
    person = rows.row("select * from contributors where did = ?", [did])
    overall = score(rows, did)
    if person is None or overall is None:
        return None
    number = person["contributor_id"]
    here = scores_everywhere(rows, number)
    return ContributorPage(
        score=overall,
        per_repository=tuple(sorted(here, key=lambda one: one.repository or "")),
        vouches=_vouches(rows, number, viewer),
        pulls=pull_lines(rows, number),
        history=_history(rows, number),
        did_created_at=person["did_created_at"],
        first_seen_at=person["first_seen_at"] or overall.as_of,
        account_status=person["account_status"],
        stored=_stored(rows, number, did),
        record=record_of(rows, number),
        signals=tuple(_signals(rows, person)),
    )


def estimate_after(score: ContributorScore, not_clean: int, policy: Policy) -> Estimate | None:
    """P(clean) after so many more contributions that are not clean; None where a trained model says it.

    What a model would say then depends on more than the counts, so nothing is guessed.
    """
    held = {factor.name: factor.value for factor in score.verdict.factors}
    clean, other = held.get("clean"), held.get("not_clean")
    if score.model_version != SHRUNK_RATE or not isinstance(clean, int) or not isinstance(other, int):
        return None
    return shrunk_rate(clean, other + not_clean, policy.prior, policy.strength)


def _signals(rows: Rows, person: dict[str, Any]) -> Iterator[Signal]:
    """Read what a contributor shows of themselves; their place, pronouns and picture are left out."""
    number = person["contributor_id"]
    if person["handle"]:
        yield Signal(f"Handle {person['handle']}", "handle" if person["handle_verified"] else "declared")
    for row in rows.rows(PROOFS, [number]):
        yield Signal(f"Attested: {row['statement']}", "attested" if row["proof"] == "proven" else row["proof"])
    keys = rows.value("select count(*) from public_keys where author_id = ? and deleted_at is null", [number])
    if keys:
        yield Signal("1 public key" if keys == 1 else f"{keys:,} public keys", "declared")
    newest = (
        "select links from profiles where author_id = ? and deleted_at is null order by changed_at desc, uri limit 1"
    )
    for link in json.loads(rows.value(newest, [number]) or "[]")[:LINKS_SHOWN]:
        yield Signal(str(link), "declared")


def _vouches(rows: Rows, number: int, viewer: str | None) -> tuple[VouchLine, ...]:
    """Who stands for this person, and those who denounce them whom the viewer may hear (CIRCLE)."""
    found = rows.rows(
        "select v.kind, coalesce(v.reason, '') as reason, v.seen_at, c.did, c.handle, c.handle_verified "
        "from vouches v join contributors c on c.contributor_id = v.voucher_id "
        "anti join hidden_people h on h.contributor_id = v.voucher_id "
        "where v.subject_id = ? and v.voucher_id <> v.subject_id and v.superseded_at is null and (v.kind = 'vouch' or "
        f" v.voucher_id in ({CIRCLE})) order by v.seen_at desc, c.did limit 100",
        [number, *[circle_of(rows, number, viewer)] * 3],
    )
    return tuple(
        VouchLine(Person(row["did"], display_name(row)), row["kind"], row["reason"], row["seen_at"]) for row in found
    )


def _history(rows: Rows, number: int) -> tuple[HistoryPoint, ...]:
    """Recorded scores at the site, oldest first; several passes may share the present of a recorded stream."""
    found = rows.rows(
        "select as_of, probability, low, high, lane from scores "
        "where contributor_id = ? and repository_id = 0 and pull_uri is null "
        "order by as_of desc, decided_clock desc limit ?",
        [number, HISTORY_SHOWN],
    )
    figures = ("as_of", "probability", "low", "high")
    return tuple(HistoryPoint(*(row[name] for name in figures), Lane(row["lane"])) for row in reversed(found))


def _stored(rows: Rows, number: int, did: str) -> tuple[tuple[str, int], ...]:
    """How much is held about a DID, by what it is."""
    asked = (
        ("events in the log", "events where did = ?", did),
        ("pull requests", "pull_requests where author_id = ?", number),
        ("statuses written", "statuses where actor_id = ?", number),
        ("vouches given", "vouches where voucher_id = ?", number),
        ("vouches received", "vouches where subject_id = ?", number),
        ("scores and decisions", "scores where contributor_id = ?", number),
    )
    return tuple((what, rows.value(f"select count(*) from {where}", [key])) for what, where, key in asked)
