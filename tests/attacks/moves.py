"""The red team's moves, one function each, for somebody who gets no new vouch and no new verified merge."""

from collections.abc import Callable
from datetime import timedelta

from ingest.clock import EPOCH
from tests.attacks.learned import YOUNG, did
from tests.ingest.stream.frames import ANA, MALLORY, MARA, PULL, REPO, SEED, at, pull_uri
from tests.pipeline import Later, Result
from trustsite.world.network import iso

Move = Callable[[Later, Result, str], None]
FARM = "did:plc:" + "f" * 24
FRIEND = did("friend")  # may push to a repository of their own, which nobody here watches
LONG_AGO = "2019-01-01T00:00:00Z"


def sybils(who: str) -> tuple[str, ...]:
    """Eight fresh accounts of this attacker's own: through shared ones the trusted attacker would vouch for another."""
    return tuple(did(f"{who[8:12]}sybil{letter}") for letter in "abcdefgh")


def rewires_own_vouches(frames: Later, result: Result, who: str) -> None:
    """Vouches for sybils that vouch back, so that a walk along vouches returns to whom it came from."""
    for sybil in sybils(who):
        frames.vouch(who, sybil, createdAt=iso(frames.first_us))
        frames.vouch(sybil, who, createdAt=iso(frames.first_us))


def vouches_for_the_trusted(frames: Later, result: Result, who: str) -> None:
    for subject in (who, SEED, ANA):
        frames.vouch(who, subject, createdAt=iso(frames.first_us))


def has_a_clique_of_sybils(frames: Later, result: Result, who: str) -> None:
    for voucher in (*sybils(who), who):
        for subject in (*sybils(who), who):
            if voucher != subject:
                frames.vouch(voucher, subject, createdAt=iso(frames.first_us))


def denounces_others(frames: Later, result: Result, who: str) -> None:
    """Everybody, above all whoever denounces the author."""
    for subject in (did("grudge"), MARA, MALLORY, *sybils(who)):
        if subject != who:
            frames.vouch(who, subject, kind="denounce", createdAt=iso(frames.first_us))


def closes_own(frames: Later, result: Result, who: str) -> None:
    for number in range(3):
        frames.status(who, pull_uri(who, f"stale{number}"), "closed", f"closed{number}")


def closes_and_reopens_own(frames: Later, result: Result, who: str) -> None:
    closes_own(frames, result, who)
    for number in range(3):
        frames.status(who, pull_uri(who, f"stale{number}"), "open", f"opened{number}")


def deletes_abandoned(frames: Later, result: Result, who: str) -> None:
    for number in range(3):
        frames.delete(who, PULL, f"stale{number}")


def writes_them_again(frames: Later, result: Result, who: str) -> None:
    deletes_abandoned(frames, result, who)
    for number in range(3):
        frames.pull(who, f"stale{number}", title="Anew")


def carries_them_elsewhere(frames: Later, result: Result, who: str) -> None:
    for number in range(3):
        frames.pull(who, f"stale{number}", "update", target=FARM)


def calls_own_merged(frames: Later, result: Result, who: str) -> None:
    for number in range(3):
        frames.status(who, pull_uri(who, f"stale{number}"), "merged", f"merged{number}")


def has_strangers_call_them_merged(frames: Later, result: Result, who: str) -> None:
    for number in range(3):
        for sybil in sybils(who):
            frames.status(sybil, pull_uri(who, f"stale{number}"), "merged", f"merged{number}")


def keeps_them_awake(frames: Later, result: Result, who: str) -> None:
    """A new round of each, so that the 180 quiet days begin anew."""
    for number in range(3):
        frames.pull(who, f"stale{number}", "update", blobs=["bafkrei" + letter * 52 for letter in "ab"])


def sends_many_small(frames: Later, result: Result, who: str) -> None:
    for number in range(30):
        frames.pull(who, f"small{number}")


def sends_and_withdraws(frames: Later, result: Result, who: str) -> None:
    sends_many_small(frames, result, who)
    for number in range(30):
        frames.status(who, pull_uri(who, f"small{number}"), "closed", f"withdrawn{number}")


def backdates(frames: Later, result: Result, who: str) -> None:
    for number in range(10):
        frames.pull(who, f"old{number}", createdAt=LONG_AGO)
    frames.status(who, pull_uri(who, "old0"), "closed", "oldclosed")


def floods_by_sybils(frames: Later, result: Result, who: str) -> None:
    """Fresh accounts open changes there: the repository looks busy, and is."""
    for sybil in sybils(who):
        for number in range(5):
            frames.pull(sybil, f"flood{number}")


def floods_and_withdraws_by_sybils(frames: Later, result: Result, who: str) -> None:
    floods_by_sybils(frames, result, who)
    for sybil in sybils(who):
        for number in range(5):
            frames.status(sybil, pull_uri(sybil, f"flood{number}"), "closed", f"withdrawn{number}")


