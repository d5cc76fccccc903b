"""Where packages usually come from, by ecosystem, and whether an address is another place."""

import re
from urllib.parse import unquote, urlsplit

_USUAL = {
    "PyPI": {"pypi.org", "files.pythonhosted.org", "pypi.python.org", "download.pytorch.org"},
    "npm": {"registry.npmjs.org", "registry.yarnpkg.com"},
    "crates.io": {"crates.io", "index.crates.io", "static.crates.io"},
    "Go": {"proxy.golang.org"},
    "RubyGems": {"rubygems.org", "index.rubygems.org"},
}
_CRATES_ON_GITHUB = ("github.com", "/rust-lang/crates.io-index")
_PLAIN = re.compile(r"[a-z+]{1,20}://")


def host_of(url: str) -> str:
    """The host of an address in lower case, without port and user; empty where it names none."""
    found = _PLAIN.search(url.lower())
    try:
        parts = urlsplit(url[found.start() :] if found else f"//{url}")
        return (parts.hostname or "").lower().rstrip(".")
    except ValueError:
        return ""


def is_usual(ecosystem: str, url: str) -> bool:
    """Whether an address is one that the ecosystem's own tools would use by themselves, over https."""
    if url.lower().startswith("http://"):
        return False
    host = host_of(url)
    if ecosystem == "crates.io" and host == _CRATES_ON_GITHUB[0]:
        return urlsplit(url.removeprefix("registry+")).path == _CRATES_ON_GITHUB[1]
    return host in _USUAL.get(ecosystem, set())


def place_of(ecosystem: str, url: str) -> str:
    """What two addresses of one registry have in common: the host; a whole index of crates, which lie on one host."""
    return url.partition("#")[0] if ecosystem == "crates.io" else host_of(url)


def is_unencrypted(url: str) -> bool:
    """Whether what comes from there can be changed on the way."""
    return url.lower().startswith(("http://", "git://", "git+http://", "ftp://"))


def names_other_package(ecosystem: str, url: str, name: str) -> bool:
    """Whether the address of a package on its usual registry is that of another package."""
    if ecosystem != "npm" or not is_usual(ecosystem, url):
        return False
    path = unquote(urlsplit(url).path).lstrip("/")
    return "/-/" in path and path.partition("/-/")[0] != name
