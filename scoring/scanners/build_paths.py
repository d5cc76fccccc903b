"""Find changes to files that run before a person reads them.

These are CI, build, release, install hooks, dependencies and binaries.
"""

from collections.abc import Iterator
from functools import cache

import re2

from scoring.diff.change import Change, FileChange, Line
from scoring.diff.globs import PatternProblem, clean_path, first_match, matching_pattern
from scoring.diff.paths import Kind, kinds_of, never_fast, role
from scoring.scanners._finding_helpers import cut, quoted, worst_first
from scoring.scanners._rules import with_patterns
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity

SCANNER = "build_paths"
LINE_LENGTH = 4_000  # examined characters of a line
FILES_TOLD = 20  # findings of one kind; one more counts the others

HOOK = "The change touches a file that runs automatically when somebody installs or tests."
# Hooks that other things start.
OTHER_HOOKS = {
    (".envrc",): "The change touches a file that runs when a developer who allowed it in direnv enters the folder.",
    (".vscode/", ".idea/", ".devcontainer/", ".gitpod.y*ml"): (
        "The change touches a file by which an editor can run commands when somebody opens the project."
    ),
    (".husky/", ".githooks/", "githooks/", ".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "*lefthook.y*ml"): (
        "The change touches a file that runs when somebody commits or pushes."
    ),
    (".gitattributes", ".gitmodules", ".lfsconfig"): (
        "The change touches a file that says what git does with files, or fetches from elsewhere."
    ),
    (".claude", ".cursor", ".mcp.json", "agents.md", "claude.md", "/.github/copilot-instructions.md"): (
        "The change touches a file that tells programs which write code what to do, or to run."
    ),
}
TOLD: dict[Kind, tuple[Severity, str]] = {
    "ci": (Severity.LOW, "What the CI server runs, with the rights of the project, is changed."),
    "release": (Severity.LOW, "How releases are made or deployed is changed."),
    "install_hook": (Severity.MED, HOOK),
    "build": (Severity.LOW, "How the project is built is changed."),
    "dependencies": (Severity.LOW, "What the project depends on is changed."),
    "binary": (Severity.MED, "A file is changed that nobody can read as text."),
    "submodule": (Severity.MED, "The commit of another repository that is checked out here is changed."),
    "symlink": (Severity.MED, "A link to another path is added or changed."),
    "executable": (Severity.LOW, "A file is made executable."),
}
# Files on an install-hook path that change in daily work and run only in tests or editors, or that other rules read.
EVERYDAY_HOOKS = (
    *(
        "conftest.py",
        ".pre-commit-config.yaml",
        ".gitattributes",
        ".gitmodules",
        ".npmrc",
        "lefthook.y*ml",
        ".lefthook.y*ml",
    ),
    *(".husky/", ".githooks/", "githooks/", ".vscode/", ".devcontainer/", ".envrc", "*.md"),
)
# Installation scripts, which other rules read: they weigh more where they do more than a package needs.
SCRIPTS = ("preinstall*", "postinstall*", "prepublish*", "/debian/*inst", "/debian/*rm")
PROGRAMS = re2.compile(
    r"(?i)\.(exe|dll|so(\.\d+)*|dylib|jar|class|pyc|pyd|wasm|node|apk|deb|rpm|msi|bin|elf|whl|ko|scr)$"
)
PICTURES = re2.compile(r"(?i)\.(png|jpe?g|gif|webp|ico|bmp|avif|woff2?|ttf|otf|eot|mp[34]|webm|ogg|wav|pdf|psd)$")
_STRONG = (
    r"pull_request_target|workflow_run:|permissions:\s*write-all|(contents|actions|deployments):\s*write\b|"
    r"\bsecrets:\s*inherit|runs-on:.*self-hosted|persist-credentials:\s*true"
)
_RIGHTS = rf"{_STRONG}|packages:\s*write\b"
STRONG = re2.compile(rf"{_STRONG}|id-token:\s*write\b")
RIGHTS = re2.compile(rf"{_RIGHTS}|id-token:\s*write\b")
STRANGER = r"\$\{\{\s*github\.(event\.(issue|pull_request|comment|review|head_commit)\.(title|body|message)|head_ref)"
PRIVILEGES = re2.compile(f"{RIGHTS.pattern}|{STRANGER}")
# One scope with the right to write, and whether it is an everyday one that may stand in a new block of rights.
SCOPE = re2.compile(r"^\s*[a-z-]+:\s*write\s*(#.*)?$")
EVERYDAY_SCOPE = re2.compile(r"^\s*(permissions:\s*\{[^}]*)?\bpackages:\s*write\b")
LISTED = "A new block lists the rights of a CI job, which takes the others away, or a right moves within the file."
OF_A_JOB = 6  # blanks at least before a scope of one job; of the whole workflow there are 2 or 4
PERMISSIONS = re2.compile(r"^\s*permissions:")
PRIVILEGES_BUT_IDENTITY = re2.compile(f"{_RIGHTS}|{STRANGER}")
# Steps that prove to a registry or a cloud which workflow runs, for which a job needs `id-token: write`.
NEEDS_IDENTITY = re2.compile(
    r"\bnpm publish\b.*--provenance|uses:\s*(pypa/gh-action-pypi-publish|rust-lang/crates-io-auth-action|actions/"
    r"(attest[\w-]*|deploy-pages)|aws-actions/configure-aws-credentials|google-github-actions/auth|azure/login|"
    r"rubygems/release-gem|slsa-framework/[\w./-]+|sigstore/[\w./-]+)@|\bcosign (sign|attest)|\buv publish\b"
)
OPEN_TO_STRANGERS = re2.compile(
    r"\b(pull_request_target|workflow_run|issue_comment|issues|pull_request)\b\s*(:|$|,|\])"
)
# A stranger's text that is a value and not code: a step's variable as in `TITLE: ${{ ... }}`, a group, a name.
GIVEN_AS_VALUE = re2.compile(r"^\s*(-\s+)?([A-Z][A-Z0-9_]*|group|if|run-name|key)\s*:\s")
SECRETS = re2.compile(r"\$\{\{\s*secrets\.")
PINNED = re2.compile(r"uses:\s*[\"']?(\./|docker://\S+@sha256:|[\w./-]+@[0-9a-f]{40}\b|(actions|github)/)")
ACTION = re2.compile(r"\buses:\s*[\"']?[\w.-]+/[\w./-]+@")
NPM_HOOK = re2.compile(r'^\s*"(?:pre|post)?(?:install|prepare|uninstall)"\s*:\s*"')
SETUP_HOOK = re2.compile(r"\bcmdclass\b|class\s+\w+\((\w+\.)*(install|develop|build_py|build_ext|egg_info|sdist)\)")
BACKEND = re2.compile(r"^\s*(build-backend|backend-path)\s*=")
# Nearly every project is built with one of these; a switch to one of them is not reported.
USUAL_BACKEND = re2.compile(
    r"build-backend\s*=\s*[\"'](setuptools\.build_meta(:__legacy__)?|hatchling\.build|flit_core\.buildapi|poetry\.core\.masonry"
    r"\.api|pdm\.backend|uv_build|maturin|scikit_build_core\.build|mesonpy)[\"']"
)


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield a finding for each file and kind, and one for each line that gives more rights; worst first."""
    change = submission.change
    findings = [*_limited(change), *_lines(change), *_sensitive(submission)]
    yield from worst_first(findings)


def _limited(change: Change) -> Iterator[Finding]:
    counts: dict[Kind, int] = {}
    for file in change.files:
        for kind in sorted(kinds_of(file)):
            counts[kind] = counts.get(kind, 0) + 1
            if counts[kind] <= FILES_TOLD:
                yield _kind_finding(kind, file)
    for kind, count in counts.items():
        if count > FILES_TOLD:
            message = f"{count - FILES_TOLD} more files of this kind ({kind}) are changed."
            yield Finding(SCANNER, f"more-{kind}", "security", TOLD[kind][0], message)


def _kind_finding(kind: Kind, file: FileChange) -> Finding:
    severity, message = TOLD[kind]
    if kind == "binary":
        severity, message = _binary(file, severity, message)
    if kind == "symlink" and _leaves(file):
        severity, message = Severity.HIGH, "A link is added that leads out of the repository."
    if kind == "install_hook":
        severity = Severity.LOW if _is_everyday(file) else severity
        message = next(
            (text for paths, text in OTHER_HOOKS.items() if first_match(paths, clean_path(file.path).lower())), message
        )
    return Finding(SCANNER, kind, "security", severity, message, file=file.path)


def _binary(file: FileChange, severity: Severity, message: str) -> tuple[Severity, str]:
    if file.kind == "deleted" or PICTURES.search(file.path):
        return Severity.LOW, message
    if PROGRAMS.search(file.path) and role(file.path) != "tests":
        return Severity.HIGH, "A compiled program or library is added or changed, which nobody can read."
    return severity, message


def _leaves(file: FileChange) -> bool:
    """Return whether an added link points to an absolute path, or above the top of the repository."""
    depth = file.path.count("/")
    return any(
        line.text.startswith(("/", "~")) or cut(line.text, LINE_LENGTH).split("/").count("..") > depth
        for line in file.added()
    )


def _is_everyday(file: FileChange) -> bool:
    path = file.path.lower()
    if path.endswith(".pth"):  # Python runs lines that begin with an import, and adds the folders on other lines
        return bool(file.hunks) and not any(line.text.startswith(("import ", "import\t")) for line in file.added())
    if matching_pattern(SCRIPTS, path) is None:
        return matching_pattern(EVERYDAY_HOOKS, path) is not None
    acts = re2.compile(with_patterns("{hook-acts}"))
    return bool(file.hunks) and not any(acts.search(cut(line.text, LINE_LENGTH)) for line in file.added())


def _lines(change: Change) -> Iterator[Finding]:
    """Yield findings on lines of such files that give rights, hide something or send secrets."""
    for file in change.files:
        name = file.path.rsplit("/", 1)[-1]
        kind = never_fast(file.path)
        if kind == "ci":
            message = "This line gives the CI job more rights, all secrets or the text of a stranger."
            rights = PRIVILEGES_BUT_IDENTITY if _proves_identity(file) else PRIVILEGES
            yield from _line_findings(file, rights, "ci-rights", message)
            yield from _unpinned(file)
            yield from _given_secrets(file)
        elif name == "package.json":
            yield from _line_findings(
                file, NPM_HOOK, "npm-hook", "This command runs on every machine that installs the package."
            )
        elif name == "setup.py":
            yield from _line_findings(
                file,
                SETUP_HOOK,
                "setup-hook",
                "Code of the project's own runs while the package is built or installed.",
            )
        elif name == "pyproject.toml":
            yield from _line_findings(
                file, BACKEND, "build-backend", "What builds the package, and so runs at its installation, is changed."
            )


def _proves_identity(file: FileChange) -> bool:
    """Return whether a visible step needs the workflow's identity, and no visible trigger starts it for strangers."""
    lines = [cut(line.text, LINE_LENGTH) for hunk in file.hunks for line in hunk.lines if line.mark != "-"]
    return any(map(NEEDS_IDENTITY.search, lines)) and not any(map(OPEN_TO_STRANGERS.search, lines))


