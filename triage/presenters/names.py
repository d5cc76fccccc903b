"""Addresses of things on the forge's own site, by what is known of them now. Pure."""

import re
from dataclasses import dataclass

from scoring.queries.read import ForgeHome

_OWNER = re.compile(r"[A-Za-z0-9.:-]{1,253}")
_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, slots=True)
class ForgePlace:
    """An address on the forge, and what a link to it says."""

    url: str
    words: str


def forge_place(home: ForgeHome, site: str) -> ForgePlace | None:
    """The nearest page on the forge at `site`: the pull request's, else its repository's list, else its author's.

    A repository that moved is addressed by who owns it now and as it is called now. None where the
    author's DID is none that the forge would give.
    """
    if not _OWNER.fullmatch(home.author):
        return None
    base, owner = site.rstrip("/"), home.handle or home.owner or ""
    if not (home.name and _NAME.fullmatch(home.name) and _OWNER.fullmatch(owner)):
        return ForgePlace(f"{base}/{home.author}", "Open its author on Tangled")
    pulls = f"{base}/{owner}/{home.name}/pulls"
    if home.number is None:
        return ForgePlace(pulls, f"Open {home.name} on Tangled")
    return ForgePlace(f"{pulls}/{home.number}", f"Open {home.name} #{home.number} on Tangled")
