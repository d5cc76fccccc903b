"""Look at the other side of a link that a person declares: it counts only if what is there names the person too.

Two kinds of places are read: the public profile of a GitHub account, and the first page of a domain, which nobody but
its owner writes. A page inside a site may be written by anybody, so a link to one stays claimed. To name a person is to
give their DID, their proven handle, or the address of their page on Tangled or Bluesky. Sources: "Get a user" and "List
social accounts for a user" of docs.github.com/rest; microformats.org/wiki/rel-me.
"""

import html
import re
from collections.abc import Iterator
from urllib.parse import unquote

import msgspec

from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.http.sockets import is_fetchable
from ingest.lookups.declared.facts import CLAIMED, LINK, MUTUAL, Fact

GITHUB = re.compile(r"https://(?:www\.)?github\.com/([A-Za-z0-9](?:[A-Za-z0-9-]{0,38}))/?")
FIRST_PAGE = re.compile(r"https://([A-Za-z0-9.-]{1,253})/?")
SOCIAL = 20  # social accounts of a profile that are read
GITHUB_LIMIT, PAGE_LIMIT = 100_000, 300_000  # bytes
PAGE_SECONDS = 5.0  # the page's host is a stranger's: a slow one may not hold a thread for the full timeout
PROFILES = ("tangled.org/", "tangled.sh/", "bsky.app/profile/")
WORDS = re.compile(r"[\s<>()\"',;]+")
TAG = re.compile(r"<(?:a|link)\s([^<>]{1,2000})>", re.IGNORECASE)
ATTRIBUTE = re.compile(r"\b(rel|href)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)


class _User(msgspec.Struct):
    login: str
    id: int
    blog: str | None = None
    bio: str | None = None


class _Social(msgspec.Struct):
    url: str = ""


def check_link(fetcher: Fetcher, names: frozenset[str], address: str) -> Fact:
    """Return the link as mutual or claimed; `names` are the person's DID and proven handle. Raises FetchProblem.

    An answer that says no, or cannot be read, leaves it claimed; only one that may come later raises.
    """
    try:
        texts, page = _read_other_side(fetcher, address)
    except FetchProblem as problem:
        if problem.retry or problem.closed:
            raise
        return Fact(LINK, address, CLAIMED, None)
    if any(names_person(text, names) for text in texts):
        return Fact(LINK, address, MUTUAL, page)
    return Fact(LINK, address, CLAIMED, None)


def github_account(address: str) -> str | None:
    """Return the account in lower case if this is the page of one on GitHub."""
    found = GITHUB.fullmatch(address)
    return found[1].lower() if found else None


def read_github_user(fetcher: Fetcher, account: str) -> _User:
    """Return a public profile of GitHub. Raises FetchProblem, also if it is another account's."""
    user = fetcher.get_json(f"https://api.github.com/users/{account}", _User, GITHUB_LIMIT)
    if user.login.lower() != account:
        raise FetchProblem("the profile that was sent is another account's")
    return user


def names_person(text: str, names: frozenset[str]) -> bool:
    """Return True if a text gives one of these names as a word, or an address that is theirs alone."""
    return any(_name_in(word) in names for word in WORDS.split(text[:10_000]))


def _name_in(word: str) -> str:
    """Return the name that a word is: itself, a domain's first page, or the last part of a profile's address."""
    bare = re.sub(r"^(?:https?|at)://", "", word.strip(".").lower())
    for profile in PROFILES:
        bare = bare.removeprefix(profile)
    return unquote(bare.removeprefix("@").removesuffix("/"))


def _read_other_side(fetcher: Fetcher, address: str) -> tuple[list[str], str]:
    """Return the texts in which the other side may name the person, and the address at which people see them."""
    if account := github_account(address):
        user = read_github_user(fetcher, account)
        social = fetcher.get_json(
            f"https://api.github.com/users/{account}/social_accounts", list[_Social], GITHUB_LIMIT
        )
        texts = [user.blog or "", user.bio or "", *(one.url for one in social[:SOCIAL])]
        return texts, f"https://github.com/{account}"
    if FIRST_PAGE.fullmatch(address) and is_fetchable(address):
        page = fetcher.get(address, PAGE_LIMIT, PAGE_SECONDS).decode("utf-8", "replace")
        return list(_rel_me_links(page)), address
    return [], address


def _rel_me_links(page: str) -> Iterator[str]:
    """Yield the addresses that a page links with rel=me."""
    for tag in TAG.finditer(page):
        attributes = {
            found[1].lower(): html.unescape(found[2] or found[3] or found[4] or "")
            for found in ATTRIBUTE.finditer(tag[1])
        }
        if "me" in attributes.get("rel", "").lower().split():
            yield attributes.get("href", "").strip()