def _unpinned(file: FileChange) -> Iterator[Finding]:
    for line in _matching(file, ACTION):
        if not PINNED.search(cut(line.text, LINE_LENGTH)):
            message = "A step of somebody else is named by a tag or branch, which its owner can move at any time."
            yield _line_finding(file, line, "ci-step-unpinned", Severity.LOW, message)


def _given_secrets(file: FileChange) -> Iterator[Finding]:
    """Report secrets at low severity: honest steps use them daily. Rules on statements judge their use."""
    for line in _matching(file, SECRETS):
        message = "This line gives a step of the CI job a secret of the project."
        yield _line_finding(file, line, "ci-secret", Severity.LOW, message)


def _line_findings(file: FileChange, pattern: "re2._Regexp", rule: str, message: str) -> Iterator[Finding]:
    for line in _matching(file, pattern):
        text = cut(line.text, LINE_LENGTH)
        if rule == "build-backend" and USUAL_BACKEND.search(text):
            continue
        if rule == "ci-rights" and GIVEN_AS_VALUE.search(text) and not RIGHTS.search(text):
            continue
        if rule == "ci-rights" and (_is_moved(file, line) or _narrows(file, line)):
            yield _line_finding(file, line, "ci-rights-listed", Severity.LOW, LISTED)
            continue
        # Other rules read what such a class or script does, and new packages have their own finding.
        is_usual = rule == "setup-hook" or (rule == "npm-hook" and _is_usual_hook(text))
        severity = Severity.LOW if is_usual else Severity.MED
        yield _line_finding(file, line, rule, severity, message)


