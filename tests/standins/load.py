"""A big recording made cheaply, for load tests: many people, many pull requests, nothing to tell about any of them."""

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

from trustsite.standins.answers import PULL, REPOSITORY, STATUS, VOUCH
from trustsite.standins.recording import BlobKey, Person, Recording, Repository, make_recording
from trustsite.world.cast import DAY, KNOT, SPINDLE
from trustsite.world.network import (
    Signature,
    blob_cid,
    draw,
    encode_tid,
    format_patch,
    iso,
    make_did,
    make_edit,
    pack,
    pseudo_cid,
)

START_US = 1_700_000_000_000_000
STEP_US = 60_000_000
PATCHES = 64  # different blobs; the same bytes serve many pull requests
SERVER = "https://pds.example.test"


def bulk(n_contributors: int, n_pulls: int, seed: int = 1) -> Recording:
    """A recording with that many people and pull requests, one repository for each 500 people, in about 25 µs a frame.

    Every hundredth person owns a repository or helps its owner. Four of five pull requests are merged, one of ten is
    closed, and people vouch for later ones on average twice, so that trust reaches most of them.
    """
    random = draw(seed, "bulk")
    dids = [make_did(seed, "bulk", number) for number in range(n_contributors)]
    people = [
        Person(did, f"person-{number}.example.test", SERVER, iso(START_US - DAY)) for number, did in enumerate(dids)
    ]
    repositories = [_repository(seed, number, dids) for number in range(max(1, n_contributors // 500))]
    patches = [_patch(random, number) for number in range(PATCHES)]
    blobs: dict[BlobKey, bytes] = {}
    lines = [*_repository_frames(repositories), *_vouch_frames(random, dids, n_pulls)]
    for number in range(n_pulls):
        lines.extend(_pull_frames(random, number, random.choice(dids), random.choice(repositories), patches, blobs))
    return make_recording(lines, blobs, people, repositories)


def _repository(seed: int, number: int, dids: list[str]) -> Repository:
    owner = dids[number * 5 % len(dids)]
    push = sorted({owner, *dids[number * 5 + 1 : number * 5 + 5]})
    name = f"person-{number * 5 % len(dids)}.example.test/project-{number}"
    return Repository(make_did(seed, "project", number), name, owner, KNOT, SPINDLE, tuple(push))


def _patch(random: Random, number: int) -> tuple[str, bytes, str]:
    edit = make_edit(random, random.choice(("python", "go", "javascript")), "src")
    data = pack(format_patch(edit, Signature("Person", "person@example.test", START_US + number, 0)))
    return blob_cid(data), data, edit.title


def _repository_frames(repositories: list[Repository]) -> Iterator[bytes]:
    for number, repository in enumerate(repositories):
        title = repository.name.partition("/")[2]
        record = {
            "name": title,
            "knot": KNOT,
            "spindle": SPINDLE,
            "repoDid": repository.repo,
            "createdAt": iso(START_US),
        }
        yield _frame(repository.owner, REPOSITORY, encode_tid(START_US + number), record, START_US + number)


def _vouch_frames(random: Random, dids: list[str], n_pulls: int) -> Iterator[bytes]:
    for subject in range(1, len(dids)):
        for voucher in {random.randrange(subject) for _ in range(random.choice((1, 2, 3)))}:
            at = START_US + DAY + random.randrange(1, max(2, n_pulls * STEP_US))
            record = {"kind": "vouch", "reason": "good work", "createdAt": iso(at), "evidences": []}
            yield _frame(dids[voucher], VOUCH, dids[subject], record, at)


def _pull_frames(
    random: Random,
    number: int,
    author: str,
    repository: Repository,
    patches: list[tuple[str, bytes, str]],
    blobs: dict[BlobKey, bytes],
) -> Iterator[bytes]:
    cid, data, title = random.choice(patches)
    blobs[(author, cid)] = data
    at, rkey = START_US + DAY + number * STEP_US, encode_tid(START_US + DAY + number * STEP_US, number)
    blob = {"$type": "blob", "ref": {"$link": cid}, "mimeType": "application/gzip", "size": len(data)}
    record = {
        "title": f"{title} ({number})",
        "body": "",
        "createdAt": iso(at),
        "rounds": [{"createdAt": iso(at), "patchBlob": blob}],
        "target": {"branch": "main", "repo": repository.repo, "repoDid": repository.repo},
    }
    yield _frame(author, PULL, rkey, record, at)
    fate = random.random()
    if fate < 0.9:
        later = at + random.randrange(STEP_US, 6 * DAY)
        word = "merged" if fate < 0.8 else "closed"
        status = {"pull": f"at://{author}/{PULL}/{rkey}", "status": f"{STATUS}.{word}", "createdAt": iso(later)}
        actor = random.choice([did for did in repository.push if did != author] or [repository.owner])
        yield _frame(actor, STATUS, encode_tid(later, number), status, later)


def _frame(did: str, collection: str, rkey: str, record: dict[str, Any], time_us: int) -> bytes:
    value = {"$type": collection, **record}
    commit = {
        "rev": encode_tid(time_us),
        "operation": "create",
        "collection": collection,
        "rkey": rkey,
        "record": value,
    }
    cid = pseudo_cid(f"{did}{rkey}{time_us}".encode())
    return msgspec.json.encode({"did": did, "time_us": time_us, "kind": "commit", "commit": {**commit, "cid": cid}})
