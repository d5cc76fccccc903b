"""Files of Cargo that people write: Cargo.toml and .cargo/config.toml."""

from collections.abc import Iterator

from ingest.package_names import normalised
from scoring.packages.entry import Entry, Group, Index, Item, Source, View
from scoring.packages.fragments import Keys, Leaf, toml_leaves
from scoring.packages.requirements import range_of, source_of

_TABLES: dict[str, Group] = {"dependencies": "runtime", "dev-dependencies": "dev", "build-dependencies": "build"}
_FIELDS = frozenset({"version", "git", "path", "registry", "registry-index", "package"})
# Keys of Cargo.toml that hold a version or a text and name no package.
_OTHER_KEYS = """
name version edition rust-version authors description license license-file documentation readme homepage
repository categories keywords resolver opt-level lto codegen-units panic strip links default-run path debug harness
crate-type required-features publish workspace members exclude include build profile"""
_NO_PACKAGE = frozenset(_OTHER_KEYS.split())


def cargo_toml(view: View) -> Iterator[Item]:
    """Cargo.toml: every table of dependencies, also of targets and of the workspace, and [patch]."""
    for leaf in toml_leaves(view.lines, view.at_top, view.hint):
        if leaf.path[:1] in (("patch",), ("replace",)) and leaf.path[-1] in ("git", "path"):
            yield _from_elsewhere(leaf, leaf.path[-2], "runtime")
            continue
        group, keys = _place(leaf)
        if group is not None and keys:
            yield from _entry(leaf, keys, group)


def _place(leaf: Leaf) -> tuple[Group | None, Keys]:
    """The group of a value (None: it is no dependency), and the keys from the name of the package on."""
    for place, key in enumerate(leaf.path):
        if key in _TABLES and (place == 0 or leaf.path[0] in ("target", "workspace")):
            return _TABLES[key], leaf.path[place + 1 :]
    if leaf.rooted or not leaf.path or leaf.path[0] in _NO_PACKAGE or len(leaf.path) > 2:
        return None, ()
    is_version = len(leaf.path) == 1 and leaf.quoted and leaf.value[:1] in "0123456789^~=<>*" and leaf.value != ""
    is_field = len(leaf.path) == 2 and leaf.path[1] in _FIELDS
    return ("unknown", leaf.path) if is_version or is_field else (None, ())


def _entry(leaf: Leaf, keys: Keys, group: Group) -> Iterator[Item]:
    name, field = normalised("crates.io", keys[0]), keys[1] if len(keys) > 1 else "version"
    touched = leaf.line.mark != " "
    if field == "version" and leaf.quoted:
        allowed = range_of(leaf.value)
        yield Entry(name, leaf.line, allowed.version, allowed.floor, group, touched=touched)
    elif field in ("git", "path"):
        yield _from_elsewhere(leaf, keys[0], group)
    elif field in ("registry", "registry-index"):
        yield Index(leaf.line, leaf.value, field)
    elif field == "package":
        yield Entry(normalised("crates.io", leaf.value), leaf.line, group=group, touched=touched)


def _from_elsewhere(leaf: Leaf, name: str, group: Group) -> Entry:
    source: Source = "git" if leaf.path[-1] == "git" else "path"
    named, touched = normalised("crates.io", name), leaf.line.mark != " "
    return Entry(named, leaf.line, group=group, source=source, url=leaf.value, touched=touched)


def cargo_config(view: View) -> Iterator[Item]:
    """.cargo/config.toml: registries, and sources that replace the usual one."""
    for leaf in toml_leaves(view.lines, view.at_top, view.hint):
        if not leaf.path or leaf.path[-1] not in ("registry", "index", "replace-with"):
            continue
        if leaf.path[-1] == "replace-with" or source_of(leaf.value.removeprefix("sparse+")) != "registry":
            yield Index(leaf.line, leaf.value, leaf.path[-1])
