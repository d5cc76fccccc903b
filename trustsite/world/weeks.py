"""Writes the thirty days in which the maintainers watch: the pull requests of trusted people, and their outcomes.

The demo looks at the network LOOKS times, at even distances. A pull request is open at the look `at` and settled before
the look `until`, so that each round is judged while it is open. One that is merged before the third look has been quiet
for the 14 days of a label at the end.
"""

from dataclasses import dataclass
from random import Random

from ingest.atproto.cbor import draw
from trustsite.standins.answers import PULL
from trustsite.world.cast import DAY, PROJECTS, Project
from trustsite.world.history import Story, mergers
from trustsite.world.network import Pull
from trustsite.world.patches import make_edit

WATCHED_DAYS, LOOKS = 30, 6
STEP_US = WATCHED_DAYS * DAY // LOOKS
# The looks at which the main repository's lane is opened, the change that goes wrong is approved, and then marked.
OPENED, APPROVED, MARKED = 2, 4, 5


@dataclass(frozen=True)
class Sent:
    """A pull request of these days; `fate` is merged, closed, or changed (another round comes, and that is merged)."""

    author: str
    project: str
    at: int
    until: int
    fate: str = "merged"
    name: str = ""  # in `World.pulls`, where the story comes back to it


SENT = (
    Sent("mara", "tidepool", 1, 2),
    Sent("kemal", "tidepool", 1, 2),
    Sent("lotte", "tidepool", 1, 2),
    Sent("noor", "tidepool", 1, 2),
    Sent("rosa", "tidepool", 1, 2),
    Sent("noor", "tidepool", 2, 3),
    Sent("mara", "tidepool", 2, 3),
    Sent("kemal", "tidepool", 2, 3),
    Sent("ines", "tidepool", 2, 3, "closed"),
    Sent("rosa", "tidepool", 2, 3),
    Sent("mara", "tidepool", 3, 4),
    Sent("lotte", "tidepool", 3, 5, "changed"),
    Sent("noor", "tidepool", 3, 4, name="needed_fix"),
    Sent("kemal", "tidepool", 4, 5),
    Sent("mara", "tidepool", 4, 5),
    Sent("rosa", "tidepool", 5, 6),
    Sent("lotte", "tidepool", 5, 6),
    Sent("mara", "lantern", 1, 2),
    Sent("noor", "lantern", 2, 3),
    Sent("kemal", "lantern", 3, 4),
    Sent("mara", "lantern", 3, 4),
    Sent("lotte", "lantern", 4, 5, name="went_wrong"),
    Sent("rosa", "lantern", 4, 5),
    Sent("noor", "lantern", 5, 6),
    Sent("lotte", "lantern", 5, 6),
    Sent("kemal", "driftwood", 2, 3),
    Sent("mara", "driftwood", 3, 4),
    Sent("noor", "driftwood", 5, 6),
)


def look_us(judged_us: int, number: int) -> int:
    """Return the moment of a look: 0 is when watching begins, LOOKS is `judged_us`, when the first stage ends."""
    return judged_us - (LOOKS - number) * STEP_US


def draw_weeks(story: Story) -> dict[str, tuple[str, ...]]:
    """Write the thirty days; returns the at-uris of the pull requests that the story comes back to, by name."""
    projects = {project.name: project for project in PROJECTS}
    for number in range(LOOKS):  # ends each look with a frame that every subscriber is sent
        story.sheet.announce(story.sheet.did("teo"), look_us(story.judged_us, number) - 250_000)
    pulls = [(sent, _play(story, sent, projects[sent.project])) for sent in SENT]
    return {sent.name: (pull.uri,) for sent, pull in pulls if sent.name}


def _play(story: Story, sent: Sent, project: Project) -> Pull:
    random = draw(story.sheet.seed, "weeks", sent.author, sent.project, sent.at)
    opened_us = look_us(story.judged_us, sent.at) - _part_of_step(random)
    edit = make_edit(random, project.language, project.folder)
    pull = story.sheet.open_pull(sent.author, project, edit, opened_us)
    if sent.fate == "changed":
        time_us = look_us(story.judged_us, sent.at) + _part_of_step(random)
        other = story.sheet.make_round(pull.author, make_edit(random, project.language, project.folder), time_us)
        record = {**pull.record, "rounds": [*pull.record["rounds"], other]}
        story.sheet.put(pull.author, PULL, pull.rkey, record, time_us)
    settled_us = look_us(story.judged_us, sent.until) - _part_of_step(random)
    status = "closed" if sent.fate == "closed" else "merged"
    story.sheet.set_status(random.choice(mergers(project, sent.author)), pull, status, settled_us)
    return pull


def _part_of_step(random: Random) -> int:
    return int(random.uniform(0.2, 0.6) * STEP_US)
