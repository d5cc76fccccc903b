"""Changes to what runs before a person reads it."""

import pytest

from scoring.diff.change import FileChange
from scoring.scanners import build_paths
from scoring.scanners.submission import Knowledge
from tests.growth import in_linear_time
from tests.scoring.scanners.written import added_lines, found, marked_lines


def told(*files: FileChange) -> dict[str, str]:
    return {finding.rule: finding.severity.value for finding in found(build_paths.scan, *files)}


@pytest.mark.parametrize(
    ("path", "line", "rule", "severity"),
    [
        (".github/workflows/a.yml", "on: pull_request_target", "ci-rights", "med"),
        (".github/workflows/a.yml", "    run: echo ${{ github.event.issue.title }}", "ci-rights", "med"),
        (".github/workflows/a.yml", "      contents: write", "ci-rights", "med"),
        (".github/workflows/a.yml", "    - uses: someone/action@v1", "ci-step-unpinned", "low"),
        ("package.json", '    "postinstall": "node setup.js",', "npm-hook", "med"),
        ("setup.py", "    cmdclass={'install': Install},", "setup-hook", "low"),
        ("package.json", '    "prepare": "node scripts/sprites.mjs && husky",', "npm-hook", "low"),
        ("pyproject.toml", 'build-backend = "own"', "build-backend", "med"),
        ("src/a.pth", "import os", "install_hook", "med"),
        ("tests/conftest.py", "import os", "install_hook", "low"),
        ("Makefile", "all:", "build", "low"),
        ("go.sum", "x", "dependencies", "low"),
    ],
)
def test_a_line_or_a_file_is_told(path: str, line: str, rule: str, severity: str) -> None:
    assert told(added_lines(line, path))[rule] == severity


NEW_BLOCK = "+    permissions:\n+      contents: read\n+      packages: write\n"


@pytest.mark.parametrize(
    "text",
    [
        f" jobs:\n   build:\n{NEW_BLOCK}     steps:\n",
        "+permissions: {contents: read, packages: write}\n jobs:\n",
        "-  one:\n-    permissions:\n-      contents: write\n+  two:\n+    permissions:\n+      contents: write\n",
        "-        permissions:\n-            packages: write\n+    permissions:\n+      packages: write\n",
        "-permissions:\n-  contents: write\n jobs:\n   build:\n+    permissions:\n+      contents: write\n",
    ],
)
def test_rights_that_a_new_block_lists_or_that_only_move_are_low(text: str) -> None:
    assert told(marked_lines(text, ".github/workflows/a.yml")) == {"ci": "low", "ci-rights-listed": "low"}


@pytest.mark.parametrize(
    "text",
    [
        "     permissions:\n       contents: read\n+      packages: write\n",
        "       contents: read\n+      packages: write\n     steps:\n",
        f" permissions:\n   contents: read\n jobs:\n   build:\n{NEW_BLOCK}",
        f"-permissions: {{}}\n jobs:\n   build:\n{NEW_BLOCK}",
        " jobs:\n+    permissions:\n+      contents: write\n",
        " jobs:\n+    permissions:\n+      actions: write\n",
        " jobs:\n+    permissions:\n+      id-token: write\n",
        "+permissions: write-all\n jobs:\n",
        "+permissions: {packages: write, contents: write}\n jobs:\n",
        "+permissions:\n+  contents: write\n jobs:\n   build:\n-    permissions:\n-      contents: write\n",
    ],
)
def test_rights_that_a_job_did_not_have_are_medium(text: str) -> None:
    assert told(marked_lines(text, ".github/workflows/a.yml"))["ci-rights"] == "med"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (".envrc", "direnv"),
        (".vscode/tasks.json", "editor"),
        (".husky/pre-commit", "commits"),
        (".gitmodules", "git does"),
        (".claude/settings.json", "write code"),
        ("conftest.py", "installs or tests"),
    ],
)
def test_a_hook_is_told_with_what_starts_it(path: str, words: str) -> None:
    [finding] = found(build_paths.scan, added_lines("x", path))
    assert finding.rule == "install_hook"
    assert words in finding.explanation


@pytest.mark.parametrize(
    "line",
    ["    - uses: actions/checkout@v4", "    - uses: ./local", f"    - uses: a/b@{'0' * 40}", "      contents: read"],
)
def test_a_pinned_step_and_a_right_to_read_are_not(line: str) -> None:
    assert set(told(added_lines(line, ".github/workflows/a.yml"))) == {"ci"}


def test_a_compiled_program_weighs_more_than_a_picture() -> None:
    def binary(path: str, kind: str = "added") -> FileChange:
        return FileChange(path, path, "deleted" if kind == "deleted" else "added", binary=True)

    assert told(binary("lib/x.so")) == {"binary": "high"}
    assert told(binary("tests/x.so")) == {"binary": "med"}
    assert told(binary("blob")) == {"binary": "med"}
    assert told(binary("logo.png")) == {"binary": "low"}
    assert told(binary("lib/x.so", "deleted")) == {"binary": "low"}


@pytest.mark.parametrize(
    ("target", "severity"), [("../../etc/passwd", "high"), ("/etc/passwd", "high"), ("../a", "med"), ("b", "med")]
)
def test_a_link_that_leaves_the_repository_weighs_more(target: str, severity: str) -> None:
    link = FileChange("docs/link", "docs/link", "added", added_lines(target).hunks, symlink=True)
    assert told(link) == {"symlink": severity}


def test_paths_that_the_maintainers_named_are_told() -> None:
    knowledge = Knowledge(sensitive_paths=("/src/auth/", "!/src/auth/docs/"))
    files = [added_lines("x", "src/auth/a.py"), added_lines("x", "src/auth/docs/a.md"), added_lines("x", "src/b.py")]
    assert [finding.file for finding in found(build_paths.scan, *files, knowledge=knowledge)] == ["src/auth/a.py"]


def test_a_list_of_paths_that_cannot_be_read_is_told_and_never_passed_over() -> None:
    findings = found(build_paths.scan, added_lines("x", "a.py"), knowledge=Knowledge(sensitive_paths=("[z-a]",)))
    assert [(finding.rule, finding.severity) for finding in findings] == [("sensitive-paths-unreadable", "med")]


def test_ten_thousand_files_end_in_linear_time_with_a_count() -> None:
    files = [added_lines("x: y", f"d{number}/Makefile") for number in range(10_000)]
    findings = in_linear_time(lambda some: found(build_paths.scan, *some), lambda size: files[:size], 10_000, 1)
    assert len(findings) == build_paths.FILES_TOLD + 1
    assert "9980 more files" in findings[-1].explanation


def test_an_everyday_change_is_no_finding() -> None:
    assert found(build_paths.scan, added_lines("x = 1", "src/a.py"), added_lines("text", "README.md")) == []
