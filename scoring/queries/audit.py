"""Reads people's answers about the pull requests that the audit drew, and those that still wait for one.

Until somebody answered on the round that stands, its lane and score are shown to nobody: an answer of somebody who saw
them would follow them. With the answer they are shown, and it is the outcome that nothing else has touched.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from ingest.clock import read_moment
from ingest.store.database import Store
from ingest.store.transaction import Rows, Transaction
from ingest.worker.runtime import Runtime
from scoring.pipeline.decisions import RoundKey
from scoring.pipeline.stored import People
from scoring.queries.types import AuditAnswer
from scoring.types import REASON_LENGTH

# Unescaped quotes stand in stored JSON only where it says itself what a part is: no text from the network looks so.
DRAWN = """contains(c.reasons, '{"code":"audit_drawn"')"""
# Of a row `c` of current_decisions: the answer on the round that stands; null where there is none.
WOULD_MERGE = """(
  select any_value(a.would_merge) from audits a where a.pull_uri = c.pull_uri and a.round = c.round
    and a.record_cid is not distinct from c.record_cid and a.patch_id is not distinct from c.patch_id
)"""
SEALED = f"({DRAWN} and {WOULD_MERGE} is null)"
ANSWERS = """
select a.pull_uri, a.round, a.record_cid, a.patch_id, a.would_merge, a.because, a.actor_id, a.answered_at
from audits a where list_contains(?, a.pull_uri)
"""
DRAW = "select * from audit_draws where pull_uri = ? and round = ? and record_cid = ? and patch_id = ? and drawn"


def answers(rows: Rows, drawn: Iterable[Mapping[str, Any]]) -> dict[str, AuditAnswer]:
    """The answer on the round that stands of these rows of current_decisions, by address, where there is one."""
    stand = {row["pull_uri"]: (row["round"], row["record_cid"], row["patch_id"]) for row in drawn}
    found = [
        row
        for row in (rows.rows(ANSWERS, [list(stand)]) if stand else ())
        if stand[row["pull_uri"]] == (row["round"], row["record_cid"], row["patch_id"])
    ]
    people = People(rows, (row["actor_id"] for row in found if row["actor_id"])).persons if found else {}
    return {
        row["pull_uri"]: AuditAnswer(
            row["would_merge"],
            row["because"],
            people[row["actor_id"]].name if row["actor_id"] in people else "an erased account",
            row["answered_at"],
        )
        for row in found
    }


def draw_of(store: Store, key: str) -> dict[str, Any] | None:
    """The odds and the moment of the draw that an answer was given on, and whether the lane was estimated, as JSON.

    None where the answer was not taken.
    """
    with store.read() as rows:
        row = rows.row("select odds, drawn_at, estimated from audits where audit_key = ?", [key])
    return {**row, "drawn_at": row["drawn_at"].isoformat()} if row else None


def _told_draw(txn: Transaction, payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """The draw of an answer that another store took, where its pull request is here; it is not drawn again."""
    draw = payload.get("draw")
    number = txn.value("select repository_id from pull_requests where pull_uri = ?", [payload["pull_uri"]])
    if draw is None or number is None:
        return None
    drawn_at = datetime.fromisoformat(draw["drawn_at"])
    told = {"repository_id": number, "odds": draw["odds"], "drawn_at": drawn_at, "estimated": draw.get("estimated")}
    row = _judged(payload)._asdict() | told | {"drawn": True, "drawn_clock": txn.wall()}
    txn.upsert("audit_draws", [row])
    return told


def _judged(payload: Mapping[str, Any]) -> RoundKey:
    return RoundKey(payload["pull_uri"], payload["round"], payload["record_cid"] or "", payload["patch_id"] or "")


def take_answer(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """A delivery for `triage.services.deliveries`: one answer, into the running worker's store."""
    take(runtime.store, key, payload, runtime.clock.now())


def take(store: Store, key: str, payload: Mapping[str, Any], now: datetime) -> bool:
    """Write an answer; False where its key was taken or that round was answered before.

    `payload` has pull_uri, record_cid, round, patch_id, would_merge, because, person ("": erased since) and made_at,
    and once it was taken its "draw" (`draw_of`). Raises ValueError for a round that was never drawn.
    """
    with store.write() as txn:
        drawn = txn.row(DRAW, _judged(payload)) or _told_draw(txn, payload)
        if drawn is None:
            raise ValueError("that round was not drawn for the audit")
        seen = {name: payload[name] for name in ("pull_uri", "record_cid", "round", "patch_id")}
        named = (key, *(seen[name] for name in ("pull_uri", "round", "record_cid", "patch_id")))
        if txn.value(
            "select count(*) from audits where audit_key = ? or pull_uri = ? and round = ? "
            "and record_cid is not distinct from ? and patch_id is not distinct from ?",
            named,
        ):
            return False
        row = {name: drawn[name] for name in ("repository_id", "odds", "drawn_at", "estimated")} | seen
        told = {
            "audit_key": key,
            "would_merge": bool(payload["would_merge"]),
            "because": str(payload["because"])[:REASON_LENGTH],
            "actor_id": txn.person_ids([payload["person"]])[payload["person"]] if payload["person"] else None,
            "answered_at": read_moment(payload["made_at"]),
            "known_from": now,
        }
        txn.append("audits", [row | told])
        txn.inputs_changed()
    return True
