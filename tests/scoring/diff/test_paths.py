"""The meaning of a path: the kinds that no fast lane may carry, and the purpose of a file."""

import pytest

from scoring.diff.change import FileChange
from scoring.diff.paths import (
    Kind,
    Rank,
    has_role,
    is_language,
    is_lock_file,
    is_sensitive,
    is_settings,
    is_translation,
    kinds_of,
    never_fast,
    rank,
    role,
    touched_kinds,
)
from tests.scoring.scanners.written import added_lines, change_of

EXAMPLES: dict[Kind, tuple[str, ...]] = {
    "ci": (".github/workflows/ci.yml", ".gitlab-ci.yml", ".tangled/workflows/test.yml", "Jenkinsfile", ".ci/run"),
    "release": (".goreleaser.yaml", "scripts/publish.sh", "MANIFEST.in", "debian/rules", "Procfile"),
    "install_hook": (
        ".husky/pre-commit",
        "src/evil.pth",
        "tests/conftest.py",
        "sitecustomize.py",
        ".npmrc",
        ".gitmodules",
    ),
    "build": (
        "Makefile",
        "docker/Dockerfile",
        "CMakeLists.txt",
        "build.rs",
        "setup.py",
        "app/build.gradle",
        "vite.config.ts",
    ),
    "dependencies": (
        "requirements.txt",
        "poetry.lock",
        "web/package-lock.json",
        "Cargo.lock",
        "go.sum",
        "package.json",
    ),
    "binary": ("lib/x.so", "tool.exe", "app.jar", "a/__pycache__/x.pyc", "data.tar.gz"),
}


@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind, paths in EXAMPLES.items() for path in paths])
def test_a_path_that_no_fast_lane_may_carry(kind: Kind, path: str) -> None:
    assert never_fast(path) == kind
    assert never_fast(f"x/../{path.upper()}") == kind


@pytest.mark.parametrize(
    "path",
    [
        "src/app.py",
        "README.md",
        "docs/building.rst",
        "src/circular.py",
        "src/release_notes.py",
        "cities/ci.py",
        "static/app.css",
    ],
)
def test_an_everyday_path_says_nothing(path: str) -> None:
    assert never_fast(path) is None


def test_modes_and_old_names_count_too() -> None:
    assert kinds_of(FileChange("vendor/lib", "vendor/lib", "added", submodule=True)) == {"submodule"}
    assert kinds_of(FileChange("a", "a", "added", symlink=True)) == {"symlink"}
    assert kinds_of(FileChange("logo.png", "logo.png", "modified", binary=True)) == {"binary"}
    assert kinds_of(FileChange("run.py", "run.py", "mode", old_mode="100644", new_mode="100755")) == {"executable"}
    assert kinds_of(FileChange("run.py", "run.py", "modified", old_mode="100755", new_mode="100755")) == set()
    assert kinds_of(FileChange("old/ci.txt", ".github/workflows/ci.yml", "renamed")) == {"ci"}


def test_a_change_touches_what_any_of_its_files_touches() -> None:
    change = change_of(added_lines("x", "src/a.py"), added_lines("x", "Makefile"), added_lines("x", "go.sum"))
    assert touched_kinds(change) == {"build", "dependencies"}
    assert touched_kinds(change_of(added_lines("x", "src/a.py"))) == set()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/app.py", "code"),
        ("tests/test_app.py", "tests"),
        ("pkg/app_test.go", "tests"),
        ("web/app.spec.ts", "tests"),
        ("docs/index.rst", "docs"),
        ("README.md", "docs"),
        ("vendor/x/a.go", "vendored"),
        ("web/app.min.js", "generated"),
        ("tests/../src/app.py", "code"),
        ("src/latest.py", "code"),
    ],
)
def test_what_a_file_is_for(path: str, expected: str) -> None:
    assert role(path) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".github/workflows/ci.yml", Rank.CI),
        (".tangled/workflows/build.yml", Rank.CI),
        (".github/labeler.yml", Rank.CI),
        ("Dockerfile.prod", Rank.BUILD),
        ("tests/conftest.py", Rank.BUILD),
        ("install.sh", Rank.BUILD),
        ("lib/x.so", Rank.BUILD),
        ("src/authTokens.go", Rank.AUTH),
        ("tests/test_login.py", Rank.AUTH),
        ("requirements-dev.txt", Rank.DEPENDENCIES),
        ("web/package.json", Rank.DEPENDENCIES),
        ("Cargo.lock", Rank.LOCK),
        ("pylock.toml", Rank.LOCK),
        ("src/author.py", Rank.CODE),
        ("tests/test_pear.py", Rank.TESTS),
        ("docs/guide.md", Rank.PROSE),
        ("", Rank.CODE),
    ],
)
def test_a_path_says_how_early_a_file_is_read(path: str, expected: Rank) -> None:
    assert rank(path) is expected
    assert rank(f"./x/../{path}") is expected


def test_what_is_sensitive_by_its_path_its_old_path_or_what_it_is() -> None:
    plain = added_lines("x", "src/pear.py")
    assert not is_sensitive(plain)
    assert is_sensitive(added_lines("x", "go.sum"))
    assert is_sensitive(FileChange("notes/old.txt", ".github/workflows/ci.yml", "renamed"))
    assert is_sensitive(FileChange("src/pear", "src/pear", "mode", old_mode="100644", new_mode="100755"))
    assert is_sensitive(FileChange("src/pear", "src/pear", "added", symlink=True))


def test_an_operator_names_further_paths_by_the_same_patterns_everywhere() -> None:
    plain = added_lines("x", "src/deep/pear.py")
    assert is_sensitive(plain, ("src/",))
    assert is_sensitive(plain, ("pear.*",))
    assert is_sensitive(plain, ("src/**/pear.py",))
    assert not is_sensitive(plain, ("src/*.py",))
    assert not is_sensitive(plain, ("src/", "!src/deep/"))
    assert is_sensitive(plain, ("[z-a]",)), "what cannot be read spares nothing"


def test_a_file_can_be_more_than_one_thing() -> None:
    assert role("vendor/x/tests/a.py") == "vendored"
    assert has_role("vendor/x/tests/a.py", "tests")
    assert not has_role("src/latest.py", "tests")
    assert is_translation("web/locales/de.json")
    assert is_language("web/locales/de.json")
    assert is_settings("deploy/.env.production")
    assert not is_settings("src/app.py")
    assert is_lock_file("dist/SHA256SUMS.txt")
