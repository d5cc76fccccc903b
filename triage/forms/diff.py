"""The address of a diff as a view: which round, since which other one, which file alone. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from scoring.queries.read import Round


@dataclass(frozen=True, slots=True)
class DiffQuery:
    """One view of a pull request's change. `since` None: the whole round; `file` 0: all files."""

    found: Round | None
    since: Round | None = None
    file: int = 0
    notes: tuple[str, ...] = ()  # what of the address was left aside

    @property
    def same_patch(self) -> bool:
        """Return whether both rounds were read as one and the same patch."""
        one, other = self.found, self.since
        return bool(one and other and one.patch_id is not None and one.patch_id == other.patch_id)

    def search(self, found: Round | None, since: Round | None = None, file: int = 0) -> str:
        """The query string of another view: of a round, since another, of one file alone."""
        values = {"round": found.key if found and not found.newest else "", "since": since.key if since else ""}
        told = {name: value for name, value in {**values, "file": str(file or "")}.items() if value}
        return f"?{urlencode(told)}" if told else ""


def read_diff(values: Mapping[str, str], rounds: Sequence[Round]) -> DiffQuery:
    """The view that an address names; what cannot be understood is left aside with a note. Never raises."""
    by_key = {one.key: one for one in rounds}
    newest = next((one for one in rounds if one.newest), None)
    notes = []
    found = by_key.get(values.get("round", ""), newest)
    if values.get("round", "") not in ("", *by_key):
        notes.append("This round is not known here. Here is the latest one.")
    since = by_key.get(values.get("since", ""))
    if values.get("since", "") not in ("", *by_key) or (since is not None and since == found):
        notes.append("The other round is not known here. Here is the whole round.")
        since = None
    text = values.get("file", "")
    file = int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 else 0
    if text and not file:
        notes.append("This file is not known here. Here are all files.")
    return DiffQuery(found, since, file, tuple(notes))