def _is_moved(file: FileChange, line: Line) -> bool:
    """Return whether a scope was in this file before, and is not for all jobs now where it was for one."""
    if not SCOPE.search(cut(line.text, LINE_LENGTH)):
        return False
    before = [_indentation(removed.text) for removed in file.removed() if removed.text.strip() == line.text.strip()]
    return bool(before) and (_indentation(line.text) >= OF_A_JOB or min(before) < OF_A_JOB)


def _narrows(file: FileChange, line: Line) -> bool:
    """Return whether an everyday scope is in a new block of rights, which takes away all that it does not name.

    It is not new where the workflow, or what is removed, visibly had such a block.
    """
    hunk = next(hunk for hunk in file.hunks if line in hunk.lines)
    above = [one for one in hunk.lines[: hunk.lines.index(line)] if one.mark != "-" and one.text.strip()]
    outer = (one for one in reversed(above) if _indentation(one.text) < _indentation(line.text))
    head = line if PERMISSIONS.search(cut(line.text, LINE_LENGTH)) else next(outer, None)
    is_headed = head is not None and head.mark == "+" and PERMISSIONS.search(cut(head.text, LINE_LENGTH))
    is_everyday = EVERYDAY_SCOPE.search(cut(line.text, LINE_LENGTH)) and not STRONG.search(cut(line.text, LINE_LENGTH))
    others = (one for hunk in file.hunks for one in hunk.lines if one.mark != "+")
    return bool(is_everyday and is_headed) and not any(
        PERMISSIONS.search(cut(one.text, LINE_LENGTH)) and (one.mark == "-" or not _indentation(one.text))
        for one in others
    )


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip())


