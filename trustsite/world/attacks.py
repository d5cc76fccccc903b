"""The attackers' frames. Each attack writes only its own frames; leaving one out changes no other frame."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from trustsite.standins.answers import LOOK_ALIKE, LOOK_ALIKE_VERSION, PULL
from trustsite.world.cast import ATTACKERS, DAY, HONEST, PROJECTS, Project
from trustsite.world.history import HOUR, Story, choose_project, open_now, settle
from trustsite.world.network import Edit, Pull, draw, iso, make_edit

Pulls = dict[str, tuple[str, ...]]

RING_SERVER, RING_KNOT = "https://pds.mallory.example.test", "knot.mallory.example.test"
_MANIFEST = '{\n  "name": "driftwood",\n  "devDependencies": {\n    "eslint": "9.14.0"%s\n  }\n}\n'
LOOK_ALIKE_ADDED = Edit(
    "Take pictures of the pages in the tests",
    "package.json",
    _MANIFEST % "",
    _MANIFEST % f',\n    "{LOOK_ALIKE}": "{LOOK_ALIKE_VERSION}"',
)
RING_PULLS = 3  # merged by mallory into a repository of the ring's own, for each member


def draw_ring(story: Story) -> Pulls:
    """Draw twelve accounts that vouch for one another behind one bought vouch and merge each other's work."""
    sheet, names = story.sheet, ATTACKERS["ring"]
    for number, name in enumerate(names):
        sheet.add_person(name, story.end_us - 60 * DAY + number * 7 * 60_000_000, RING_SERVER)
    kit = Project("kit", "mallory", names[1:], "python", "kit")
    sheet.add_repository(kit, story.end_us - 58 * DAY, RING_KNOT)
    for number, name in enumerate(names):
        start = story.end_us - 40 * DAY + number * HOUR
        for step, other in enumerate(other for other in names if other != name):
            sheet.vouch(name, other, start + step * 60_000_000, "great work")
        _draw_inner_merges(story, kit, name, start + DAY)
    sheet.vouch("mallory", "mara", story.end_us - 30 * DAY, "great work")
    sheet.vouch("pim", "mallory", story.judged_us - 15 * DAY, "promised to help with the release")
    senders = ("mallory", *names[:4])
    opened = [open_now(story, draw(sheet.seed, step, "send"), name, trap=True) for step, name in enumerate(senders)]
    return {"ring": _list_uris(opened)}


def draw_self_vouch(story: Story) -> Pulls:
    """Draw a person who vouches only for themselves."""
    random = _add_attacker(story, "narcis", 90)
    story.sheet.vouch("narcis", "narcis", story.end_us - 60 * DAY, "I know my work")
    settle(story, random, "narcis", story.end_us - 70 * DAY, merged=False)
    return {"self_vouch": _list_uris([open_now(story, random, "narcis")])}


def draw_mutual_pair(story: Story) -> Pulls:
    """Draw two people who have only each other's vouch."""
    opened = []
    for name in ATTACKERS["mutual_pair"]:
        random = _add_attacker(story, name, 110)
        settle(story, random, name, story.end_us - 80 * DAY, merged=False)
        opened.append(open_now(story, random, name))
    story.sheet.vouch("castor", "pollux", story.end_us - 75 * DAY, "solid")
    story.sheet.vouch("pollux", "castor", story.end_us - 75 * DAY, "solid")
    return {"mutual_pair": _list_uris(opened)}


def draw_denouncer(story: Story) -> Pulls:
    """Draw a person without trust who denounces everybody."""
    random = _add_attacker(story, "grudge", 35)
    for number, contributor in enumerate(HONEST):
        at = story.judged_us - 10 * DAY + number * 60_000_000
        story.sheet.vouch("grudge", contributor.name, at, "not to be trusted", kind="denounce")
    return {"denouncer": _list_uris([open_now(story, random, "grudge")])}


def draw_self_marked(story: Story) -> Pulls:
    """Draw an author who marks their own pull requests merged, one of them as a back-written record."""
    random = _add_attacker(story, "selma", 220)
    marked = []
    for age in (200, 120, 60, 5):
        project = choose_project(random, "selma")
        at = story.judged_us - age * DAY
        pull = story.sheet.open_pull("selma", project, make_edit(random, project.language, project.folder), at)
        story.sheet.set_status("selma", pull, "merged", at + HOUR, rkey=pull.rkey if age == 120 else "")
        marked.append(pull)
    return {"self_marked": _list_uris(marked)}


