"""The real worker on a bulk recording whose last frames are new pull requests, let out when somebody says so.

`python -m tests.trustsite.demo.live_worker PEOPLE PULLS NEWS HELD`, with DATA_ROOT a marked drive, holds back the last
HELD of NEWS new pull requests and says one line once the rest is worked off. A number on stdin lets that many frames of
all out. Nothing here imports the ground of the tests, which would put a folder of its own for DATA_ROOT.
"""

import os
import sys
from functools import cache

import msgspec

from tests.standins.load import bulk
from trustsite.standins.answers import PULL
from trustsite.standins.recording import Recording, make_recording
from trustsite.world.network import encode_tid

SECOND = 1_000_000


@cache
def recording_with_news(people: int, pulls: int, news: int) -> tuple[Recording, tuple[str, ...]]:
    """A bulk recording that ends with `news` pull requests which stay open, and their at-uris in order.

    They are the last `news` of its `pulls` over again; AssertionError where those are fewer.
    """
    assert news <= pulls
    ground = bulk(people, pulls)
    last = [frame for frame, name in zip(ground.frames, ground.collections, strict=True) if name == PULL][-news:]
    lines, uris = [], []
    for number, line in enumerate(last, 1):
        frame, at = msgspec.json.decode(line), ground.last_time_us + number * SECOND
        frame["time_us"] = at
        frame["commit"] |= {"rkey": encode_tid(at, number), "rev": encode_tid(at)}
        lines.append(msgspec.json.encode(frame))
        uris.append(f"at://{frame['did']}/{PULL}/{frame['commit']['rkey']}")
    whole = make_recording([*ground.frames, *lines], ground.blobs, ground.people, ground.repositories)
    return whole, tuple(uris)


def main() -> None:
    """Run the worker until it is killed or stdin ends."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trustsite.settings")
    import django

    django.setup()
    from django.conf import settings

    from trustsite.demo.recorded import open_worker, run_beside, wait_until_settled
    from trustsite.standins import StandIns

    people, pulls, news, held = map(int, sys.argv[1:])
    recording, _ = recording_with_news(people, pulls, news)
    settings.WATCH_EVERYTHING = settings.WHOLE_STREAM = True
    with StandIns(recording, hold_after=len(recording.frames) - held) as peers:
        worker = open_worker(peers, recording, "live", ())

        def follow() -> None:
            wait_until_settled(worker)
            sys.stdout.write("settled\n")
            sys.stdout.flush()
            for line in sys.stdin:
                peers.release(int(line))

        run_beside(worker, follow)


if __name__ == "__main__":
    main()
