"""Writes actions on pull requests and answers of the audit into the store, and which run of the outbox the store has.

Each action and answer is written once, and an approval only of the newest round. The unique name of a store and the
number of its newest run tell a store that was rebuilt, or restored from an older backup. They stand in the table of
hops, which two replays of one log need not agree in.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ingest.clock import read_moment
from ingest.store.database import Store
from ingest.store.transaction import Rows, Transaction
from ingest.worker.runtime import Runtime
from scoring.pipeline.decisions import RoundKey
from scoring.pipeline.interventions import IN_FORCE, NEWEST, OWN, RELEASED, VOIDED
from scoring.types import REASON_LENGTH

log = logging.getLogger(__name__)
KINDS = (
    "approve",
    "pull_for_review",
    "release",
    "outcome",
    "note",
    "comment",
    "request_changes",
    "close",
    "dismiss_finding",
    "restore_finding",
    "confirm_merge",
    "deny_merge",
    "answer",
)
OUTCOMES = ("clean", "needed_fix", "reverted")
NOTE_LENGTH = 2_000
# Messages may arrive in another order than they were made: a release ends only the approvals that were made before it.
RELEASE = """
update approvals set state = ?, state_at = ? where pull_uri = ? and state = ? and action_key in (
  select action_key from maintainer_actions where made_at <= ?)
"""
RELEASED_SINCE = """
select count(*) from maintainer_actions where kind = 'release' and pull_uri = ? and made_at > ?
"""
TAKEN_BACK = {"state": RELEASED, "reason": None}
OWN_WORK = {"state": VOIDED, "reason": OWN}


@dataclass(frozen=True, slots=True)
class ActionMessage:
    """One action as the outbox carries it; `made_at` is naive UTC."""

    kind: str
    outcome: str | None
    note: str
    pull_uri: str
    person: str
    record_cid: str | None
    round: int
    patch_id: str | None
    batch: str | None
    made_at: datetime
    decision: str | None = None  # score_id of the decision that was seen; None in messages of older versions

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> "ActionMessage":
        """Read a payload of `triage.services.actions`. Raises ValueError or KeyError for anything else."""
        kind, outcome = payload["kind"], payload["outcome"] or None
        if kind not in KINDS or (outcome is not None) != (kind == "outcome") or outcome not in (None, *OUTCOMES):
            raise ValueError(f"no action is called {kind!r} with the outcome {outcome!r}")
        return cls(
            kind,
            outcome,
            str(payload["note"])[:NOTE_LENGTH],
            payload["pull_uri"],
            payload["person"],
            payload["record_cid"],
            int(payload["round"]),
            payload["patch_id"],
            payload["batch"] or None,
            datetime.fromisoformat(payload["made_at"]).astimezone(UTC).replace(tzinfo=None),
            payload.get("decision") or None,
        )


def take_action(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Deliver one action to the running worker's store.

    Raises ValueError where the pull request is not here yet, as in a store that is rebuilt from the log.
    """
    action = ActionMessage.read(payload)
    if not apply_action(runtime.store, key, action, runtime.clock.now()) and _is_to_come(
        runtime.store, action.pull_uri
    ):
        raise ValueError("the pull request that it is about is not here yet")


def apply_action(store: Store, key: str, action: ActionMessage, now: datetime) -> bool:
    """Write an action with its effects, in one transaction; False where its key was written before.

    An approval of another round than the newest, or of a pull request that is not open, is written as void. An action
    on a pull request that was erased meanwhile writes nothing.
    """
    with store.write() as txn:
        if txn.value("select count(*) from maintainer_actions where action_key = ?", [key]):
            return False
        newest = txn.row(NEWEST + "where p.pull_uri = ?", [action.pull_uri])
        if newest is None:
            log.warning("the action %s is about a pull request that is not here any more, so it leaves nothing", key)
            return False
        txn.append("maintainer_actions", [_row(txn, key, action, newest["repository_id"], now)])
        if action.kind == "approve":
            released = txn.value(RELEASED_SINCE, [action.pull_uri, action.made_at])
            row = _approval(key, action, newest, now)
            is_own = txn.person_ids([action.person])[action.person] == newest["author_id"]
            txn.append("approvals", [row | (OWN_WORK if is_own else TAKEN_BACK if released else {})])
        if action.kind == "release":
            txn.execute(RELEASE, [RELEASED, now, action.pull_uri, IN_FORCE, action.made_at])
        txn.inputs_changed()
    return True