def has_sybils_discuss(frames: Later, result: Result, who: str) -> None:
    for place, sybil in enumerate(sybils(who)):
        for name in ("offered", "stale0"):
            subject = {"uri": pull_uri(who, name), "cid": "bafyrei1"}
            words = {"$type": "sh.tangled.markup.markdown", "text": "Splendid work. " * 100}
            record = {"subject": subject, "body": words, "createdAt": iso(frames.first_us)}
            frames.commit(sybil, "sh.tangled.feed.comment", f"said{name}{place}", record)
            frames.commit(
                sybil,
                "sh.tangled.repo.pull.comment",
                f"says{name}{place}",
                {"pull": pull_uri(who, name), "body": "Splendid work. " * 100, "createdAt": iso(frames.first_us)},
            )


def farms_merges_at_home(frames: Later, result: Result, who: str) -> None:
    """Many trivial merges in a repository of one's own, by sybils, by a friend and by oneself."""
    frames.repository(who, "farm", repoDid=FARM)
    for number in range(15):
        frames.pull(who, f"farmed{number}", target=FARM)
        frames.status(who, pull_uri(who, f"farmed{number}"), "merged", f"farmed{number}")
        frames.pull(sybils(who)[0], f"farmed{number}", target=FARM)
        frames.status(who, pull_uri(sybils(who)[0], f"farmed{number}"), "merged", f"others{number}")


def has_a_friend_merge_elsewhere(frames: Later, result: Result, who: str) -> None:
    """The owner of another repository merges whatever comes, and says so of changes here too."""
    frames.repository(FRIEND, "farm", repoDid=FARM)
    for number in range(15):
        frames.pull(who, f"friendly{number}", target=FARM)
        frames.status(FRIEND, pull_uri(who, f"friendly{number}"), "merged", f"merged{number}")
    for name in ("stale0", "stale1", "offered"):
        frames.status(FRIEND, pull_uri(who, name), "merged", f"here{name}")


def claims_a_right(frames: Later, result: Result, who: str) -> None:
    """Says that the repository is one's own, and that one may push there, and merges there."""
    frames.repository(who, "lantern", repoDid=REPO)
    frames.commit(who, "sh.tangled.repo.collaborator", "me", {"subject": who, "repo": REPO, "createdAt": LONG_AGO})
    for number in range(3):
        frames.status(who, pull_uri(who, f"stale{number}"), "merged", f"mine{number}")


def moves_house(frames: Later, result: Result, who: str) -> None:
    """Another handle and server, and an old account beside it."""
    frames.add(who, "identity", {"did": who, "handle": "trusty.example.test", "seq": 1})
    known = frames.first_us / 1e6
    signals = {("plc", "handle_changes"): "4", ("plc", "pds_moves"): "2", ("bluesky", "followers"): "90000"}
    signals |= {("bluesky", "follows"): "9", ("bluesky", "created_at"): "2015-01-01 00:00:00"}
    with result.store.write() as txn:
        for (source, key), value in signals.items():
            txn.execute(
                "insert into signals select $who, $source, $key, $value, make_timestamp($at::bigint), "
                "make_timestamp($at::bigint), null, null, null",
                {"who": who, "source": source, "key": key, "value": value, "at": int(known * 1e6)},
            )


def buys_an_old_account(frames: Later, result: Result, who: str) -> None:
    with result.store.write() as txn:
        txn.execute("update contributors set did_created_at = timestamp '2016-01-01' where did = ?", [who])


def passes_checks(frames: Later, result: Result, who: str) -> None:
    """Runs that passed, of a workflow that the change itself brings."""
    run = {"commit_id": "", "workflows": "[]", "state": "passed", "patch_ref": "a"}
    moment = {"observed_at": EPOCH + timedelta(microseconds=frames.first_us)}
    with result.store.write() as txn:
        txn.append("ci_runs", [run | moment | {"pull_uri": pull_uri(who, f"stale{number}")} for number in range(3)])


def abandons_changes(frames: Later, result: Result, who: str) -> None:
    """At the beginning, so that nobody has answered for 180 days."""
    early = Later(at(3600))
    for number in range(3):
        early.pull(who, f"left{number}")
        early.pull(who, f"leftyoung{number}", target=YOUNG)
    result.take(early)


def has_sybils_abandon_changes(frames: Later, result: Result, who: str) -> None:
    for place, sybil in enumerate(sybils(who)):
        early = Later(at(7200 + place * 60))
        early.pull(sybil, "left")
        early.pull(sybil, "leftyoung", target=YOUNG)
        result.take(early)


# What is played together by default: nothing in a group lowers what another of it might raise.
GROUPS: dict[str, tuple[Move, ...]] = {
    "vouches": (rewires_own_vouches, vouches_for_the_trusted, has_a_clique_of_sybils, denounces_others),
    "takes back": (closes_and_reopens_own, closes_own, keeps_them_awake, carries_them_elsewhere, deletes_abandoned),
    "writes again": (writes_them_again,),
    "claims": (calls_own_merged, has_strangers_call_them_merged, claims_a_right),
    "other repositories": (has_a_friend_merge_elsewhere, farms_merges_at_home),
    "many": (sends_many_small, sends_and_withdraws, backdates, floods_by_sybils, floods_and_withdraws_by_sybils),
    "accounts": (moves_house, buys_an_old_account, passes_checks, has_sybils_discuss),
    "leaves": (abandons_changes, has_sybils_abandon_changes),
}
ALONE: dict[str, tuple[Move, ...]] = {
    f"{name} {place}": (move,) for name, moves in GROUPS.items() for place, move in enumerate(moves)
}
