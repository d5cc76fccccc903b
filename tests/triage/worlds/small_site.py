"""A small real snapshot behind the pages: seed keeps lantern, ana keeps cabin, mara offers to lantern alone.

Ana, whom seed vouches for, denounces mara with a reason; so does mallory, whom nobody trusts and who
vouches for a stranger. Ana denounces seed too.
"""

from pathlib import Path

from ingest.store.snapshots import publish
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, STRANGER, Frames, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.small import feed

CABIN = "did:plc:" + "c" * 24
OFFERED = pull_uri(MARA, "offered")
REASON, HER_REASON, OF_SEED = "She swore at newcomers.", "I dislike her.", "He merges at night."


def frames_of_it() -> Frames:
    """What the people of the small world wrote."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.repository(ANA, "cabin", repoDid=CABIN)
    frames.vouch(SEED, ANA)
    frames.vouch(ANA, MARA, kind="denounce", reason=REASON)
    frames.vouch(MALLORY, MARA, kind="denounce", reason=HER_REASON)
    frames.vouch(MARA, MALLORY, kind="denounce", reason="My own words.")
    frames.vouch(MALLORY, STRANGER)
    frames.vouch(ANA, SEED, kind="denounce", reason=OF_SEED)
    frames.pull(MARA, "offered")
    return frames


def play(result: Result, frames: Frames) -> None:
    """Load them, watch both repositories, judge."""
    feed(result, frames)
    result.watch([REPO], [SEED])
    result.watch([CABIN], [ANA])
    result.judge()


def build(folder: Path) -> None:
    """Load, judge and publish the small world below this folder."""
    with opened(folder) as result:
        play(result, frames_of_it())
        publish(result.store, folder / "snapshots")