def _is_usual_hook(text: str) -> bool:
    """Return whether a hook starts programs of packages by name, or own scripts only in the own checkout."""
    command = NPM_HOOK.sub("", text, 1)
    return not _hook_runs().search(command) or _usual_hook().search(text) is not None


@cache
def _hook_runs() -> "re2._Regexp":
    """Return the pattern of a hook command that runs a script, a download, or inline code."""
    return re2.compile(with_patterns("{hook-runs}"))


@cache
def _usual_hook() -> "re2._Regexp":
    """Return the pattern of a hook that calls usual build tools by name, or own scripts only in the own checkout."""
    tool, own = (rf"{name}(?: [\w./=@-]+)*" for name in ("{usual-tool}", "(?:{usual-tool}|{own-script})"))
    further = r"(?:\s*(?:&&|\|\||;)\s*"
    home = rf'^\s*"(?:pre|post)?prepare"\s*:\s*"{own}{further}{own})*"'
    return re2.compile(with_patterns(rf'{NPM_HOOK.pattern}{tool}{further}{tool})*"|{home}'))


def _matching(file: FileChange, pattern: "re2._Regexp") -> list[Line]:
    return [line for line in file.added() if pattern.search(cut(line.text, LINE_LENGTH))][:FILES_TOLD]


def _line_finding(file: FileChange, line: Line, rule: str, severity: Severity, message: str) -> Finding:
    return Finding(SCANNER, rule, "security", severity, message, file=file.path, line=line.new, quote=quoted(line.text))


def _sensitive(submission: Submission) -> Iterator[Finding]:
    """Yield files in the maintainers' sensitive paths; an unreadable list is a finding, never ignored."""
    patterns = submission.knowledge.sensitive_paths
    if not patterns:
        return
    try:
        sensitive_files = [file for file in submission.change.files if _is_named(patterns, file)]
    except PatternProblem as problem:
        yield Finding(SCANNER, "sensitive-paths-unreadable", "other", Severity.MED, f"Sensitive paths: {problem}.")
        return
    for file in sensitive_files[:FILES_TOLD]:
        message = "A path is changed that the maintainers of this repository call sensitive."
        yield Finding(SCANNER, "sensitive-path", "security", Severity.MED, message, file=file.path)


def _is_named(patterns: tuple[str, ...], file: FileChange) -> bool:
    return any(matching_pattern(patterns, path) for path in {file.path, file.old_path})
