"""What a path says about a change: the kinds that no fast lane may carry, and what a file is for."""

import pytest

from scoring.content.change import FileChange
from scoring.content.paths import Kind, kinds_of, never_fast, role, touched_kinds
from tests.scoring.evidence.written import added_lines, change_of

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
