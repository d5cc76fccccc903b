"""Classifies a change by its paths: the use of each file, the order of reading, exclusion from the fast lane. Pure.

This is the only place that classifies files by name. It also names the files that keep a change out of the fast lane.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Literal

from ingest.store.long_texts import fitting
from scoring.diff.change import Change, FileChange
from scoring.diff.globs import PatternProblem, clean_path, first_match, matching_pattern

Kind = Literal["ci", "release", "install_hook", "build", "dependencies", "binary", "submodule", "symlink", "executable"]
Role = Literal["code", "tests", "docs", "vendored", "generated"]


class Rank(IntEnum):
    """The use of a file by the most dangerous reading of its path, in the order for reviewers."""

    CI = 0
    BUILD = 1
    AUTH = 2
    DEPENDENCIES = 3
    CODE = 4
    TESTS = 5
    PROSE = 6
    LOCK = 7  # many lines, read by the scanner of dependencies; sensitive nevertheless


SENSITIVE = frozenset({Rank.CI, Rank.BUILD, Rank.AUTH, Rank.DEPENDENCIES, Rank.LOCK})

# Files that run somewhere before a person has read the change, or that nobody can read. In lower case, since a file
# system that ignores case accepts any spelling. The first matching kind counts.
NEVER_FAST: dict[Kind, tuple[str, ...]] = {
    "ci": (
        *("/.github/workflows", "/.github/actions", "action.yml", "action.yaml", "/.tangled/workflows", "/.forgejo"),
        *("/.gitea", "/.gitlab-ci*", ".gitlab/ci", "/.circleci", "/.buildkite", "/.woodpecker*", "/.drone.y*ml"),
        *("/.travis.yml", "/.appveyor.yml", "/appveyor.yml", "/azure-pipelines*", "/.azure-pipelines", "jenkinsfile*"),
        *("/bitbucket-pipelines.yml", "/.cirrus*", "/.semaphore", "/.builds", "/.build.yml", "/cloudbuild*.y*ml"),
        *("/.teamcity", "/buildspec*.yml", "/.ci", "/ci", "/.codecov.yml", "/codecov.yml", "/.readthedocs.y*ml"),
        *("/.github/dependabot.y*ml", "/renovate.json*", "/.renovaterc*", "/.github/renovate*", "codeowners"),
    ),
    "release": (
        *(".goreleaser*", ".releaserc*", "release.config.*", "semantic-release*", ".changeset/config.json"),
        *("/release*.sh", "/scripts/*release*", "/scripts/*publish*", "/tools/*release*", "/bin/*release*"),
        *("/publish*.sh", "/scripts/*deploy*", "/deploy*.sh", "fastfile", "snapcraft.yaml", "/debian/rules", "*.spec"),
        *("/manifest.in", ".npmignore", ".pypirc", "procfile", "fly.toml", "vercel.json", "netlify.toml", "app.yaml"),
        *("*.tf", "*.tfvars", "/k8s", "/kubernetes", "/helm", "/charts", "/ansible", "heroku.yml", "render.yaml"),
    ),
    "install_hook": (
        *("*.pth", "sitecustomize.py", "usercustomize.py", "conftest.py", ".husky", "/.githooks", "/githooks"),
        *(".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "lefthook.y*ml", ".lefthook.y*ml", "preinstall*"),
        *("postinstall*", "prepublish*", "/debian/*inst", "/debian/*rm", ".envrc", ".vscode/tasks.json", ".npmrc"),
        *(".vscode/settings.json", ".devcontainer", ".gitpod.y*ml", ".pnpmfile.cjs", ".yarnrc*", "/.yarn/plugins"),
        *("/.yarn/releases", "pip.conf", "/.idea/runconfigurations", ".gitattributes", ".gitmodules", ".lfsconfig"),
        *(".claude", ".cursor", ".mcp.json", "agents.md", "claude.md", "/.github/copilot-instructions.md"),
    ),
    "build": (
        *("makefile*", "gnumakefile", "*.mk", "*.make", "dockerfile*", "*.dockerfile", "containerfile*", "justfile"),
        *("docker-compose*", "compose.y*ml", "compose.*.y*ml", ".dockerignore", "cmakelists.txt", "*.cmake"),
        *("cmakepresets.json", "configure", "configure.ac", "configure.in", "*.m4", "autogen.sh", "bootstrap.sh"),
        *("meson.build", "meson_options.txt", "build.ninja", "build.rs", "setup.py", "setup.cfg", "pyproject.toml"),
        *("hatch_build.py", "build.py", "noxfile.py", "tox.ini", "fabfile*.py", "tasks.py", "pavement.py", "dodo.py"),
        *("*.gradle", "*.gradle.kts", "gradlew*", "gradle-wrapper.*", "gradle.properties", "pom.xml", "mvnw*", ".mvn"),
        *("build.xml", "build.sbt", "build", "build.bazel", "workspace", "workspace.bazel", "module.bazel", "*.bzl"),
        *(".bazelrc", "build.zig", "build.zig.zon", "rakefile", "*.gemspec", "extconf.rb", "binding.gyp", "*.gyp*"),
        *("*.csproj", "*.props", "*.targets", "*.nix", "taskfile.y*ml", "earthfile", "tiltfile", "vagrantfile"),
        *("webpack.config.*", "rollup.config.*", "vite.config.*", "esbuild.*", "gulpfile.*", "gruntfile.*"),
        *("babel.config.*", ".babelrc*", "next.config.*", "nuxt.config.*", "jest.config.*", "vitest.config.*"),
        *(".cargo/config*", "rust-toolchain*", "mix.exs", "rebar.config", "package.swift", "podfile", "*.podspec"),
    ),
    "dependencies": (
        *("requirements*.txt", "requirements*.in", "/requirements/*.txt", "/requirements/*.in", "constraints*.txt"),
        *("pipfile", "*.lock", "*.lockb", "package.json", "package-lock.json", "npm-shrinkwrap.json", "deno.json*"),
        *("pnpm-lock.yaml", "pnpm-workspace.yaml", "cargo.toml", "go.mod", "go.sum", "go.work", "go.work.sum"),
        *("gemfile*", "composer.json", "packages.config", "*.lockfile", "environment*.y*ml", "conda*.y*ml"),
        *(
            "pylock*.toml",
            "pixi.toml",
            "import_map.json",
            "package.resolved",
            "podfile.lock",
            "cartfile*",
            "vcpkg.json",
            "conanfile.*",
            "buildpack.toml",
        ),
    ),
    "binary": (
        *("*.exe", "*.dll", "*.so", "*.so.*", "*.dylib", "*.a", "*.o", "*.obj", "*.lib", "*.jar", "*.war", "*.class"),
        *("*.pyc", "*.pyd", "*.pyo", "*.whl", "*.egg", "*.wasm", "*.node", "*.bin", "*.apk", "*.deb", "*.rpm", "*.msi"),
        *("*.dmg", "*.iso", "*.img", "*.ko", "*.elf", "*.com", "*.scr", "*.crx", "*.xpi", "*.vsix", "*.pickle"),
        *("*.pkl", "*.joblib", "*.npy", "*.npz", "*.pt", "*.pth.tar", "*.h5", "*.onnx", "*.safetensors", "*.ckpt"),
        *("*.zip", "*.tar", "*.gz", "*.tgz", "*.bz2", "*.xz", "*.zst", "*.7z", "*.rar", "*.gem", "*.crate", "*.nupkg"),
    ),
}
ROLES: dict[Role, tuple[str, ...]] = {
    "vendored": (
        *("vendor", "vendored", "_vendor", "third_party", "third-party", "thirdparty", "node_modules", "extern"),
        *("site-packages", "bower_components", "/packages/*/vendor"),
    ),
    "generated": ("*.min.js", "*.min.css", "*.map", "*_pb2.py", "*.pb.go", "*.snap", "dist", "*.bundle.js"),
    "tests": (
        *("test", "tests", "testing", "testdata", "__tests__", "spec", "specs", "fixtures", "e2e", "cypress"),
        *("tests_*/", "test_*/", "*_tests/", "*-tests/", "e2e_*/", "*_e2e/", "*-e2e/", "e2e_test*.py"),
        *("test_*.py", "*_test.py", "*_test.go", "*.test.*", "*.spec.*", "tests.py", "conftest.py", "*_test.rs"),
        *("*_spec.rb", "benches", "bench", "benchmarks", "mock", "mocks", "__mocks__", "__snapshots__", "cassettes"),
        *("golden", "goldens", "stubs", "*-test.*", "*_tests.*", "*test.java", "*tests.java", "*test.kt", "*tests.cs"),
    ),
    "docs": (
        *("docs", "doc", "documentation", "examples", "example", "*.md", "*.rst", "*.adoc", "*.txt", "*.po"),
        *("*.mdx", "*.markdown", "*.asciidoc", "*.tex", "*.org", "sample", "samples", "tutorial", "tutorials"),
    ),
}
# Names of prose, except for programs: history.py and license.js run.
PROSE_NAMES = ("news*", "changelog*", "changes*", "history*", "readme*", "license*", "authors*", "contributing*")
# Lists of resolved packages with their hashes, and other lists of hashes.
LOCKS = (
    *("*.lock", "*.lockb", "*.lockfile", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "go.sum"),
    *("go.work.sum", "packages.lock.json", "pylock*.toml", "*sha256sum*", "*sha512sum*"),
)
TRANSLATIONS = (
    *("*.po", "*.pot", "*.mo", "*.xlf", "*.xliff", "*.arb", "*.strings", "*.resx", "*.ftl", "locale", "locales"),
    *("i18n", "l10n", "lang", "langs", "language", "languages", "translation", "translations", "intl", "lc_messages"),
)
# Files in a language for machines.
LANGUAGES = (
    *("*.py", "*.pyi", "*.pyx", "*.js", "*.jsx", "*.mjs", "*.cjs", "*.ts", "*.tsx", "*.mts", "*.cts", "*.vue"),
    *("*.svelte", "*.go", "*.rs", "*.rb", "*.php", "*.java", "*.kt", "*.kts", "*.scala", "*.swift", "*.c", "*.h"),
    *("*.cc", "*.cpp", "*.cxx", "*.hpp", "*.hh", "*.m", "*.mm", "*.cs", "*.fs", "*.sh", "*.bash", "*.zsh", "*.fish"),
    *("*.ps1", "*.pl", "*.pm", "*.lua", "*.r", "*.jl", "*.ex", "*.exs", "*.erl", "*.hs", "*.ml", "*.mli", "*.clj"),
    *("*.dart", "*.sol", "*.zig", "*.nim", "*.sql", "*.tf", "*.nix", "*.gradle", "*.groovy", "*.proto", "*.graphql"),
    *("*.css", "*.scss", "*.less", "*.yml", "*.yaml", "*.toml", "*.json", "*.ini", "*.cfg", "*.xml", "*.cmake"),
    *("*.mk", "makefile*", "dockerfile*", "jenkinsfile*", "rakefile*", "gemfile*", "justfile*", "meson.build*"),
    *("build*", "workspace*"),
)
# Files in which values need no quotes.
SETTINGS = (
    *(".env", ".env.*", "env", "env.*", ".envrc", "envrc", "*.env", "*.ini", "*.cfg", "*.conf", "*.cnf", "*.toml"),
    *("*.properties", "*.yml", "*.yaml", "*.tfvars", "*.npmrc", "*.pypirc", "*.netrc", "*.sh", "*.bash", "*.zsh"),
    *("*.service", "*.tf", "dockerfile*", "makefile*", "credentials*", "config*"),
)
# Besides NEVER_FAST: folders of a forge, and programs that people start by hand.
FORGE_FOLDERS = ("/.github", "/.gitlab", "/.tangled")
PROGRAMS = ("*.sh", "*.bash", "*.zsh", "*.ps1", "*.bat", "*.cmd", "*.service")
# Words in paths of code that authenticates or authorises.
_AUTH = """
    auth authentication authorization authz login logout signin session sessions password passwords credential
    credentials token tokens secret secrets crypto cryptography cipher oauth oidc saml jwt permission permissions acl
    rbac sudo signing signature tls ssl security sandbox csrf cors keyring
