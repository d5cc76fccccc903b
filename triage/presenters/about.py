"""Describes the site from its settings: how it works, what it never uses, what leaves it, how to object. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from scoring.explain.findings import scanner_words
from scoring.formatting import percent_in_full
from scoring.types import Measure

SEEDS = "Trust starts at the seeds: owners of watched repositories, people with push access, and maintainers. "
MEASURES: dict[Measure, str] = {
    "first_passage": SEEDS + "It flows along vouches for at most {hops} steps and shrinks with each. Nobody passes on "
    "more than a fixed amount, so accounts that vouch for one another gain nothing by being many.",
    "eigentrust": SEEDS + "It flows along vouches until it settles (EigenTrust). This measure is the baseline: "
    "people can raise it by their own vouches.",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """The settings that the page speaks of, as they are. `budget`, `delta` and `audited` are shares, `window` days.

    `models` are the ids that read changes, empty where no key is set. `readers` are the repositories whose changes
    Claude may read and all that are watched, None where the viewer may not know.
    """

    measure: Measure
    hops: int
    window: int
    budget: float
    delta: float
    is_by_hand: bool
    audited: float
    models: tuple[str, ...]
    dollars: float
    api: str
    readers: tuple[int, int] | None
    streams: tuple[str, ...]
    directories: tuple[str, ...]  # of accounts: the PLC directory and those that say who keeps our records
    profiles: str
    forge: str
    asks_advisories: bool
    objection_days: int
    is_recording: bool
    false_alarms: Mapping[str, int] = field(default_factory=dict)  # by scanner, the most first


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: its anchor, its heading, its sentences."""

    anchor: str
    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """The operator of the site, in a sentence, and the address at which they are reached; "" where there is none."""

    words: str
    contact: str = ""

    @property
    def shown(self) -> str:
        """The address as people read it."""
        return self.contact.removeprefix("mailto:").removeprefix("https://")


def operator_told(name: str, contact: str, staged: str) -> Operator:
    """Say who runs the site; `staged` is what a demo or a replay is, for which nobody is responsible."""
    if staged:
        return Operator(f"Nobody is responsible for this site: it is {staged}.")
    if name:
        return Operator(f"{name} runs this site.", contact)
    return Operator("Contact of this site:" if contact else "This site does not say who runs it.", contact)


def sections(facts: Facts) -> tuple[Section, ...]:
    """The whole page."""
    return (
        Section("what", "What this site does, and what it does not do", _what()),
        Section("method", "How it judges", _method(facts)),
        Section("never", "What is never used", _never()),
        Section("leaves", "What leaves this machine", _leaves(facts)),
        Section("object", "How to object", _object(facts)),
    )


def _what() -> tuple[str, ...]:
    return (
        "It sorts incoming pull requests of watched Tangled repositories into three lanes: flagged, needs review, fast "
        "lane. It says why, and in which order to read them.",
        "It merges, closes, blocks and bans nothing: people decide. It does not judge whether a change is useful.",
        "It knows only public records of the network, what the repositories' own servers say, and what maintainers do "
        "here.",
    )


def _method(facts: Facts) -> tuple[str, ...]:
    by_hand = (
        " At present the operator set the threshold by hand; it is not certified."
        if facts.is_by_hand
        else " Without a certificate the fast lane stays shut until a maintainer opens it on an estimate, "
        "which every page then says."
    )
    return (
        "Who: " + MEASURES[facts.measure].format(hops=facts.hops),
        "Track record: merges proven by somebody with push access or by the patch itself. A merge is clean when "
        f"nobody reverted it or had to fix its lines within {facts.window} days.",
        "“Stays clean” is the calibrated chance of that, with a 95 % interval. Without a settled pull request there is "
        "no number: unknown is not bad.",
        "Checks: scanners read every change of a watched repository. Content can only lower a lane, never raise it. "
        + _reader(facts)
        + _false_alarms(facts.false_alarms),
        f"The fast lane is certified only where at most {percent_in_full(facts.budget)} of what it lets through is "
        f"bad, the site's budget. Past outcomes must show that, with a risk of error of {percent_in_full(facts.delta)}."
        + by_hand,
        f"A random audit draws at least {percent_in_full(facts.audited)} of the fast lane; a person checks it without "
        "seeing the score.",
    )


def _reader(facts: Facts) -> str:
    if not facts.models:
        return "Claude is off here: no key is set, so the scanners alone review."
    names = " or ".join(facts.models)
    told = f"Claude ({names}) reads those of repositories whose maintainers allow it"
    if facts.readers is not None:
        told += f", now {facts.readers[0]:,} of {facts.readers[1]:,}"
    return f"{told}, for at most ${facts.dollars:,.2f} a day; it never learns who wrote them."


def _false_alarms(counts: Mapping[str, int]) -> str:
    if not counts:
        return ""
    told = ", ".join(f"{scanner_words(scanner)} {count:,}" for scanner, count in counts.items())
    return f" Findings that maintainers here called false alarms: {told}."


def _never() -> tuple[str, ...]:
    return (
        "A person's place or origin, nationality, name, gender, language, picture, employer, address or "
        "time zone. We do not ask for, guess or buy any of it.",
        "The author of a change, in its content review: neither name, handle, DID, e-mail, date nor history "
        "reaches the reviewer.",
        "Warnings by people that no seed trusts, and claims without proof. A repository "
        "in the sensitive tier needs a signed attestation that the contributor made on purpose. Nothing is guessed "
        "where it is missing.",
    )


def _leaves(facts: Facts) -> tuple[str, ...]:
    if facts.is_recording:
        return ("Nothing: a recording is shown, and the other servers are stand-ins on this machine.",)
    told = [
        f"To Anthropic: {_to_anthropic(facts)}",
        f"To the stream ({_hosts(facts.streams)}): that we listen, and to which kinds of records.",
        f"To directories ({_hosts(facts.directories)}): the DIDs that are looked up, and which kinds of records we ask "
        "about.",
        "To data servers, knots, spindles and the domains of handles: which account, repository or run is asked for, "
        "as any reader of the network would ask.",
        f"To {_hosts((facts.profiles,))}: the DIDs of people who themselves declare that they are on Bluesky.",
        f"To {_hosts((facts.forge,))}: which repository's list of pull requests we read, for their numbers.",
    ]
    if facts.asks_advisories:
        told.append("To osv.dev and deps.dev: names and versions of packages that pull requests name.")
    else:
        told.append("To osv.dev and deps.dev: nothing, packages are checked against a copy on this machine.")
    told.append("Scores, decisions and actions stay here. No visitor is counted or followed.")
    return tuple(told)


def _to_anthropic(facts: Facts) -> str:
    if not facts.models:
        return "nothing, because no key is set."
    allowed = "" if facts.readers is None else f" ({facts.readers[0]:,} of {facts.readers[1]:,} now)"
    return (
        f"diffs, titles and descriptions of changes to repositories whose maintainers allow it{allowed}, scrubbed of "
        f"names and addresses, to {_hosts((facts.api,))}. Diffs of other repositories never."
    )


def _object(facts: Facts) -> tuple[str, ...]:
    return (
        "Sign in as your DID, or ask a maintainer for a link. Your page then shows everything stored about you, with "
        "its source. There you object to a score, a decision or a record.",
        f"A person answers within {facts.objection_days} days. Meanwhile the objection is shown beside the decision. "
        "You can be left out of the leaderboard on request.",
        "Deleting a record on your own server removes its effect here; deleting your account erases you here, from "
        "every table and file.",
    )


def _hosts(addresses: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(urlsplit(address).netloc for address in addresses)) or "nobody"
