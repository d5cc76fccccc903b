"""Dead letters within bounds: a flood of what nobody can read takes no more room than was set aside for it."""

import json

from ingest.derive import derive
from ingest.letter_bound import LetterBound
from ingest.letters import retry_dead_letters
from ingest.load import LETTER_LIMIT, load
from ingest.store import Store
from tests.ingest.conftest import Open
from tests.ingest.stream import ANA, FIRST_US, MARA, PULL, SEED, SOURCE, VOUCH, Frames, digest_of, rows, take

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


def test_the_letter_of_an_event_loses_its_text_and_stays_what_order_heeds(store: Store, open_store: Open) -> None:
    frames = Frames()
    frames.vouch(SEED, ANA)
    frames.commit(SEED, VOUCH, ANA, {"kind": "adore"}, "update")
    for number in range(20):
        frames.commit(MARA, VOUCH, f"did:plc:{number:024}", {"kind": "adore"})
    take(store, frames[:5])
    bound = LetterBound(store, 10)
    take(store, frames[5:])
    assert bound.keep() == 0
    assert len(bodies(store)) == 21
    assert sum(body != "" for body in bodies(store)) == 9
    later = Frames(frames)
    later.vouch(SEED, ANA, "update", reason="again")
    take(store, later[-1:])
    unbound = open_store("unbound")
    take(unbound, later)
    told = {name: found for name, found in digest_of(store).items() if name != "dead_letters"}
    assert told == {name: digest_of(unbound)[name] for name in told}


def test_a_letter_without_its_text_is_tried_again_from_the_log(store: Store) -> None:
    frames = Frames()
    for number in range(12):
        frames.commit(MARA, VOUCH, f"did:plc:{number:024}", {"kind": "adore"})
    take(store, frames)
    LetterBound(store, 10).keep()
    assert "" in bodies(store)
    assert retry_dead_letters(store).read == 12
    assert derive(store) == 0
    assert rows(store, "select count(*) from events where seen_at >= make_timestamp(?)", FIRST_US) == [(12,)]
