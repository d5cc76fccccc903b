"""The people's last two years: pull requests, merges, vouches, the open pull requests, and thirty days of watching.

The demo looks at the network LOOKS times in these thirty days, at even intervals. A pull request is open at the look
`at` and settled before the look `until`, so that each round is judged while it is open. A pull request that is merged
before the third look has been quiet for the 14 days of a label at the end.
"""

from dataclasses import dataclass, field
from random import Random

from ingest.records.registry import ACCOUNT_CLAIM
from trustsite.standins.answers import PROFILE, PULL
from trustsite.standins.signed import account_claim
from trustsite.world.cast import DAY, HONEST, MAINTAINERS, PROJECTS, Contributor, Project
from trustsite.world.network import Pull, Sheet, draw, encode_tid, iso, make_did, make_edit

HOUR = DAY // 24
REVERTED = ("jonah", "marek", "oskar", "pim")  # one merged change of each was reverted within a label's 14 days
IDENTITY_EVENTS = ("mara", "ines", "kemal", "noor", "sami", "alba", "quill")
QUESTIONS = ("Could you add a test for this?", "Thanks, I will look at it tomorrow.", "Does this need a release note?")
STRANGERS, POSTS = 30, 10
# Who claims which account, of what kind, and where its owner names them. The stand-in of npm knows noor's.
CLAIMS = (
    ("mara", "github", "mara", "https://gist.example.test/mara/1"),
    ("noor", "npm", "noor", "https://npm.example.test/package/@noor/keytrace"),
    ("sami", "activitypub", "@sami@social.example.test", "https://social.example.test/@sami"),
)


@dataclass
class Story:
    """The sheet during drawing, with the important times and the pull requests by author."""

    sheet: Sheet
    judged_us: int  # the first stage ends
    end_us: int
    settled: dict[str, list[Pull]] = field(default_factory=dict)  # merged ones, in order of time
    open: dict[str, list[Pull]] = field(default_factory=dict)
    closed: dict[str, list[Pull]] = field(default_factory=dict)
    merged_us: dict[str, int] = field(default_factory=dict)  # pull uri to the time of its merge


def draw_honest(story: Story) -> None:
    """Draw everything that does not depend on the attacks."""
    _add_people(story)
    for contributor in HONEST:
        _draw_work(story, contributor)
    for contributor in HONEST:
        evidence = story.settled.get(contributor.name, [])[:2]
        for voucher in contributor.vouchers:
            random = draw(story.sheet.seed, voucher, "vouches for", contributor.name)
            at = story.merged_us[evidence[-1].uri] + int(random.uniform(1, 20) * DAY)
            at = min(at, story.judged_us - int(random.uniform(1, 5) * DAY))
            story.sheet.vouch(voucher, contributor.name, at, "two merged pull requests", *evidence)
    _draw_maintainers_vouches(story)
    for name in REVERTED:
        _draw_revert(story, name)
    _draw_comments(story)
    _draw_declarations(story)
    _draw_noise(story)
    # The newest frame of each stage does not depend on the attacks, so every variant has one present.
    story.sheet.announce(story.sheet.did("teo"), story.judged_us - 250_000)
    story.sheet.announce(story.sheet.did("ana"), story.end_us - 250_000)


def _draw_declarations(story: Story) -> None:
    """Have three people name what is theirs elsewhere, before the watching begins.

    Each claim is signed, and the domain of mara links back; one link of hers does not.
    """
    for number, (name, kind, subject, proof) in enumerate(CLAIMS):
        at = story.judged_us - (40 + number) * DAY
        record = account_claim(story.sheet.did(name), kind, subject, proof, iso(at))
        story.sheet.put(name, ACCOUNT_CLAIM, encode_tid(at), record, at)
    links = [f"https://{story.sheet.people['mara'].handle}", "https://elsewhere.example.test/@mara"]
    story.sheet.put("mara", PROFILE, "self", {"description": "", "links": links}, story.judged_us - 50 * DAY)


