"""Dead letters within bounds: a flood of what nobody can read takes no more room than was set aside for it."""

import json
import re
from dataclasses import replace
from typing import NoReturn

from ingest.records.dead_letters import LETTER_LIMIT, LetterBound
from ingest.records.derive import derive
from ingest.records.fields import Unreadable
from ingest.store.database import Store
from ingest.stream.load import load
from ingest.stream.reread_letters import Retried, retry_dead_letters
from tests.conftest import Count
from tests.ingest.conftest import Open
from tests.ingest.stream.frames import ANA, FIRST_US, MARA, PULL, SEED, SOURCE, VOUCH, Frames, digest_of, rows, take
from trustsite.world.network import encode_tid

BOUNDED = ("dead_letters", "unread_events")
STANDING = "select subject_id from vouches where superseded_at is null and voucher_id = 1"
CUT = "x" * (LETTER_LIMIT + 1)


def broken(number: int, collection: str) -> str:
    """A frame of this collection that cannot be read."""
    return f'{{"number": {number}, "collection": {json.dumps(collection)}, '


def bodies(store: Store) -> list[str]:
    return [body for (body,) in rows(store, "select body from dead_letters order by letter_seq")]


def test_a_flood_of_unreadable_frames_is_held_to_the_number_that_was_set(store: Store) -> None:
    bound = LetterBound(store, 100)
    for start in range(0, 1000, 90):
        load(store, SOURCE, [broken(number, "app.evil.post") for number in range(start, start + 90)])
        bound.keep()
        assert len(bodies(store)) <= 100
    assert len(bodies(store)) + bound.dropped == 1080
    assert bodies(store)[-1] == broken(1079, "app.evil.post")
    assert LetterBound(store, 100).dropped == bound.dropped


def test_what_can_never_be_read_goes_first_and_what_names_our_collections_last(store: Store) -> None:
    ours = [broken(number, PULL) for number in range(5)]
    load(store, SOURCE, [*ours, *(broken(number, "app.evil.post") for number in range(5)), CUT])
    bound = LetterBound(store, 10)
    assert bound.keep() == 2
    assert bodies(store) == [*ours, *(broken(number, "app.evil.post") for number in range(1, 5))]
    load(store, SOURCE, [broken(number, "app.evil.post") for number in range(5, 11)])
    assert bound.keep() == 6
    assert bodies(store)[:5] == ours


def adored(number: int) -> Frames:
    """A vouch, a version of it that cannot be read, and so many more of the kind."""
    frames = Frames()
    frames.vouch(SEED, ANA)
    frames.commit(SEED, VOUCH, ANA, {"kind": "adore"}, "update")
    for other in range(number):
        frames.commit(MARA, VOUCH, f"did:plc:{other:024}", {"kind": "adore"})
    return frames


def test_letters_of_events_go_first_and_leave_a_mark(store: Store) -> None:
    ours = [broken(number, PULL) for number in range(3)]
    load(store, SOURCE, [*ours, broken(9, "app.evil.post")])
    take(store, adored(20))
    bound = LetterBound(store, 10)
    assert bound.keep() == 16
    assert bound.dropped == 16
    assert bodies(store)[:4] == [*ours, broken(9, "app.evil.post")]
    assert rows(store, "select min(event_seq), max(event_seq), count(*) from unread_events") == [(2, 17, 16)]
    assert bound.keep() == 0
    assert LetterBound(store, 10).dropped == 16


def test_an_event_whose_letter_went_still_says_nothing_where_a_late_one_is_held_against_it(
    store: Store, open_store: Open
) -> None:
    frames = Frames()
    frames.vouch(SEED, ANA)
    frames.vouch(SEED, ANA, "update", reason="in between")
    frames.commit(SEED, VOUCH, ANA, {"kind": "adore"}, "update")
    frames.extend(adored(20)[2:])
    ordered = [re.sub(rb'"rev(\d+)"', _with_tid, frame) for frame in frames]
    between = ordered.pop(1)
    unbound = open_store("unbound")
    for one, most in ((store, 10), (unbound, 1_000)):
        take(one, ordered)
        LetterBound(one, most).keep()
        take(one, [between])
    assert rows(store, "select count(*) > 0 from unread_events") == [(True,)]
    assert rows(unbound, "select count(*) from unread_events") == [(0,)]
    assert rows(store, "select reason from vouches where superseded_at is null and voucher_id = 1") == [("in between",)]
    bounded = {name: found for name, found in digest_of(store).items() if name not in BOUNDED}
    assert bounded == {name: digest_of(unbound)[name] for name in bounded}


def _with_tid(rev: re.Match[bytes]) -> bytes:
    return f'"{encode_tid(FIRST_US + int(rev[1]))}"'.encode()


def test_an_event_whose_letter_went_is_read_again_from_the_log(store: Store) -> None:
    known = store.registry
    store.registry = replace(known, kinds={**known.kinds, VOUCH: replace(known.kinds[VOUCH], read=_refuse)})
    frames = adored(12)
    frames.vouch(SEED, MARA)
    take(store, frames)
    store.registry = known
    LetterBound(store, 10).keep()
    marked = rows(store, "select count(*) from unread_events")[0][0]
    assert marked == 6
    assert retry_dead_letters(store) == Retried(15, 2, 13)
    assert derive(store) == 0
    assert rows(store, "select event_seq from unread_events order by all") == [(seq,) for seq in range(2, 7)]
    assert sorted(rows(store, STANDING)) == [(2,), (3,)]
    assert retry_dead_letters(store) == Retried(13, 0, 13)


def _refuse(record: object, event: object) -> NoReturn:
    raise Unreadable("a vouch in a form that nobody knows yet")


def test_a_million_marks_take_no_room_to_speak_of(store: Store, count: Count) -> None:
    number = count(200_000, 1_000_000)
    store.checkpoint()
    before = store.path.stat().st_size
    with store.write() as txn:
        txn.execute("insert into unread_events select range * 3 + range % 7 from range(?)", [number])
    store.checkpoint()
    assert store.path.stat().st_size - before <= 4 * number + 1_000_000
