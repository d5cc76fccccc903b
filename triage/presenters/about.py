"""Describes the site: the page about it, made from its settings, and the help beside its numbers. Pure."""

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
    "eigentrust": SEEDS
    + "It flows along vouches from the owners of watched repositories and the site's maintainers until it settles "
    "(EigenTrust). This measure is the baseline: people can raise it by their own vouches.",
}
UNKNOWN = "Unknown is not bad"
HELP: Mapping[str, str] = {
    # The inbox.
    "In the inbox": "Open pull requests of watched repositories, without those that are approved or snoozed. Pull "
    "requests by people with push access are in their own group and in no lane.",
    "Flagged": "A person must look first: a finding, a warning by a seed, a low chance or a failed check. It says "
    "where to look, not that anybody means harm.",
    "Needs review": "The usual way. Most newcomers are here because little is known about them. That is not distrust.",
    "Fast lane": "Trust, record and content meet all conditions. A certified lane keeps the budget of {budget} % bad "
    "ones; an estimated one says its own limit. It is an offer: a person still approves.",
    "The order": "In each lane: first what changed after an approval, then what most needs a person by its findings "
    "and its chance, raised by waiting. Every third place is kept for the first-timer who has waited longest. "
    "Copies, then what waits for its author, come last.",
    "Stays clean": "Of 100 such pull requests, how many are merged and need neither a revert nor a fix within {window} "
    "days. A refused one counts as not clean. It says nothing about taste, usefulness or the person.",
    "95 % interval": "The true share lies in this range, as far as the record shows. A wide range means few past "
    "cases, not poor work. Chances are rounded down and shares of bad ones up, so that no figure looks too good.",
    "The marks": "The stroke is the chance, the bar its interval, the triangle where the fast lane starts; only "
    "maintainers see the triangle. A dashed ring is no score yet, a die a random audit.",
    "No score yet": "This person has no settled pull request, so there is no number. "
    + UNKNOWN
    + ": a person looks, as "
    "usual. A trained model may tell a chance all the same; however low, it flags nobody without a record.",
    "Content risk": "What the scanners found in the change, and Claude where a repository allows it. 0 % means "
    "nothing was found, not that nothing is there. It can only lower a lane.",
    "Structural trust": "From 0 to 1: how much trust of the seeds arrives along vouches. Other seeds would give "
    "another figure. 0 means that no path is known, not distrust.",
    "The bars": "How much each fact moved the chance up or down. A long bar is a large effect in this model, not proof "
    "of a cause.",
    # The dashboard.
    "Came in": "Pull requests opened in those seven days in watched repositories. Those by people with push access are "
    "not counted.",
    "Decided": "Merged, closed or withdrawn in those seven days, by anybody. Those by people with push access are not "
    "counted; the list of decided ones has them, and leaves out what was withdrawn.",
    "First answer": "The first comment by somebody with push access, or the merge or close. Other comments do not "
    "count.",
    "Unreadable events": "Events that this version cannot read. It keeps them and tries again after an update. They "
    "never change a score.",
    "Watched repositories": "Only these have an inbox, reviews and decisions.",
    "Would have changed lane": "Pull requests that change lane only because another reader read them.",
    "Events ignored: not your people": "News about accounts that wrote nothing here. They are not kept.",
    "Bad ones the lane let through, backtest": "Past pull requests that the fast lane would have taken, and how many "
    "were bad. People reviewed those too, so without review the share may be higher.",
    "Vouch graph": "Everybody with a record on this site, and the current vouches and warnings among them, without "
    "those for oneself. Size does not count: only what a seed reaches carries trust.",
    "Scores of contributors": "How many people have which chance. People without a number are counted beside it.",
    "Reliability": "The chance we gave, beside the result, bin by bin. Near the dashed line the numbers can be "
    "trusted. It does not say whether they tell good work from bad.",
    "Bad ones the lane let through": "Dots: what today's model would have let through then. Squares: what the lane did "
    "let through, by month of the outcome. A fault that nobody noticed counts as clean; audits have no such bias.",
    "Limit": "The share of bad ones that a lane may let through. It shuts itself once enough have settled to show more "
    "than that. A certified lane has your budget as its limit, an estimated one the upper end of its estimate.",
    "First-timers and regulars": "A first-timer had nothing merged or closed here before they opened it. A difference "
    "may come from what they send; it is worth a look.",
    "Pull requests": "All that reached this site, open or not, from watched and other repositories.",
    "Open pull requests whose content was read": "Read at least by the scanners. Others can never be fast lane.",
    "Readings by a model in thirty days": "Calls to Claude and their cost by this site's price list. Anthropic's bill "
    "may differ.",
    "Cost of one: median, 95th percentile": "Half of the readings cost at most the first; 19 of 20 at most the second.",
    "Read again by a newer prompt or model": "Pull requests that the newest reader and an older one both read. It "
    "shows how much the reader matters.",
    "Their mean content risk before, since": "How strict each reader is on the same pull requests. Higher is not "
    "better.",
    "Gaps in the stream, not filled yet": "Times without a connection to the stream. Until a backfill fills a gap, a "
    "score may miss something.",
    "Unknown collections, fields and values": "Shapes of records that this version does not know. It keeps them; they "
    "change nothing yet.",
    # A contributor.
    "Vouches": "People who say on the network that they trust this person. A vouch weighs as much as the seeds trust "
    "its author. A hundred by strangers weigh nothing; none at all is unknown, not bad.",
    "Score history": "The chance as it was at each moment. Outcomes, vouches and new models move it. A step down is "
    "not a verdict on newer work.",
    "Merged here": "Merges by somebody with push access, or proven by the patch. The author's own word does not count.",
    "Clean of settled": "Merges older than {window} days that needed neither a revert nor a fix. Younger ones do not "
    "count yet.",
    "With your vouch": "Structural trust with one more vouch by you. It does not say that they deserve it: vouch only "
    "for people you know.",
    "Trust now": "Structural trust without that vouch. 0 means that no path is known.",
    "Record": "Clean: merged, without a revert or fix in the days after. Not counted yet: those days are not over. A "
    "pull request that was not merged does not count.",
    "Proven or claimed": "Proven: somebody else confirms it, by a signature or by naming them in turn. Told: a service "
    "says so of their account. Claimed: only they say so. Nothing of this raises a score or a lane. Only a usual "
    "signature that is missing holds a change back.",
    # The leaderboard.
    "Rank": "The order by the chosen column, as these seeds see it. It does not measure a person.",
    "Merged": "Merged pull requests, as far as that is proven.",
    "Reverts": "Merged pull requests that were reverted in time. A revert is often nobody's fault.",
    "Steps": "Vouches between a seed and this person on the shortest path. Fewer does not mean better work.",
    # The backtest.
    "Pairs in the right order": "Of 100 pairs of a clean and a bad pull request, in how many the clean one scored "
    "higher: 100 is perfect, 50 is chance.",
    "First tenth, first third": "All of these pull requests in one list: the share of the bad ones at its beginning. "
    "Waits are played with the verdicts a day that were really given.",
    "Budget": "The lane as it would have opened month by month with the knowledge of that time. Estimated: the best "
    "guess. Certified: tested first, so it opens later. Past projects promise nothing for yours.",
    # The attack simulations.
    "Largest rise": "The most by which one person raised the chance alone, for example by splitting work, tried on the "
    "newest five years. These people did nothing wrong. No pull request gets more than its author has.",
    # A lane that only watches, bulk approval, an incident.
    "Would be fast lane": "Rounds that met every condition while the lane was shut. Open ones have no result yet.",
    "Merged as sent": "People merged exactly that round. The lane agreed with them; the pull request may still need a "
    "fix.",
    "May need a fix": "About how many of these will be reverted or fixed, going by their chances. The worst takes each "
    "chance at the lower end of its interval; more can still happen.",
}
QUEUE = (
    "In the inbox",
    "Flagged",
    "Needs review",
    "Fast lane",
    "Would be fast lane",
    "The order",
    "Stays clean",
    "95 % interval",
    "The marks",
    "No score yet",
)
PANEL = ("Stays clean", "95 % interval", "Structural trust", "The bars", "Content risk")
BACKLOG = ("Came in", "Decided")
CALIBRATION = ("Reliability",)
APPROVALS = ("Limit", "Bad ones the lane let through", "Bad ones the lane let through, backtest", "95 % interval")
FARES = ("First answer", "First-timers and regulars")
BUDGETS = ("Budget", "95 % interval")
SHADOW = ("Would be fast lane", "Merged as sent")
STORED = (
    "Pull requests",
    "Vouch graph",
    "Watched repositories",
    "Open pull requests whose content was read",
    "Readings by a model in thirty days",
    "Cost of one: median, 95th percentile",
    "Read again by a newer prompt or model",
    "Their mean content risk before, since",
    "Would have changed lane",
    "Gaps in the stream, not filled yet",
    "Unknown collections, fields and values",
    "Unreadable events",
    "Events ignored: not your people",
    "Scores of contributors",
)
CONTRIBUTOR = ("Stays clean", "95 % interval", "No score yet", "Structural trust", "The bars")
VOUCHED = ("Vouches", "Score history")
WORTH = ("Merged here", "Clean of settled", "Trust now", "With your vouch")
LEADERBOARD = ("Rank", "Stays clean", "95 % interval", "Merged", "Reverts", "Steps")
PLACES: Mapping[str, Sequence[str]] = {
    "queue": QUEUE,
    "panel": PANEL,
    "backlog": BACKLOG,
    "stored": STORED,
    "contributor": CONTRIBUTOR,
    "vouched": VOUCHED,
    "record": ("Record",),
    "known": ("Proven or claimed",),
    "worth": WORTH,
    "leaderboard": LEADERBOARD,
    "reliability": CALIBRATION,
    "approvals": APPROVALS,
    "fares": FARES,
    "order": ("First tenth, first third",),
    "pairs": ("Pairs in the right order",),
    "budgets": BUDGETS,
    "lift": ("Largest rise",),
    "shadow": SHADOW,
    "bulk": ("Stays clean", "May need a fix"),
    "incident": ("Stays clean", "95 % interval", "Content risk"),
}


