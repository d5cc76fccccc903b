"""What a path says about a change: which part of a project it touches, and what no lane may wave through. Pure."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from scoring.content.change import Change, FileChange
from scoring.content.globs import clean_path, first_match

Kind = Literal["ci", "release", "install_hook", "build", "dependencies", "binary", "submodule", "symlink", "executable"]
Role = Literal["code", "tests", "docs", "vendored", "generated"]

# Paths whose change runs somewhere before a person has read it, or cannot be read at all. In lower case: a checkout on
# a file system that ignores case takes any spelling. The first kind that matches is told.
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
        *("package.resolved", "podfile.lock", "cartfile*", "vcpkg.json", "conanfile.*", "buildpack.toml"),
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
        *("test_*.py", "*_test.py", "*_test.go", "*.test.*", "*.spec.*", "tests.py", "conftest.py", "*_test.rs"),
        *("*_spec.rb", "benches", "bench", "benchmarks"),
    ),
    "docs": (
        *("docs", "doc", "documentation", "examples", "example", "*.md", "*.rst", "*.adoc", "*.txt", "*.po"),
        *("changelog*", "changes*", "history*", "readme*", "license*", "authors*", "contributing*"),
    ),
}


@lru_cache(maxsize=8192)
def never_fast(path: str) -> Kind | None:
    """The kind of a path that no fast lane may carry: CI, release, install hooks, build, dependencies, binaries.

    None where the path alone says nothing of the sort; `touched_kinds` also reads modes and contents.
    """
    clean = clean_path(path).lower()
    return next((kind for kind, patterns in NEVER_FAST.items() if first_match(patterns, clean)), None)


@lru_cache(maxsize=8192)
def role(path: str) -> Role:
    """What a file is for, by its path alone: code where nothing says otherwise."""
    clean = clean_path(path).lower()
    return next((role for role, patterns in ROLES.items() if first_match(patterns, clean)), "code")


def kinds_of(file: FileChange) -> frozenset[Kind]:
    """Every kind that one file's part touches: by its old and new path, by modes, and as a binary."""
    return frozenset(_kinds(file))


def touched_kinds(change: Change) -> frozenset[Kind]:
    """Every kind that a change touches; where it is not empty, no fast lane."""
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
