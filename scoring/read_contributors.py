"""Everything that is shown about one contributor, read from a snapshot."""

from ingest.transaction import Rows
from scoring.answers import ContributorPage, HistoryPoint, Person, VouchLine
from scoring.circle import CIRCLE, circle_of
from scoring.derived import display_name
from scoring.pull_lines import pull_lines
from scoring.read_scores import score, scores_everywhere
from scoring.verdict import Lane

HISTORY_SHOWN = 200


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
    )


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
        ("vouches given, every version", "vouches where voucher_id = ?", number),
        ("vouches received, every version", "vouches where subject_id = ?", number),
        ("scores and decisions", "scores where contributor_id = ?", number),
    )
    return tuple((what, rows.value(f"select count(*) from {where}", [key])) for what, where, key in asked)
