"""Histories with edits, deletes, re-creations and pull requests of two to five rounds: the tables by hand.

The hand is a model of its own: plain dictionaries that follow the words on each record one after the other, and share
no code with the hops.
"""

import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ingest.clock import from_microseconds
from ingest.store.database import Store
from tests.conftest import Count
from tests.ingest.stream.frames import (
    ANA,
    BLOB,
    MALLORY,
    MARA,
    PULL,
    REPO,
    SEED,
    STATUS,
    VOUCH,
    Frames,
    pull_uri,
    rows,
    take,
)

COMMENT = "sh.tangled.feed.comment"
PEOPLE = (SEED, ANA, MARA, MALLORY)


@dataclass
class Hand:
    """What the tables should hold."""

    pulls: dict[str, dict[str, Any]] = field(default_factory=dict)
    rounds: dict[tuple[str, int, str], datetime] = field(default_factory=dict)
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    comments: dict[str, dict[str, Any]] = field(default_factory=dict)
    vouches: list[list[Any]] = field(default_factory=list)

    def follow(self, frames: Sequence[bytes]) -> None:
        """Take the frames one after the other."""
        for raw in frames:
            frame = json.loads(raw)
            commit, seen = frame["commit"], from_microseconds(frame["time_us"])
            uri = f"at://{frame['did']}/{commit['collection']}/{commit['rkey']}"
            self._step(frame["did"], commit, uri, seen)

    def _step(self, did: str, commit: dict[str, Any], uri: str, seen: datetime) -> None:
        record: dict[str, Any] | None = commit.get("record")
        if commit["collection"] == VOUCH:
            self._vouch(did, commit["rkey"], record, seen)
        elif record is None:
            for table in (self.pulls, self.statuses, self.comments):
                if uri in table:
                    table[uri]["deleted"] = seen
        elif commit["collection"] == PULL:
            self._pull(uri, record, seen)
        elif commit["collection"] == STATUS:
            word = record["status"].split(".")[-1]
            self.statuses[uri] = {"pull": record["pull"], "word": word, "seen": seen, "deleted": None}
        elif commit["collection"] == COMMENT:
            first = self.comments[uri]["first"] if uri in self.comments else seen
            self.comments[uri] = {"body": record["body"]["text"], "first": first, "changed": seen, "deleted": None}

    def _pull(self, uri: str, record: dict[str, Any], seen: datetime) -> None:
        blobs = [one["patchBlob"]["ref"]["$link"] for one in record["rounds"]]
        first = self.pulls[uri]["first"] if uri in self.pulls else seen
        self.pulls[uri] = {"title": record["title"], "first": first, "changed": seen, "deleted": None, "blobs": blobs}
        for number, blob in enumerate(blobs):
            self.rounds.setdefault((uri, number, f"blob:{blob}"), seen)

    def _vouch(self, voucher: str, subject: str, record: dict[str, Any] | None, seen: datetime) -> None:
        for row in self.vouches:
            if row[:2] == [voucher, subject] and row[4] is None:
                row[4:] = [seen, "put" if record else "delete"]
        if record:
            self.vouches.append([voucher, subject, record["kind"], seen, None, None])


def compare(store: Store, hand: Hand) -> None:
    """Every table, row by row."""
    columns = "pull_uri, title, seen_at, changed_at, deleted_at, round_count, patch_ref"
    pulls = [
        (uri, one["title"], one["first"], one["changed"], one["deleted"], len(one["blobs"]), patch_of(one))
        for uri, one in hand.pulls.items()
    ]
    assert sorted(rows(store, f"select {columns} from pull_requests"), key=str) == sorted(pulls, key=str)
    found = rows(store, "select pull_uri, round, patch_ref, seen_at, witnessed from pull_rounds")
    assert sorted(found) == sorted((*key, seen, True) for key, seen in hand.rounds.items())
    found = rows(store, "select status_uri, pull_uri, status, seen_at, deleted_at from statuses")
    assert sorted(found, key=str) == sorted(((uri, *row.values()) for uri, row in hand.statuses.items()), key=str)
    found = rows(store, "select uri, body, seen_at, changed_at, deleted_at from comments")
    assert sorted(found, key=str) == sorted(((uri, *row.values()) for uri, row in hand.comments.items()), key=str)
    found = rows(
        store,
        "select a.did as voucher, b.did as subject, kind, seen_at, superseded_at, superseded_by from vouches "
        "join contributors a on a.contributor_id = voucher_id join contributors b on b.contributor_id = subject_id",
    )
    assert sorted(found, key=str) == sorted((tuple(row) for row in hand.vouches), key=str)


