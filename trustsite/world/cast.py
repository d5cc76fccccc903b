"""The people of the simulated network, with handles that name their roles."""

from dataclasses import dataclass

from trustsite.standins.answers import UPSTREAM
from trustsite.world.changes import Language

DAY = 86_400_000_000  # microseconds


@dataclass(frozen=True)
class Project:
    """A repository, its owner and the others who may push; `upstream` is the repository on GitHub that it links."""

    name: str
    owner: str
    others: tuple[str, ...]
    language: Language
    folder: str
    upstream: str = ""


@dataclass(frozen=True)
class Contributor:
    """One honest person: `merged` and `closed` settled pull requests since `since` days before the end, `open` now."""

    name: str
    since: float
    merged: int
    closed: int
    open: int
    vouchers: tuple[str, ...] = ()


KNOT, SPINDLE = "knot.example.test", "spindle.example.test"
SERVERS = ("https://pds.example.test", "https://garden.example.test")

PROJECTS = (
    Project("lantern", "ana", ("teo",), "python", "lantern", UPSTREAM),
    Project("tidepool", "teo", ("ana",), "go", "internal/store"),
    Project("driftwood", "ana", (), "javascript", "src"),
)

# Ana and Teo are the seeds of every repository here. They merge each other's work, never their own.
MAINTAINERS = (
    Contributor("ana", 730, 14, 0, 1),
    Contributor("teo", 720, 12, 1, 1),
)
REGULARS = (
    Contributor("mara", 710, 41, 1, 2, ("ana", "teo")),
    Contributor("ines", 690, 28, 3, 2, ("ana",)),
    Contributor("jonah", 640, 24, 4, 1, ("teo",)),
    Contributor("kemal", 600, 22, 2, 2, ("ana", "teo")),
    Contributor("lotte", 560, 26, 2, 1, ("ana",)),
    Contributor("marek", 520, 17, 5, 1, ("teo",)),
    Contributor("noor", 480, 19, 1, 2, ("ana", "teo")),
    Contributor("oskar", 420, 13, 3, 1, ("teo",)),
    Contributor("pim", 380, 12, 3, 1, ("ana",)),  # the careless one, whose vouch the ring buys
    Contributor("rosa", 300, 15, 1, 2, ("ana",)),
)
SECOND_HAND = (
    Contributor("sami", 260, 7, 1, 1, ("mara", "ines")),
    Contributor("tilde", 230, 5, 1, 1, ("kemal",)),
    Contributor("umar", 200, 6, 0, 1, ("mara", "noor")),
    Contributor("vera", 160, 3, 1, 1, ("pim",)),
    Contributor("wanda", 120, 4, 0, 1, ("lotte", "rosa")),
    Contributor("quill", 90, 2, 0, 1, ("jonah",)),  # a did:web: its age is unknown
)
NEWCOMERS = (
    Contributor("alba", 12, 0, 0, 1),
    Contributor("bodo", 9, 0, 0, 1),
    Contributor("chidi", 40, 1, 0, 1),
    Contributor("dana", 6, 0, 0, 1),
    Contributor("emil", 55, 0, 1, 1),
    Contributor("farah", 3, 0, 0, 2),
    Contributor("goran", 70, 2, 0, 1),
    Contributor("hilde", 2, 0, 0, 1),
)
# Mostly closed: the clean rate falls below .30, so a person must look.
TROUBLED = (
    Contributor("ruben", 210, 1, 13, 2),
    Contributor("sigrid", 640, 3, 16, 0),
    Contributor("tomas", 520, 2, 14, 0),
    Contributor("urs", 330, 1, 12, 0),
)
# Denounced by a maintainer for cause.
DENOUNCED = (Contributor("blitz", 45, 0, 5, 1),)

HONEST = MAINTAINERS + REGULARS + SECOND_HAND + NEWCOMERS + TROUBLED + DENOUNCED

GROUPS = {
    "maintainers": MAINTAINERS,
    "regulars": REGULARS,
    "second_hand": SECOND_HAND,
    "newcomers": NEWCOMERS,
    "troubled": TROUBLED,
    "denounced": DENOUNCED,
}

RING_SIZE = 12
ATTACKERS = {
    "ring": ("mallory", *(f"mallory-{number}" for number in range(2, RING_SIZE + 1))),
    "self_vouch": ("narcis",),
    "mutual_pair": ("castor", "pollux"),
    "denouncer": ("grudge",),
    "self_marked": ("selma",),
    "swap": ("switcher",),
    "stranger": ("drifter",),
}
