"""The values of a judgement that all parts share: lanes, reasons, factors, estimates, verdicts, findings. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2s
from typing import Literal

import msgspec

FlagType = Literal[
    "subtle_bug", "slop", "security", "secret_leak", "license", "intent_mismatch", "untested", "oversized", "other"
]
QUOTE_LENGTH = 200  # characters of the quoted line that are kept
PATH_LENGTH = 200  # characters of a path that are kept; a longer one is cut in the middle


class Severity(StrEnum):
    """The weight of a finding. The floor that it puts under the content risk: low .10, med .40, high .80."""

    LOW = "low"
    MED = "med"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation of one scanner, certain enough to be shown with its line.

    `scanner` is the id of the scanner, `rule` the rule within it. `file` is a path of the change, None where the
    finding concerns the title, the description or the change as a whole. `line` counts from 1 in the new file, in the
    old one where `removed` is true; None: the whole file. `quote` is that line, cut at QUOTE_LENGTH, with secrets
    masked. `explanation` is one plain sentence on the fault and where to look; it holds no text of the change except
    names that the scanner itself checked.
    """

    scanner: str
    rule: str
    type: FlagType
    severity: Severity
    explanation: str
    file: str | None = None
    line: int | None = None
    quote: str = ""
    removed: bool = False


def short_path(path: str) -> str:
    """Return the path in at most PATH_LENGTH characters: a long one as its two ends around a hash of the whole."""
    if len(path) <= PATH_LENGTH:
        return path
    middle = f"…{blake2s(path.encode('utf-8', 'replace'), digest_size=4).hexdigest()}…"
    end = (PATH_LENGTH - len(middle)) // 2
    return path[:end] + middle + path[-end:]


Pair = tuple[int, int]  # contributor_id, repository_id
REASON_LENGTH = 500
Param = str | int | float | None
Tier = Literal["public", "sensitive"]
Attestation = Literal["not_asked", "valid", "missing", "expired", "revoked", "unverifiable"]
Measure = Literal["first_passage", "eigentrust"]  # what is served as structural trust


class Lane(StrEnum):
    """The lane of a pull request, in the order of the queue."""

    NEEDS_HUMAN = "needs_human"
    NORMAL_QUEUE = "normal_queue"
    FAST_LANE = "fast_lane"


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for a lane, or against it: a code with parameters; `scoring.explain.sentences` has its words."""

    code: str
    params: Mapping[str, Param]


MOST_FACTORS = 8  # that a trained model names of those that move a score


@dataclass(frozen=True, slots=True)
class Factor:
    """One fact that a score rests on.

    `effect` is its signed share of P(clean), in probability units; None for a fact that is shown but does not move P.
    """

    name: str
    value: Param
    effect: float | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """P(clean) with its 95 % interval, all in [0, 1]; `probability` is None for "not enough evidence".

    `cases` is the number of settled pull requests behind it.
    """

    probability: float | None
    low: float
    high: float
    cases: int


NO_ESTIMATE = Estimate(None, 0.0, 1.0, 0)


@dataclass(frozen=True, slots=True)
class Needed:
    """A change that alone would bring P(clean) to the next lane: `needed`, with the `value` that it has now.

    `name` is 'clean_here' (`needed` more pull requests there that stay clean, where `value` are merged),
    'structural_trust' or 'denounce_count'.
    """

    name: str
    value: float
    needed: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """A trained model's prediction for one contributor or one change.

    `factors` are the features that it weighed, with their shares of P(clean), the largest first; `model` names the file
    that says how it was trained and how well it did. `ways` are given for changes that P keeps out of a better lane.
    """

    estimate: Estimate
    factors: tuple[Factor, ...]
    model: str
    ways: tuple[Needed, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence on one contributor in one repository at one moment.

    `clean` and `not_clean` count settled pull requests in every repository that counts; `merged_here`,
    `settled_here` only those in this one; `waiting` is merged with its window still open.
    `path` is the strongest trust path as handles or DIDs, seed first, the contributor last; empty if there is none;
    `path_merges` says of each vouch on it how many merges it stands for, 0 or nothing for a real vouch.
    `one_account`: the loss of one account that is not a seed would end this trust, or no path is known at all.
    `trusted_denouncers` counts the denouncers with s >= .1, seeds included.
    """

    clean: int = 0
    not_clean: int = 0
    merged_here: int = 0
    settled_here: int = 0
    waiting: int = 0
    structural_trust: float = 0.0
    eigentrust: float = 0.0
    distance: int | None = None
    path: tuple[str, ...] = ()
    path_merges: tuple[int, ...] = ()
    one_account: bool = False
    is_seed: bool = False
    denounced_by_seed: bool = False
    trusted_denouncers: int = 0