@dataclass(frozen=True, slots=True)
class Facts:
    """The settings that the page speaks of, as they are. `budget`, `delta` and those audited are shares, `window` days.

    `models` are the ids that read changes, empty where no key is set. `readers` are the repositories whose changes
    Claude may read and all that are watched, None where the viewer may not know. `publishes` names the account as which
    the site publishes lanes, "" for none.
    """

    measure: Measure
    hops: int
    window: int
    budget: float
    delta: float
    is_by_hand: bool
    audited: float
    audited_estimated: float
    models: tuple[str, ...]
    dollars: float
    api: str
    readers: tuple[int, int] | None
    streams: tuple[str, ...]
    directories: tuple[str, ...]  # of accounts: the PLC directory and those that say who keeps our records
    profiles: str
    forge: str
    asks_advisories: bool
    asks_registries: bool
    asks_declared: bool
    objection_days: int
    is_recording: bool
    false_alarms: Mapping[str, int] = field(default_factory=dict)  # by scanner, the most first
    publishes: str = ""
    pushes: bool = False  # to browsers of maintainers who turned notifications on
    buys_speech: bool = False  # ElevenLabs makes the sound of the briefing's podcast


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
    """Say who runs the site; `staged` is what a demo or a replay is, of which no operator is told."""
    if staged:
        return Operator(f"This site is {staged}, and nobody runs it for others.")
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
        "no number, or one by a trained model alone, which flags nobody: unknown is not bad.",
        "Checks: scanners read every change of a watched repository. Content can only lower a lane, never raise it. "
        + _reader(facts)
        + _false_alarms(facts.false_alarms),
        f"The fast lane is certified only where at most {percent_in_full(facts.budget)} of what it lets through is "
        f"bad, the site's budget. Past outcomes must show that, with a risk of error of {percent_in_full(facts.delta)}."
        + by_hand,
        f"A random audit draws {percent_in_full(round(facts.audited_estimated, 3))} of an estimated fast lane and at "
        f"least {percent_in_full(facts.audited)} of a certified one; a person checks it without seeing the score.",
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
        "time zone. We do not ask for, guess or buy any of it. Maintainers may state a time zone, for quiet hours. "
        "They may also have the rough time zone of commits compared with the same person's own; it is never shown.",
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
        told.append(
            "To osv.dev and deps.dev: names and versions of packages that pull requests name; to deps.dev only those "
            "that they add."
        )
    else:
        told.append("To osv.dev and deps.dev: nothing, packages are checked against a copy on this machine.")
    if facts.asks_declared:
        told.append(
            "To GitHub and to the domains that people link from their own profile or claims: that we look whether they "
            "link back, or who signed a claim."
        )
    if facts.asks_registries:
        told.append("To npm and crates.io: names of packages that pull requests add, for their downloads.")
        told.append("To npm, crates.io and PyPI: the accounts and projects that people have proven to be theirs.")
        told.append(
            "To scorecard.dev and GitHub: the upstream that a watched repository's record links, for its Scorecard and "
            "how it fares."
        )
    if facts.pushes:
        told.append(
            "To the push services of maintainers who turned notifications on: that this site sends them a message, and "
            "when. It holds counts, encrypted for their browser."
        )
    if facts.buys_speech:
        told.append(
            "To ElevenLabs: the text of maintainers' podcasts, which is counts, ages and names of watched repositories."
        )
    if facts.publishes:
        told.append(
            f"In public, as {facts.publishes}: lanes of pull requests to repositories whose maintainers chose that, "
            "with reasons about the change. Never of people who objected or asked not to be listed."
        )
    kept = "Scores, trust" if facts.publishes else "Scores, decisions"
    told.append(f"{kept} and actions stay here. No visitor is counted or followed.")
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


def help_for(place: str, window: int, budget: float) -> tuple[tuple[str, str], ...]:
    """The numbers of one place and their sentences; `budget` is a share in (0, 1)."""
    return tuple((name, HELP[name].format(window=window, budget=f"{100 * budget:g}")) for name in PLACES[place])