def _is_to_come(store: Store, uri: str) -> bool:
    """Return whether a pull request that somebody saw here is missing, and not because its author was erased."""
    author = uri.removeprefix("at://").partition("/")[0]
    with store.read() as rows:
        here = rows.value("select count(*) from pull_requests where pull_uri = ?", [uri])
    return not here and store.tombstones.erased_at(author) is None


def _row(txn: Transaction, key: str, action: ActionMessage, repository: int, now: datetime) -> dict[str, object]:
    return {
        "action_key": key,
        "kind": action.kind,
        "outcome": action.outcome,
        "note": action.note,
        "pull_uri": action.pull_uri,
        "repository_id": repository,
        "actor_id": txn.person_ids([action.person])[action.person],
        "record_cid": action.record_cid,
        "round": action.round,
        "patch_id": action.patch_id,
        "batch": action.batch,
        "made_at": action.made_at,
        "known_from": now,
    }


def _approval(key: str, action: ActionMessage, newest: Mapping[str, Any], now: datetime) -> dict[str, object]:
    if action.patch_id is None:
        raise ValueError("an approval names the patch that was seen")
    seen = (action.record_cid, action.round, action.patch_id)
    stands = seen == (newest["record_cid"], newest["round"], newest["patch_id"])
    reason = None if stands and newest["state"] == "open" else "closed" if stands else "changed_before"
    return {
        "action_key": key,
        "pull_uri": action.pull_uri,
        "repository_id": newest["repository_id"],
        "record_cid": action.record_cid,
        "round": action.round,
        "patch_id": action.patch_id,
        "decision": action.decision,
        "state": VOIDED if reason else IN_FORCE,
        "reason": reason,
        "evidence": None,
        "approved_at": now,
        "state_at": now,
    }


NAME = "outbox of "  # and the store's name


def delivered_run(store: Store) -> tuple[str, int] | None:
    """Return the store's name and the newest run that ended; None where nothing was ever delivered to it."""
    with store.read() as rows:
        return read_run(rows)


def read_run(rows: Rows) -> tuple[str, int] | None:
    """Return the name and newest run of the store that `rows` read, such as a snapshot."""
    row = rows.row("select name, position_seq from hops where starts_with(name, ?)", [NAME])
    return (row["name"].removeprefix(NAME), row["position_seq"]) if row else None


def note_run(store: Store, name: str, run: int) -> None:
    """Record that this run and all before it were delivered."""
    with store.write() as txn:
        txn.execute("delete from hops where starts_with(name, ?)", [NAME])
        txn.execute("insert into hops values (?, ?, ?)", [NAME + name, run, store.wall()])


DRAW = "select * from audit_draws where pull_uri = ? and round = ? and record_cid = ? and patch_id = ? and drawn"


def draw_of(store: Store, key: str) -> dict[str, Any] | None:
    """The odds and the moment of the draw that an answer was given on, and whether the lane was estimated, as JSON.

    None where the answer was not taken.
    """
    with store.read() as rows:
        row = rows.row("select odds, drawn_at, estimated from audits where audit_key = ?", [key])
    return {**row, "drawn_at": row["drawn_at"].isoformat()} if row else None


def _draw_elsewhere(txn: Transaction, payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """The draw of an answer that another store took, where its pull request is here; it is not drawn again."""
    draw = payload.get("draw")
    number = txn.value("select repository_id from pull_requests where pull_uri = ?", [payload["pull_uri"]])
    if draw is None or number is None:
        return None
    drawn_at = datetime.fromisoformat(draw["drawn_at"])
    told = {"repository_id": number, "odds": draw["odds"], "drawn_at": drawn_at, "estimated": draw.get("estimated")}
    row = _round_of(payload)._asdict() | told | {"drawn": True, "drawn_clock": txn.wall()}
    txn.upsert("audit_draws", [row])
    return told


def _round_of(payload: Mapping[str, Any]) -> RoundKey:
    return RoundKey(payload["pull_uri"], payload["round"], payload["record_cid"] or "", payload["patch_id"] or "")


def take_answer(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """A delivery for `triage.services.notifying.deliveries`: one answer, into the running worker's store."""
    write_answer(runtime.store, key, payload, runtime.clock.now())


def write_answer(store: Store, key: str, payload: Mapping[str, Any], now: datetime) -> bool:
    """Write an answer; False where its key was taken or that round was answered before.

    `payload` has pull_uri, record_cid, round, patch_id, would_merge, because, person ("": erased since) and made_at,
    and once it was taken its "draw" (`draw_of`). Raises ValueError for a round that was never drawn.
    """
    with store.write() as txn:
        drawn = txn.row(DRAW, _round_of(payload)) or _draw_elsewhere(txn, payload)
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
