"""Files of Bundler and of gems: Gemfile, *.gemspec, Gemfile.lock."""

import re
from collections.abc import Iterator

from scoring.content.change import Line
from scoring.packages.entry import Digest, Entry, Group, Index, Item, Source, View
from scoring.packages.requirements import range_of, source_of

_GEM = re.compile(r"""\s*gem[\s(]+["']([A-Za-z0-9._-]+)["'](.*)""")
_SPEC = re.compile(r"""\s*\w+\.add_(?:(development|runtime)_)?dependency[\s(]+["']([A-Za-z0-9._-]+)["'](.*)""")
_SOURCE = re.compile(r"""\s*source[\s(]+["']([^"']+)["'].*""")
_OPTION = re.compile(r"""(?::(git|github|path|source)\s*=>|\b(git|github|path|source):)\s*["']([^"']+)["']""")
_CONSTRAINT = re.compile(r"""["']((?:[<>=~!]+\s*)?\d[\w.]*)["']""")
_LOCK_SECTION = re.compile(r"([A-Z][A-Z ]+)")
_LOCK_GEM = re.compile(r"    ([A-Za-z0-9._-]+) \(([^()\s]+)\)")
_LOCK_REMOTE = re.compile(r"  remote: (\S+)")
_CHECKSUM = re.compile(r"  ([A-Za-z0-9._-]+) \(([^()\s]+)\) ([a-z0-9]+)=([0-9a-f]+)")
_PLATFORM = re.compile(r"-(?:x86|x64|arm|aarch64|java|universal|mswin|mingw)[\w.-]*$")


def gemfile(view: View) -> Iterator[Item]:
    """Gemfile and *.gemspec: gems with what they are constrained to, and sources."""
    group: Group = "runtime" if view.at_top else "unknown"
    for line in view.lines:
        text = line.text.split(" #", 1)[0]
        if text.lstrip().startswith("group"):
            group = "dev" if re.search(r":(?:development|test)\b", text) else "runtime"
        elif text.strip() == "end":
            group = "runtime"
        elif found := _SOURCE.fullmatch(text):
            yield Index(line, found[1], "source")
        elif found := _GEM.fullmatch(text):
            yield from _entry(line, found[1], found[2], group)
        elif found := _SPEC.fullmatch(text):
            yield from _entry(line, found[2], found[3], "dev" if found[1] == "development" else "runtime")


def _entry(line: Line, name: str, rest: str, group: Group) -> Iterator[Item]:
    options = {found[0] or found[1]: found[2] for found in _OPTION.findall(rest)}
    source: Source = "path" if "path" in options else "git" if options.keys() & {"git", "github"} else "registry"
    if "source" in options:
        yield Index(line, options["source"], "source")
    constraints = _CONSTRAINT.findall(_OPTION.sub("", rest))
    allowed = range_of(",".join(constraints), bare_is_exact=True)
    url = options.get("path") or options.get("git") or options.get("github") or ""
    yield Entry(name, line, allowed.version, allowed.floor, group, source, url, touched=line.mark != " ")


def gemfile_lock(view: View) -> Iterator[Item]:
    """Gemfile.lock: gems under GEM, GIT and PATH with the remote they come from, and CHECKSUMS."""
    source: Source = "registry"
    remote = ""
    for line in view.lines:
        if found := _LOCK_SECTION.fullmatch(line.text):
            source, remote = {"GIT": "git", "PATH": "path"}.get(found[1], "registry"), ""  # ty: ignore[invalid-assignment]
        elif found := _LOCK_REMOTE.fullmatch(line.text):
            remote = found[1]
            if source == "registry":
                yield Index(line, remote, "remote")
        elif found := _CHECKSUM.fullmatch(line.text):
            yield Digest(line, f"{found[1]}@{found[2]}", found[3], found[4])
        elif found := _LOCK_GEM.fullmatch(line.text):
            version = _PLATFORM.sub("", found[2])
            kind = source if source != "registry" or source_of(remote) in ("registry", "url") else source_of(remote)
            yield Entry(found[1], line, version, version, source=kind, url=remote, touched=line.mark != " ")
