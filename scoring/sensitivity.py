"""Which files of a change to read first: those that run with other people's rights, or let others in. Pure."""

import re
from collections.abc import Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

LOWER_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
WORDS = re.compile(r"[A-Za-z0-9]+")


class Kind(IntEnum):
    """What a file is for, by its path alone, in the order in which a reviewer is given them."""

    CI = 0
    BUILD = 1
    AUTH = 2
    DEPENDENCIES = 3
    CODE = 4
    TESTS = 5
    PROSE = 6
    LOCK = 7  # many lines that the scanner of dependencies reads; sensitive all the same


SENSITIVE = frozenset({Kind.CI, Kind.BUILD, Kind.AUTH, Kind.DEPENDENCIES, Kind.LOCK})


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LOCKS = _names("""
    package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock cargo.lock go.sum gemfile.lock poetry.lock
    uv.lock pdm.lock pipfile.lock composer.lock flake.lock
""")
DEPENDENCIES = _names("""
    package.json cargo.toml go.mod gemfile pom.xml composer.json pipfile .gitmodules .npmrc .yarnrc.yml pip.conf
""")
CI_FOLDERS = _names("""
    .github .gitlab .ci .circleci .tangled .woodpecker .forgejo .gitea .buildkite .builds .teamcity
""")
CI_FILES = _names("""
    .gitlab-ci.yml .drone.yml jenkinsfile azure-pipelines.yml .travis.yml appveyor.yml .build.yml
    .pre-commit-config.yaml
""")
BUILD_FOLDERS = _names(".husky .githooks .cargo .devcontainer")
BUILD_FILES = _names("""
    makefile gnumakefile cmakelists.txt meson.build build.rs setup.py setup.cfg pyproject.toml justfile rakefile
    configure configure.ac build.gradle build.gradle.kts workspace module.bazel build.bazel conftest.py .envrc
    codeowners
""")
BUILD_ENDS = _names(".cmake .mk .m4 .sh .bash .ps1 .bat .nix .bzl .gradle .dockerfile .service")
AUTH_WORDS = _names("""
    auth authentication authorization authz login logout signin session sessions password passwords credential
    credentials token tokens secret secrets crypto cryptography cipher oauth oidc saml jwt permission permissions acl
    rbac sudo signing signature tls ssl security sandbox csrf cors keyring
""")
TEST_WORDS = _names("test tests testing testdata spec specs fixtures e2e")
PROSE_ENDS = _names(".md .rst .txt .adoc .po")


def kind_of(path: str) -> Kind:
    """What a file is for; the most dangerous reading of its path counts."""
    whole = PurePosixPath(path.lower())
    name, folders = whole.name, set(whole.parts[:-1])
    if name in LOCKS:
        return Kind.LOCK
    if name in CI_FILES or folders & CI_FOLDERS:
        return Kind.CI
    if name in BUILD_FILES or whole.suffix in BUILD_ENDS or folders & BUILD_FOLDERS or "dockerfile" in name:
        return Kind.BUILD
    words = {word.lower() for word in WORDS.findall(LOWER_START.sub(" ", path))}
    if words & AUTH_WORDS:
        return Kind.AUTH
    if name in DEPENDENCIES or (name.startswith("requirements") and whole.suffix in (".txt", ".in")):
        return Kind.DEPENDENCIES
    if words & TEST_WORDS:
        return Kind.TESTS
    return Kind.PROSE if whole.suffix in PROSE_ENDS else Kind.CODE


def is_sensitive(path: str, patterns: Sequence[str] = ()) -> bool:
    """Whether a change of this file is always read: by its kind, or by one of the operator's own glob patterns."""
    return kind_of(path) in SENSITIVE or any(fnmatchcase(path, pattern) for pattern in patterns)
