"""The simulated network: maintainers, regulars, newcomers and seven attacks; a seed always gives one network."""

from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from trustsite.standins.recording import Recording
from trustsite.world.attacks import ATTACKS
from trustsite.world.cast import ATTACKERS, GROUPS, HONEST, PROJECTS
from trustsite.world.history import HOUR, LOOKS, Story, draw_honest, draw_weeks, look_us
from trustsite.world.network import Sheet, to_us

__all__ = ["ATTACKS", "World", "build_world"]

SEED = 7
END_TIME_US = to_us(datetime(2026, 11, 20, 12, tzinfo=UTC))
SECOND_STAGE_US = 2 * HOUR


@dataclass(frozen=True)
class World:
    """A recording of the simulated network and the names in it.

    `stages`: the number of released frames at the end of each stage, for `StandIns.release`; the patches are swapped in
    the second. `looks`: such a number for each look at the thirty days of watching, from their beginning to the first
    stage's end. `cast`: DID by name; `groups`: DIDs by role (maintainers, regulars, …, and each attack); `watched`: the
    DIDs of the maintainers' repositories by name, the only ones to watch; `pulls`: at-uris by story name (`ring`,
    `self_vouch`, `mutual_pair`, `denouncer`, `self_marked`, `swapped`, `round_added`, `stranger`, `stranger_marked`,
    `mara`, and each other honest person with an open pull request; of the thirty days `needed_fix` and `went_wrong`).
    """

    recording: Recording
    stages: list[int]
    looks: list[int]
    cast: Mapping[str, str]
    groups: Mapping[str, tuple[str, ...]]
    watched: Mapping[str, str]
    pulls: Mapping[str, tuple[str, ...]]

    @property
    def honest(self) -> tuple[str, ...]:
        return tuple(self.cast[contributor.name] for contributor in HONEST)


def build_world(seed: int = SEED, end_time_us: int = END_TIME_US, without: Collection[str] = ()) -> World:
    """Build the network of `seed`, ending at `end_time_us`, without the attacks named in `without`.

    Every frame of the network without an attack is in the network with it, byte for byte. Raises ValueError for an
    unknown attack.
    """
    unknown = set(without) - set(ATTACKS)
    if unknown:
        raise ValueError(f"there is no attack {', '.join(sorted(unknown))}: choose from {', '.join(ATTACKS)}")
    sheet = Sheet(seed)
    story = Story(sheet, judged_us=end_time_us - SECOND_STAGE_US, end_us=end_time_us)
    draw_honest(story)
    pulls = {name: tuple(pull.uri for pull in opened) for name, opened in story.open.items()} | draw_weeks(story)
    attacks = [name for name in ATTACKS if name not in without]
    for name in attacks:
        pulls |= ATTACKS[name](story)
    recording = sheet.recording()
    cast = {name: person.did for name, person in sheet.people.items()}
    return World(
        recording=recording,
        stages=[bisect_right(recording.times, story.judged_us), len(recording.frames)],
        looks=[bisect_right(recording.times, look_us(story.judged_us, number)) for number in range(LOOKS + 1)],
        cast=cast,
        groups={role: tuple(cast[member.name] for member in members) for role, members in GROUPS.items()}
        | {attack: tuple(cast[name] for name in ATTACKERS[attack]) for attack in attacks},
        watched={project.name: sheet.repository_dids[project.name] for project in PROJECTS},
        pulls=pulls,
    )