def draw_swap(story: Story) -> Pulls:
    """Draw a person with earned trust whose patches are replaced after they were judged."""
    random = _add_attacker(story, "switcher", 330)
    merged = [settle(story, random, "switcher", story.end_us - age * DAY, merged=True) for age in (320, 270, 200, 140)]
    story.sheet.vouch("teo", "switcher", story.judged_us - 180 * DAY, "two merged pull requests", *merged[:2])
    swapped, added = (open_now(story, random, "switcher", project=project) for project in PROJECTS[:2])
    _send_other_patch(story, swapped, story.judged_us + HOUR // 2, keep_first=False)
    _send_other_patch(story, added, story.judged_us + HOUR, keep_first=True)
    return {"swapped": (swapped.uri,), "round_added": (added.uri,)}


def draw_stranger(story: Story) -> Pulls:
    """Draw a person who records merges of others' work, takes a maintainer's handle and claims a repository.

    Their own change adds a package with a name like a known one.
    """
    handle = story.sheet.people["teo"].handle
    _add_attacker(story, "drifter", 25, handle)
    victims = [story.open[name][0] for name in ("alba", "bodo", "farah")] + story.closed["ruben"][:3]
    for number, pull in enumerate(victims):
        story.sheet.set_status("drifter", pull, "merged", story.judged_us - 3 * HOUR // 2 + number * 60_000_000)
    lantern = PROJECTS[0].name
    repo = story.sheet.repository_dids[lantern]
    story.sheet.claim_repository("drifter", lantern, repo, RING_KNOT, story.judged_us - DAY)
    at = story.judged_us - 2 * HOUR
    opened = story.sheet.open_pull("drifter", PROJECTS[2], LOOK_ALIKE_ADDED, at)
    return {"stranger": _list_uris([opened]), "stranger_marked": _list_uris(victims)}


ATTACKS: Mapping[str, Callable[[Story], Pulls]] = {
    "ring": draw_ring,
    "self_vouch": draw_self_vouch,
    "mutual_pair": draw_mutual_pair,
    "denouncer": draw_denouncer,
    "self_marked": draw_self_marked,
    "swap": draw_swap,
    "stranger": draw_stranger,
}


def _add_attacker(story: Story, name: str, age: int, handle: str = "") -> Random:
    story.sheet.add_person(name, story.end_us - age * DAY, handle=handle)
    return draw(story.sheet.seed, name, "attack")


def _draw_inner_merges(story: Story, kit: Project, name: str, start_us: int) -> None:
    random = draw(story.sheet.seed, name, "kit")
    for step in range(RING_PULLS):
        edit = make_edit(random, kit.language, kit.folder)
        pull = story.sheet.open_pull(name, kit, edit, start_us + step * DAY)
        merger = "mallory" if name != "mallory" else "mallory-2"
        story.sheet.set_status(merger, pull, "merged", pull.opened_us + HOUR)


def _send_other_patch(story: Story, pull: Pull, time_us: int, keep_first: bool) -> None:
    """Write the record again with another patch: in place of the first round, or as a new round."""
    project = next(project for project in PROJECTS if project.name == pull.project)
    random = draw(story.sheet.seed, pull.author, "other patch", keep_first)
    edit = replace(make_edit(random, project.language, project.folder, trap=True), title=pull.edit.title)
    earlier_rounds = pull.record["rounds"]
    # A replaced patch has the declared time of the first one: nothing in the record reveals it.
    written_us = time_us if keep_first else pull.opened_us
    new_round = story.sheet.make_round(pull.author, edit, written_us)
    record = {
        **pull.record,
        "rounds": [*earlier_rounds, new_round] if keep_first else [new_round],
        "createdAt": iso(pull.opened_us),
    }
    story.sheet.put(pull.author, PULL, pull.rkey, record, time_us)


def _list_uris(pulls: list[Pull]) -> tuple[str, ...]:
    return tuple(pull.uri for pull in pulls)
