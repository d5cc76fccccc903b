"""Lock files and manifests, and what the scanner of dependencies says of a change of one."""

from scoring.scanners.dependencies import scan
from tests.scoring.diff.patched import submission

PACKAGE_JSON = """{
  "name": "orchard",
  "version": "1.0.0",
  "scripts": {
    "test": "vitest"
  },
  "dependencies": {
    "react": "^18.2.0",
    "zod": "3.22.4"
  },
  "devDependencies": {
    "vitest": "^1.0.0"
  }
}
"""
PACKAGE_LOCK = """{
  "name": "orchard",
  "lockfileVersion": 3,
  "packages": {
    "": {
      "dependencies": {
        "zod": "3.22.4"
      }
    },
    "node_modules/zod": {
      "version": "3.22.4",
      "resolved": "https://registry.npmjs.org/zod/-/zod-3.22.4.tgz",
      "integrity": "sha512-aaaa",
      "license": "MIT"
    }
  }
}
"""
CARGO_LOCK = """version = 3

[[package]]
name = "serde"
version = "1.0.190"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "aaaa"
dependencies = [
 "serde_derive",
]
"""
POETRY_LOCK = """[[package]]
name = "requests"
version = "2.31.0"
description = "HTTP"
optional = false
python-versions = ">=3.7"
files = [
    {file = "requests-2.31.0-py3-none-any.whl", hash = "sha256:aaaa"},
    {file = "requests-2.31.0.tar.gz", hash = "sha256:bbbb"},
]

[package.dependencies]
idna = ">=2.5,<4"
"""
YARN_LOCK = """# yarn lockfile v1


zod@^3.22.0:
  version "3.22.4"
  resolved "https://registry.yarnpkg.com/zod/-/zod-3.22.4.tgz#aaaa"
  integrity sha512-aaaa
"""
GEMFILE_LOCK = """GEM
  remote: https://rubygems.org/
  specs:
    rack (3.0.8)
    rake (13.1.0)

PLATFORMS
  ruby
"""


def told(path: str, before: str, after: str, context: int = 3, **knowledge: object) -> list[tuple[str, str]]:
    """Rule and severity of each finding on one file, without the one on a lock file that changes alone."""
    found = scan(submission({path: (before, after)}, context, **knowledge))
    return [(one.rule, str(one.severity)) for one in found if one.rule != "lock_alone"]


def added(path: str, before: str, after: str, context: int = 3) -> list[str]:
    """The names of new dependencies, as a sentence gives them."""
    found = scan(submission({path: (before, after)}, context))
    return [one.explanation.split(" ")[0] for one in found if one.rule in ("new_dependency", "new_at_build")]
