"""Configuration that says where packages are taken from: pip.conf, .npmrc, .yarnrc.yml and their like."""

import re
from collections.abc import Iterator

from scoring.packages.entry import Index, Item, View

_PIP = re.compile(r"\s*(index-url|extra-index-url|find-links|trusted-host|index|repository)\s*[=:]\s*(\S+).*")
_NPM = re.compile(
    r"\s*[\"']?((?:@[\w.-]+:)?registry|npmRegistryServer|yarn-registry)[\"']?\s*[=:]?\s*[\"']?(\S+?)[\"']?\s*"
)


def pip_configuration(view: View) -> Iterator[Item]:
    """Options of pip.conf that name an index."""
    for line in view.lines:
        if found := _PIP.fullmatch(line.text):
            yield Index(line, found[2], found[1])


def npm_configuration(view: View) -> Iterator[Item]:
    """Options of .npmrc, .yarnrc and .yarnrc.yml that name a registry, for all packages or for a scope."""
    for line in view.lines:
        if found := _NPM.fullmatch(line.text):
            yield Index(line, found[2], "registry")
