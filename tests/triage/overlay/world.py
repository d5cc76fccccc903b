"""A real site behind the overlay: seed's lantern is watched, their garden is not; one pull request in each lane."""

from pathlib import Path

import msgspec

from ingest.store.snapshots import publish
from scoring.handlers.settings import switch_shadow
from scoring.review.store import finding_json
from scoring.types import Finding, Severity
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, pull_uri
from tests.pipeline import OPEN_LANE, Later, opened
from tests.scoring.offered import CLEAN, end_lookups, offer
from tests.scoring.pipeline.offered_world import MADE
from tests.scoring.small import DAY, MERGED_AT, again, feed, settled, take
from tests.triage.overlay.forge import ORIGIN, Home, Pull

OWNER, LANTERN, GARDEN = "seed.example.com", "lantern", "garden"
HANDLES = {
    SEED: OWNER,
    MARA: "mara.example.com",
    ANA: "ana.example.com",
    MALLORY: "mallory.example.com",
}
GARDEN_DID = "did:plc:" + "g" * 24
HOME = Home(OWNER, LANTERN)


def _offered(number: int, title: str, author: str, rkey: str, state: str = "open") -> Pull:
    return Pull(number, title, author, HANDLES[author], pull_uri(author, rkey), state)


FAST = _offered(12, "Mend the gate", MARA, "fast")
FLAGGED = _offered(13, "Tidy the settings", MALLORY, "flagged")
NEW = _offered(14, "Paint the fence", MALLORY, "new")
UNNUMBERED = _offered(15, "Sweep the yard", ANA, "unnumbered")
DONE = _offered(11, "Light the lamp", MARA, "offered", "merged")
ELSEWHERE = _offered(3, "Water the roses", MARA, "elsewhere")
HIGH = Finding("addressed", "override", "security", Severity.HIGH, "It speaks to its reader.", "src/app.py", 41, "# y")


def build(folder: Path) -> None:
    """Load, judge and publish it below this folder."""
    with opened(folder, OPEN_LANE) as result:
        frames = settled()
        for did in (MARA, ANA):
            frames.vouch(SEED, did)
        frames.pull(ANA, "first")
        frames.status(SEED, pull_uri(ANA, "first"), "merged")
        take(result, frames)
        later = Later(MERGED_AT + 20 * DAY)
        later.repository(SEED, GARDEN, repoDid=GARDEN_DID)
        for pull in (FAST, FLAGGED, NEW, UNNUMBERED):
            later.pull(pull.author, pull.uri.rpartition("/")[2], title=pull.title)
        later.pull(MARA, "elsewhere", target={"repo": GARDEN_DID, "branch": "main"})
        feed(result, later)
        for pull in (FAST, FLAGGED, NEW, UNNUMBERED):
            offer(result, CLEAN.replace("a.py", f"{pull.number}.py"), pull.uri, f"blob:{pull.number}")
        end_lookups(result)
        result.review()
        switch_shadow(result.store, REPO, False, MADE)
        found = msgspec.json.encode([finding_json(HIGH)]).decode()
        with result.store.write() as txn:
            sql = "update content_reviews set findings = ?, content_risk = .9, worst = 'security' where pull_uri = ?"
            txn.execute(sql, [found, FLAGGED.uri])
            for did, handle in HANDLES.items():
                txn.execute("update contributors set handle = ?, handle_verified = true where did = ?", [handle, did])
            for pull in (FAST, FLAGGED, NEW, DONE):
                page = [pull.uri, pull.number, f"{ORIGIN}{HOME.path(pull.number)}"]
                txn.execute("insert into pull_pages values (?, ?, ?)", page)
        again(result)
        publish(result.store, folder / "snapshots")