@dataclass(frozen=True, slots=True)
class Content:
    """The result of one change's review, for the gate.

    `risk` in [0, 1]; `high_flags` counts flags of severity high, `worst` is the type of the strongest flag and `place`
    its place, both None where there is none. `has_verdict` is false where a reading was asked for and is missing,
    refused or cut, or where findings are incomplete; `missing` is then its code. `coverage` is the share of the changed
    lines that was read, in [0, 1].
    """

    risk: float
    recommended: bool
    coverage: float = 1.0
    high_flags: int = 0
    worst: str | None = None
    place: str | None = None
    has_verdict: bool = True
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class AccountChange:
    """A change of an account that a pull request depends on.

    `who` is the author, a seed or another voucher on the only trust path, then with its `name` as shown; `kind` is
    'key_rotations', 'pds_moves', 'handle_changes', 'recoveries' (of the directory's log), 'returns' (the account was
    gone) or 'identity' (a change of an identity document without a public log); `days` are whole days since.
    """

    who: Literal["author", "seed", "voucher"]
    kind: str
    days: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class LaneClosed:
    """A closure of the fast lane by a person that holds for a change.

    `scope` is 'site' (every repository), 'repository', 'author' (the changes of one author) or 'voucher' (trust through
    one voucher). `by` is the shown name of the person who closed it; `name` that of the author or voucher.
    """

    scope: Literal["site", "repository", "author", "voucher"]
    by: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Draw:
    """The draw of a pull request for the audit: its result, and its odds in [0, 1]."""

    drawn: bool
    odds: float


@dataclass(frozen=True, slots=True)
class PeerFlag:
    """A peer's proven assessment that sends a change to a person.

    `name` is the peer's as shown, `uri` its record's address; `weight` in [0, 1] is what `audits` audited outcomes here
    say of its word.
    """

    name: str
    uri: str
    weight: float
    audits: int


@dataclass(frozen=True, slots=True)
class Signing:
    """A round that lacks the signature which its author's commits usually have.

    `lacks`: a commit is 'unsigned', or signed with an 'unknown_key', which the author does not declare, or with a
    'new_key', first seen `key_days` ago; 'unchecked': the commits could not be read yet. Of the author's last `checked`
    commits `signed` were signed by a key of theirs. `has_moved`: its coarse time zone is none of the author's own.
    """

    lacks: Literal["unsigned", "unknown_key", "new_key", "unchecked"]
    signed: int
    checked: int
    key_days: int | None = None
    has_moved: bool = False


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The circumstances of one change at the moment of its decision, for the conditions of the fast lane.

    The defaults stand for unknown circumstances, which never allow the fast lane. `judged_round` is the round that the
    review read, `newest_round` the newest that was seen. `pending` names the look-ups that have not ended ('identity',
    'patch', 'ci', 'push_holders'). `account_changes` are the newest of each account and kind, of at most
    `account_change_days`. `silent_days` is the longest gap, in whole days, between two signs of the author that ended
    at most `account_change_days` before the newest round; None for an author who was not seen before this pull request.
    `touched` are the kinds of files and the patterns in this change that never allow the fast lane. `draw` is None
    until the change is drawn. `closures` are the closures of the fast lane that hold for this change. `objected`: its
    author objects without an answer yet, or "maintainer": a maintainer does so in their name; `outdated`: another round
    of it was approved. None: unknown. `tests_failed`: CI failed on this round; where CI is unknown, `pending` says so.
    `peer_flags` are those of peers whose word weighs enough. `signing` is None for an author who does not usually sign,
    for a round that carries no signatures because it is a patch, and for one that lacks nothing.
    """

    judged_round: int | None = None
    newest_round: int | None = None
    pending: tuple[str, ...] | None = None
    account_changes: tuple[AccountChange, ...] | None = None
    silent_days: int | None = None
    touched: tuple[str, ...] | None = None
    tier: Tier = "public"
    attestation: Attestation = "not_asked"
    draw: Draw | None = None
    closures: tuple[LaneClosed, ...] | None = None
    objected: bool | Literal["maintainer"] | None = None
    outdated: bool | None = None
    tests_failed: bool = False
    peer_flags: tuple[PeerFlag, ...] = ()
    signing: Signing | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A lane with its estimate, factors and reasons; `reasons` are never empty, the strongest first."""

    lane: Lane
    estimate: Estimate
    reasons: tuple[Reason, ...]
    factors: tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class Person:
    """A person as shown: `name` is the verified handle, else the shortened DID."""

    did: str
    name: str


class ShownFinding(msgspec.Struct, frozen=True):
    """A finding as stored."""

    scanner: str
    rule: str
    type: FlagType
    severity: Literal["low", "med", "high"]
    explanation: str
    file: str | None
    line: int | None
    removed: bool
    quote: str

    @classmethod
    def of(cls, finding: Finding) -> "ShownFinding":
        """Return a finding as it is stored and shown."""
        return cls(
            finding.scanner,
            finding.rule,
            finding.type,
            finding.severity.value,
            finding.explanation,
            finding.file,
            finding.line,
            finding.removed,
            finding.quote,
        )
