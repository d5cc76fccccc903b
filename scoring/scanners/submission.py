"""The input of the scanners: the change, the texts beside it, and known facts. Pure data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from scoring.diff.change import Change, FileChange
from scoring.packages.entry import Package
from scoring.packages.publication import Publications, no_publications
from scoring.scanners.whole_files import NewSide, whole_files


@dataclass(frozen=True, slots=True)
class Account:
    """The author of a pull request, for findings such as "another person's commit", never for a reviewer.

    `emails` and `names` were declared or seen before; empty where nothing is known.
    """

    did: str
    handle: str | None = None
    names: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advisory:
    """One advisory about a version of a package. `url` is a public page about it."""

    id: str
    summary: str
    severity: str | None
    url: str


def _no_advisories(_packages: Sequence[Package]) -> list[tuple[Advisory, ...]]:
    return [() for _ in _packages]


def _no_likeness(_change: Change) -> tuple[float, str] | None:
    return None


def _no_files(_change: Change) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Facts besides the artefact; by default nothing is known and everything still runs.

    `advisories` answers for many packages at once, in their order; so does `publications`, with age and downloads.
    `likeness` gives the cosine in [0, 1] to the nearest known bad diff, with its pull request. `popular` maps an
    ecosystem to names that are imitated. `secret_rules` is the text of a gitleaks-format rule file, `sarif` the text of
    SARIF logs by the operator's own tools. `base_files` maps the paths of a change's files to their texts before it,
    where known.
    """

    licence: str | None = None  # SPDX expression of the target repository
    account: Account | None = None
    sensitive_paths: tuple[str, ...] = ()
    advisories: Callable[[Sequence[Package]], Sequence[tuple[Advisory, ...]]] = _no_advisories
    publications: Publications = no_publications
    likeness: Callable[[Change], tuple[float, str] | None] = _no_likeness
    popular: dict[str, frozenset[str]] = field(default_factory=dict)
    secret_rules: str | None = None
    sarif: tuple[str, ...] = ()
    base_files: Callable[[Change], Mapping[str, str]] = _no_files


@dataclass(frozen=True, slots=True)
class Submission:
    """One pull request as it was sent. `discussion` holds (role, text) in order, roles author, reviewer-1, bot, ….

    `whole` gives the new side of each file of the change, in its order, where all of it is known, else None. Without
    it, added files get theirs from the change alone. Title, description and discussion are empty where there is only a
    diff.
    """

    change: Change
    title: str = ""
    description: str = ""
    discussion: tuple[tuple[str, str], ...] = ()
    knowledge: Knowledge = field(default_factory=Knowledge)
    whole: tuple[NewSide | None, ...] | None = None

    def files(self) -> tuple[tuple[FileChange, NewSide | None], ...]:
        """Return each file of the change with its whole new side, None where it is unknown."""
        whole = whole_files(self.change, {}) if self.whole is None else self.whole
        return tuple(zip(self.change.files, whole, strict=True))