def patch_of(pull: dict[str, Any]) -> str | None:
    return f"blob:{pull['blobs'][-1]}" if pull["blobs"] else None


def play(frames: Frames, dice: random.Random) -> None:
    """One more word of somebody."""
    who, key = dice.choice(PEOPLE), dice.choice(("one", "two", "three"))
    about = pull_uri(dice.choice(PEOPLE), key)
    match dice.randrange(9):
        case 0 | 1:
            blobs = [f"{BLOB}{who[8:12]}{key}{n}" for n in range(dice.randint(2, 5))]
            if dice.random() < 0.3:
                blobs[-1] += "swapped"
            operation = dice.choice(("create", "update"))
            frames.pull(who, key, operation, blobs=blobs, title=f"Version {len(frames)}")
        case 2:
            frames.delete(who, PULL, key)
        case 3:
            frames.status(who, about, dice.choice(("open", "closed", "merged")), key)
        case 4:
            frames.delete(who, STATUS, key)
        case 5:
            body = {"$type": "sh.tangled.markup.markdown", "text": f"Comment {len(frames)}"}
            frames.commit(who, COMMENT, key, {"subject": {"uri": about, "cid": "bafyreiccc"}, "body": body})
        case 6:
            frames.delete(who, COMMENT, key)
        case 7:
            frames.vouch(who, dice.choice(PEOPLE), kind=dice.choice(("vouch", "denounce")))
        case 8:
            frames.delete(who, VOUCH, dice.choice(PEOPLE))


@pytest.mark.parametrize("seed", range(3))
def test_any_history_gives_the_tables_by_hand(store: Store, seed: int, count: Count) -> None:
    dice, frames, hand = random.Random(seed), Frames(), Hand()
    frames.repository(SEED, repoDid=REPO)
    for _ in range(count(400, 5000)):
        play(frames, dice)
    place = 0
    while place < len(frames):
        step = dice.choice((1, 7, 100))
        take(store, frames[max(place - 3, 0) : place + step])  # and a little of it again
        place += step
    hand.follow(frames)
    compare(store, hand)


def test_the_recorded_stream_with_edits_deletes_and_more_rounds_gives_the_tables_by_hand(
    store: Store, shared: Path, count: Count
) -> None:
    """Each recorded word stands in its place; between them their authors think again."""
    with gzip.open(shared / "data" / "replay" / "frames.ndjson.gz") as lines:
        recorded = [json.loads(line) for line, _ in zip(lines, range(count(600, 9622)), strict=False)]
    dice, frames = random.Random(7), []
    for frame in recorded:
        frames.append(frame)
        frames += _second_thoughts(frame, dice)
    for number, frame in enumerate(frames):
        frame["commit"]["rev"] = f"r{number:06d}"
    raws = [json.dumps(frame).encode() for frame in frames]
    hand = Hand()
    hand.follow(raws)
    for place in range(0, len(raws), 250):
        take(store, raws[place : place + 300])
    compare(store, hand)
    assert {len(one["blobs"]) for one in hand.pulls.values()} >= {1, 2, 3, 4, 5}
    assert any(one["deleted"] for one in hand.pulls.values())


def _second_thoughts(frame: dict[str, Any], dice: random.Random) -> list[dict[str, Any]]:
    """What the author of a recorded record does a moment later: nothing, an edit, a delete, a delete and a new one."""
    commit = frame["commit"]
    if commit["collection"] == "sh.tangled.repo" or dice.random() < 0.5:
        return []
    gone = {"operation": "delete", "collection": commit["collection"], "rkey": commit["rkey"]}
    edit = {**commit, "operation": "update", "record": dict(commit["record"]), "cid": commit["cid"] + "b"}
    for only in commit["record"].get("rounds", [])[:1]:
        blob = only["patchBlob"]["ref"]["$link"]
        more = [{**only, "patchBlob": {"ref": {"$link": f"{blob}{n}"}}} for n in range(dice.randint(1, 4))]
        edit["record"] |= {"rounds": [only, *more], "title": "Better"}
    steps = dice.choice([[edit], [gone], [gone, edit], [edit, gone]])
    return [{**frame, "time_us": frame["time_us"] + n, "commit": dict(one)} for n, one in enumerate(steps, 1)]