"""
AUTH_WORDS = frozenset(_AUTH.split())
_RANKS: dict[Kind, Rank] = {
    **dict.fromkeys(("ci", "release"), Rank.CI),
    **dict.fromkeys(("install_hook", "build", "binary"), Rank.BUILD),
}
_LOWER_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PATH_WORD = re.compile(r"[A-Za-z0-9]+")


@lru_cache(maxsize=8192)
def never_fast(path: str) -> Kind | None:
    """Return the kind of a path that the fast lane excludes: CI, release, install hooks, build, dependencies, binaries.

    None if the path alone does not decide; `touched_kinds` also reads modes and contents.
    """
    clean = clean_path(path).lower()
    return next((kind for kind, patterns in NEVER_FAST.items() if first_match(patterns, clean)), None)


# `org/example` begins Java packages of authors without a domain; it is not a folder of examples.
PACKAGE_OF_EXAMPLE = re.compile(r"\b(com|org|net|io|dev)/example(s)?/")


# `src/docs/access.js` is a program's code about documents.
DOCUMENTS_OF_PROGRAM = re.compile(
    r"(^|/)(src|lib|app|internal|pkg|server)/((?:[^/]+/)*)(docs?|documentation|examples?|samples?)/"
)


@lru_cache(maxsize=8192)
def role(path: str) -> Role:
    """Return the role of a file by its path alone; code by default."""
    return next((role for role in ROLES if has_role(path, role)), "code")


@lru_cache(maxsize=8192)
def has_role(path: str, wanted_role: Role) -> bool:
    """Return whether a file has this role, perhaps among others: a vendored test is a test too."""
    clean = clean_path(path).lower()
    if wanted_role == "docs":
        clean = PACKAGE_OF_EXAMPLE.sub(r"\1/", clean)
        clean = DOCUMENTS_OF_PROGRAM.sub(r"\1\2/\3", clean) if is_language(path) else clean
    is_named = wanted_role == "docs" and first_match(PROSE_NAMES, clean) and not is_language(path)
    return is_named or first_match(ROLES[wanted_role], clean)


@lru_cache(maxsize=8192)
def is_lock_file(path: str) -> bool:
    """Return whether a path is a list of resolved packages with their hashes."""
    return first_match(LOCKS, clean_path(path).lower())


@lru_cache(maxsize=8192)
def is_translation(path: str) -> bool:
    """Return whether a path is a translation of texts for users."""
    return first_match(TRANSLATIONS, clean_path(path).lower())


@lru_cache(maxsize=8192)
def is_language(path: str) -> bool:
    """Return whether a path is a file in a language for machines."""
    return first_match(LANGUAGES, clean_path(path).lower())


@lru_cache(maxsize=8192)
def is_settings(path: str) -> bool:
    """Return whether a path is a file in which values need no quotes."""
    return first_match(SETTINGS, clean_path(path).lower())


@lru_cache(maxsize=8192)
def rank(path: str) -> Rank:
    """Return the rank of a file; the most dangerous reading of its path counts."""
    clean, kind = clean_path(path).lower(), never_fast(path)
    if is_lock_file(path):
        return Rank.LOCK
    if kind in _RANKS:
        return _RANKS[kind]
    if first_match(FORGE_FOLDERS, clean):
        return Rank.CI
    if first_match(PROGRAMS, clean):
        return Rank.BUILD
    words = {word.lower() for word in _PATH_WORD.findall(_LOWER_START.sub(" ", path))}
    if words & AUTH_WORDS:
        return Rank.AUTH
    if kind == "dependencies":
        return Rank.DEPENDENCIES
    ranks = {"tests": Rank.TESTS, "docs": Rank.PROSE}
    return ranks.get(role(path), Rank.CODE)


def is_sensitive(file: FileChange, patterns: Sequence[str] = ()) -> bool:
    """Return whether a file's part is always read: by its kind, or by one of the operator's patterns (globs.py).

    The old name counts too, since a move changes that place. With unreadable patterns everything is sensitive.
    """
    paths = {file.path, file.old_path}
    if kinds_of(file) or any(rank(path) in SENSITIVE for path in paths):
        return True
    try:
        return any(matching_pattern(patterns, path) for path in paths)
    except PatternProblem:
        return True


def kinds_of(file: FileChange) -> frozenset[Kind]:
    """Return every kind that one file's part touches: by old and new path, by modes, and as a binary."""
    return frozenset(_kinds(file))