def choose_project(random: Random, name: str) -> Project:
    """Return a project in which somebody else can merge work by `name`."""
    return random.choice([project for project in PROJECTS if mergers(project, name)])


def mergers(project: Project, author: str) -> list[str]:
    """Return the push-holders other than the author."""
    return [name for name in (project.owner, *project.others) if name != author]


def settle(story: Story, random: Random, name: str, opened_us: int, merged: bool) -> Pull:
    """Draw a pull request that a push-holder merged or closed before the first stage ends."""
    project = choose_project(random, name)
    pull = story.sheet.open_pull(name, project, make_edit(random, project.language, project.folder), opened_us)
    wait = random.uniform(0.1, 6) if merged else random.uniform(3, 30)
    at = opened_us + min(int(wait * DAY), (story.judged_us - opened_us) * 6 // 10)
    story.sheet.set_status(random.choice(mergers(project, name)), pull, "merged" if merged else "closed", at)
    if merged:
        story.merged_us[pull.uri] = at
    (story.settled if merged else story.closed).setdefault(name, []).append(pull)
    return pull


def open_now(
    story: Story, random: Random, name: str, trap: bool = False, project: Project | None = None, days: float = 9
) -> Pull:
    """Draw a pull request of the last `days` days that waits for a decision."""
    project = project or choose_project(random, name)
    at = story.judged_us - 2 * HOUR - int(random.uniform(0, days) * DAY)
    pull = story.sheet.open_pull(name, project, make_edit(random, project.language, project.folder, trap), at)
    story.open.setdefault(name, []).append(pull)
    return pull


def _add_people(story: Story) -> None:
    for contributor in HONEST:
        random = draw(story.sheet.seed, contributor.name, "arrival")
        before = random.uniform(1, 5) if contributor.since < 15 else random.uniform(20, 900)
        did = "did:web:quill.example.test" if contributor.name == "quill" else ""
        story.sheet.add_person(contributor.name, story.end_us - int((contributor.since + before) * DAY), did=did)
    for number, project in enumerate(PROJECTS):
        story.sheet.add_repository(project, story.end_us - (735 - number) * DAY)
    for name in IDENTITY_EVENTS:
        at = story.judged_us - int(draw(story.sheet.seed, name, "identity").uniform(1, 60) * DAY)
        story.sheet.announce(story.sheet.did(name), at, story.sheet.people[name].handle if name == "mara" else "")


def _draw_work(story: Story, contributor: Contributor) -> None:
    random = draw(story.sheet.seed, contributor.name, "work")
    outcomes = [True] * contributor.merged + [False] * contributor.closed
    random.shuffle(outcomes)
    # Settled work ends a little before now; the last merges are younger than the 14 days of a label and still wait.
    youngest = min(9.0, contributor.since * 0.4)
    ages = sorted((random.uniform(youngest, contributor.since) for _ in outcomes), reverse=True)
    for age, merged in zip(ages, outcomes, strict=True):
        settle(story, random, contributor.name, story.end_us - int(age * DAY), merged)
    for _ in range(contributor.open):
        open_now(story, random, contributor.name, days=min(9, contributor.since))


def _draw_maintainers_vouches(story: Story) -> None:
    sheet, now = story.sheet, story.judged_us
    for name, other in ((MAINTAINERS[0].name, MAINTAINERS[1].name), (MAINTAINERS[1].name, MAINTAINERS[0].name)):
        sheet.vouch(name, other, now - 600 * DAY - len(name), "we maintain this together")
    sheet.vouch("ana", "mara", now - 40 * DAY, "still the most careful of us", *story.settled["mara"][-2:])
    sheet.vouch("ana", "blitz", now - 20 * DAY, "five machine-made changes in a week", kind="denounce")
    sheet.vouch("rosa", "emil", now - 50 * DAY, "met at a conference")
    sheet.retract("rosa", "emil", now - 30 * DAY)


def _draw_revert(story: Story, name: str) -> None:
    """Draw how Teo reverts a merged change four days later, and Ana, who may push everywhere, merges the revert."""
    pull = story.settled[name][len(story.settled[name]) // 2]
    project = next(project for project in PROJECTS if project.name == pull.project)
    at = story.merged_us[pull.uri] + 4 * DAY
    body = f"This reverts {pull.uri}: it broke reading what older versions wrote."
    revert = story.sheet.open_pull("teo", project, pull.edit.reversed(), at, body)
    story.sheet.set_status("ana", revert, "merged", at + HOUR)
    story.merged_us[revert.uri] = at + HOUR


def _draw_comments(story: Story) -> None:
    for name in ("mara", "sami", "alba", "ruben", "farah"):
        random = draw(story.sheet.seed, name, "talk")
        pull = story.open[name][0]
        story.sheet.comment("ana", pull, random.choice(QUESTIONS), pull.opened_us + HOUR)
        story.sheet.comment(name, pull, "Sure, thank you for the quick answer.", pull.opened_us + HOUR + HOUR // 2)
        story.sheet.follow(name, "ana", pull.opened_us + HOUR // 4)


def _draw_noise(story: Story) -> None:
    """Draw identity and account events of people who never come here, and posts that a filter should drop."""
    random = draw(story.sheet.seed, "strangers")
    for number in range(STRANGERS):
        at = story.judged_us - int(random.uniform(0.1, 90) * DAY)
        story.sheet.announce(make_did(story.sheet.seed, "stranger", number), at, status="deleted" if number < 3 else "")
    for number in range(POSTS):
        at = story.judged_us - int(random.uniform(0.1, 90) * DAY)
        story.sheet.put("mara", "app.bsky.feed.post", f"post-{number}", {"text": f"day {number}"}, at)


WATCHED_DAYS, LOOKS = 30, 6
STEP_US = WATCHED_DAYS * DAY // LOOKS
# The looks at which the main repository's lane is opened, the bad change is approved, and the bad change is marked.
OPENED, APPROVED, MARKED = 2, 4, 5


@dataclass(frozen=True)
class Sent:
    """A pull request of these days; `fate` is merged, closed, or changed (another round comes and is merged)."""

    author: str
    project: str
    at: int
    until: int
    fate: str = "merged"
    name: str = ""  # in `World.pulls`, if the story returns to it


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
    """Return the time of a look: 0 is the beginning of watching, LOOKS is `judged_us`, the end of the first stage."""
    return judged_us - (LOOKS - number) * STEP_US


def draw_weeks(story: Story) -> dict[str, tuple[str, ...]]:
    """Draw the thirty days; return the at-uris of the pull requests that the story returns to, by name."""
    projects = {project.name: project for project in PROJECTS}
    for number in range(LOOKS):  # ends each look with a frame that every subscriber gets
        story.sheet.announce(story.sheet.did("teo"), look_us(story.judged_us, number) - 250_000)
    pulls = [(sent, _play_sent(story, sent, projects[sent.project])) for sent in SENT]
    return {sent.name: (pull.uri,) for sent, pull in pulls if sent.name}


def _play_sent(story: Story, sent: Sent, project: Project) -> Pull:
    random = draw(story.sheet.seed, "weeks", sent.author, sent.project, sent.at)
    opened_us = look_us(story.judged_us, sent.at) - _draw_part_of_step(random)
    edit = make_edit(random, project.language, project.folder)
    pull = story.sheet.open_pull(sent.author, project, edit, opened_us)
    if sent.fate == "changed":
        time_us = look_us(story.judged_us, sent.at) + _draw_part_of_step(random)
        new_round = story.sheet.make_round(pull.author, make_edit(random, project.language, project.folder), time_us)
        record = {**pull.record, "rounds": [*pull.record["rounds"], new_round]}
        story.sheet.put(pull.author, PULL, pull.rkey, record, time_us)
    settled_us = look_us(story.judged_us, sent.until) - _draw_part_of_step(random)
    status = "closed" if sent.fate == "closed" else "merged"
    story.sheet.set_status(random.choice(mergers(project, sent.author)), pull, status, settled_us)
    return pull


def _draw_part_of_step(random: Random) -> int:
    return int(random.uniform(0.2, 0.6) * STEP_US)
