"""Open pull requests with patches that were read, for what people do with them; made once a process and copied.

Mara's is one, and ana's two more stand beside it where a test asks for several.
"""

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path

from ingest.records.pull_state import settle
from scoring.handlers.settings import switch_shadow
from tests.ingest.stream.frames import ANA, BLOB, MARA, REPO, Frames, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.offered import CLEAN, offer
from tests.scoring.small import OFFERED, feed, settled, take

SECOND, THIRD = pull_uri(ANA, "second"), pull_uri(ANA, "third")
MADE = datetime(2026, 1, 1)
BLOBS = ["bafkrei" + letter * 52 for letter in "abcd"]
LATER = CLEAN.replace("print(2)", "print(3)")


@cache
def _made() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="offered-"))
    with opened(folder) as result:
        frames = settled("open")
        frames.pull(ANA, "second", blobs=[BLOBS[2]], title="Sweep the stairs")
        frames.pull(ANA, "third", blobs=[BLOBS[3]], title="Oil the hinges")
        take(result, frames)
        offer(result, ref=f"blob:{BLOB}")
        offer(result, CLEAN.replace("a.py", "b.py"), SECOND, f"blob:{BLOBS[2]}")
        offer(result, CLEAN.replace("a.py", "c.py"), THIRD, f"blob:{BLOBS[3]}")
        switch_shadow(result.store, REPO, False, MADE)
        result.judge()
    return folder


@contextmanager
def offered_world(folder: Path) -> Generator[Result]:
    """A copy of that world, open, in this folder."""
    shutil.copytree(_made(), folder, dirs_exist_ok=True)
    with opened(folder) as result:
        yield result


def learn(result: Result, frames: Frames) -> None:
    """Take frames in, and what they say of the states of pull requests."""
    feed(result, frames)
    settle(result.store)


def a_new_round(result: Result, diff: str = LATER, rounds: int = 2) -> None:
    """Mara sends another patch, which is fetched; nothing is judged yet. With 1 of `rounds` it replaces the first."""
    frames = Frames(settled("open"))
    frames.pull(MARA, "offered", "update", blobs=BLOBS[2 - rounds : 2])
    learn(result, frames)
    offer(result, diff, OFFERED, f"blob:{BLOBS[1]}")