def touched_kinds(change: Change) -> frozenset[Kind]:
    """Return every kind that a change touches; any of them keeps it out of the fast lane."""
    return frozenset(kind for file in change.files for kind in _kinds(file))


def _kinds(file: FileChange) -> Iterator[Kind]:
    for path in {file.path, file.old_path}:
        kind = never_fast(path)
        if kind:
            yield kind
    if file.submodule:
        yield "submodule"
    if file.symlink:
        yield "symlink"
    if file.binary:
        yield "binary"
    if file.new_mode == "100755" and file.old_mode != "100755":
        yield "executable"


PATTERNS_TOLD = 10  # listed patterns of a repository; one is enough to hold a change
PATTERN = "path:"  # in front of a repository's own pattern among the kinds that were touched


@dataclass(frozen=True, slots=True)
class Touched:
    """The files of one change: kinds of NEVER_FAST, and new and old names in order.

    `whole` is false if the paths do not fit into a column, or if the change was not wholly read.
    """

    kinds: tuple[str, ...]
    paths: tuple[str, ...]
    whole: bool


def touched_files(change: Change) -> Touched:
    """Return the files of a change; a path is left out whole, since a cut one could avoid a pattern."""
    all_paths = sorted({_encodable(path) for file in change.files for path in (file.path, file.old_path)})
    stored_paths = fitting(all_paths)
    is_whole = len(stored_paths) == len(all_paths) and change.coverage >= 1
    return Touched(tuple(sorted(touched_kinds(change))), tuple(stored_paths), is_whole)


def never_fast_kinds(touched: Touched, patterns: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the kinds and patterns that keep a change out of the fast lane; None if not all its files are known.

    Raises PatternProblem like `globs.matching_pattern`.
    """
    matched = {f"{PATTERN}{pattern}" for path in touched.paths if (pattern := matching_pattern(patterns, path))}
    kinds = (*touched.kinds, *sorted(matched)[:PATTERNS_TOLD])
    return kinds if kinds or touched.whole else None


def _encodable(path: str) -> str:
    """Return the path with a question mark for each character that UTF-8 cannot encode."""
    return path.encode("utf-8", "replace").decode()
