"""Lists the files that name dependencies, with the ecosystem and the reader of each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from scoring.diff.change import FileChange, Hunk, Line
from scoring.packages import lock_files, npm, python
from scoring.packages import manifests as go_files
from scoring.packages import manifests as registry_options
from scoring.packages import manifests as ruby_files
from scoring.packages import manifests as rust_files
from scoring.packages.entry import Reader, View


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file; `manifests` is the pattern of file names from which a lock file is made."""

    ecosystem: str
    names: str  # a pattern for the whole file name
    read: Reader
    manifests: str = ""

    @property
    def is_lock(self) -> bool:
        """Return whether it is a lock file."""
        return bool(self.manifests)


_REQUIREMENTS = r"(?:.*[-_.])?(?:requirements|constraints)(?:[-_.].*)?\.(?:txt|in|pip|lock)"
_PYTHON_MANIFESTS = rf"pyproject\.toml|setup\.cfg|setup\.py|{_REQUIREMENTS}"
FORMATS = (
    Format("PyPI", _REQUIREMENTS, python.requirements_file),
    Format("PyPI", r"pyproject\.toml", python.pyproject),
    Format("PyPI", r"setup\.cfg", python.setup_cfg),
    Format("PyPI", r"setup\.py", python.setup_py),
    Format("PyPI", r"Pipfile", python.pipfile),
    Format("PyPI", r"Pipfile\.lock", lock_files.pipfile_lock, "Pipfile"),
    Format("PyPI", r"(?:poetry|uv|pdm)\.lock|pylock(?:\..*)?\.toml", lock_files.python_lock, _PYTHON_MANIFESTS),
    Format("PyPI", r"pip\.conf|pip\.ini|\.pypirc", registry_options.pip_configuration),
    Format("npm", r"package\.json", npm.package_json),
    Format("npm", r"package-lock\.json|npm-shrinkwrap\.json", lock_files.package_lock, r"package\.json"),
    Format("npm", r"yarn\.lock", npm.yarn_lock, r"package\.json|\.yarnrc\.yml"),
    Format("npm", r"pnpm-lock\.ya?ml", npm.pnpm_lock, r"package\.json|pnpm-workspace\.yaml"),
    Format("npm", r"bun\.lock", npm.bun_lock, r"package\.json"),
    Format("npm", r"deno\.jsonc?|import_map\.json", npm.deno_json),
    Format("npm", r"\.npmrc|\.yarnrc|\.yarnrc\.yml", registry_options.npm_configuration),
    Format("crates.io", r"Cargo\.toml", rust_files.cargo_toml),
    Format("crates.io", r"Cargo\.lock", lock_files.cargo_lock, r"Cargo\.toml"),
    Format("Go", r"go\.(?:mod|work)", go_files.go_mod),
    Format("Go", r"go\.sum", go_files.go_sum, r"go\.mod"),
    Format("RubyGems", r"Gemfile|gems\.rb|.*\.gemspec", ruby_files.gemfile),
    Format("RubyGems", r"Gemfile\.lock|gems\.locked", ruby_files.gemfile_lock, r"Gemfile|gems\.rb|.*\.gemspec"),
)
_NAMES = [(re.compile(one.names, re.IGNORECASE), one) for one in FORMATS]
_CARGO_CONFIGURATION = Format("crates.io", "", rust_files.cargo_config)


def format_of(path: str) -> Format | None:
    """Return the format of a file that names dependencies; None for any other file."""
    file = PurePosixPath(path)
    if file.parts[-2:] in ((".cargo", "config.toml"), (".cargo", "config")):
        return _CARGO_CONFIGURATION
    if file.parts[-2:-1] in (("requirements",), ("constraints",)) and file.suffix in (".txt", ".in"):
        return FORMATS[0]
    return next((kind for pattern, kind in _NAMES if pattern.fullmatch(file.name)), None)


def sides_of_hunks(file: FileChange) -> Iterator[tuple[View, View]]:
    """Yield the old and the new side of each hunk."""
    for hunk in file.hunks:
        yield _side(hunk, "+"), _side(hunk, "-")


def _side(hunk: Hunk, without: str) -> View:
    start = hunk.old_start if without == "+" else hunk.new_start
    lines = tuple(_without_return(line) for line in hunk.lines if line.mark != without)
    return View(lines, start <= 1, hunk.section)


def _without_return(line: Line) -> Line:
    return replace(line, text=line.text.rstrip("\r")) if line.text.endswith("\r") else line
