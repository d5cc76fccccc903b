"""What a file is for, told from its path alone."""

import re
from functools import lru_cache

_LOCK = re.compile(
    r"(?:^|/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|deno\.lock|cargo\.lock|"
    r"poetry\.lock|uv\.lock|pdm\.lock|pipfile\.lock|gemfile\.lock|composer\.lock|go\.sum|go\.work\.sum|flake\.lock|"
    r"mix\.lock|podfile\.lock|packages\.lock\.json|pubspec\.lock|conan\.lock|gradle\.lockfile|"
    r"[^/]*\.lock|[^/]*sha(?:256|512)sums?[^/]*)$"
)
_TEST = re.compile(
    r"(?:^|[/._-])(?:tests?|testing|testdata|testcases?|specs?|__tests__|__mocks__|__snapshots__|mocks?|fixtures?|"
    r"cassettes|goldens?|stubs?|e2e|conftest)(?=[/._-])|[a-z0-9](?:tests?|spec)\.[a-z]+$"
)
_DOCUMENTATION = re.compile(
    r"\.(?:md|mdx|markdown|rst|adoc|asciidoc|txt|tex|org|html?|ipynb)$|"
    r"(?:^|/)(?:docs?|documentation|examples?|samples?|tutorials?)/|"
    r"(?:^|/)(?:readme|changelog|changes|history|contributing|authors|license|news)[^/]*$"
)
_TRANSLATION = re.compile(
    r"\.(?:po|pot|mo|xlf|xliff|arb|strings|resx|ftl)$|"
    r"(?:^|/)(?:locales?|i18n|l10n|lang|langs|languages?|translations?|intl|lc_messages)/"
)
_CODE = re.compile(
    r"\.(?:py|pyi|pyx|js|jsx|mjs|cjs|ts|tsx|mts|cts|vue|svelte|go|rs|rb|php|java|kt|kts|scala|swift|c|h|cc|cpp|cxx|hpp|"
    r"hh|m|mm|cs|fs|sh|bash|zsh|fish|ps1|pl|pm|lua|r|jl|ex|exs|erl|hs|ml|mli|clj|dart|sol|zig|nim|sql|tf|nix|gradle|"
    r"groovy|proto|graphql|css|scss|less|ya?ml|toml|json|ini|cfg|xml|cmake|mk)$|"
    r"(?:^|/)(?:makefile|dockerfile|jenkinsfile|rakefile|gemfile|justfile|meson\.build|build|workspace)[^/]*$"
)
_SETTINGS = re.compile(
    r"(?:^|/)\.?env(?:\.[^/]*|rc)?$|\.(?:env|ini|cfg|conf|cnf|properties|toml|ya?ml|tfvars|npmrc|pypirc|netrc|sh|bash|"
    r"zsh|service|tf)$|(?:^|/)(?:dockerfile|makefile|\.npmrc|\.pypirc|\.netrc|credentials|config)[^/]*$"
)
MINIFIED_LENGTH = 1_000  # characters of a line that no person wrote


@lru_cache(maxsize=4096)
def is_lock_file(path: str) -> bool:
    """A list of resolved packages with their hashes."""
    return bool(_LOCK.search(path.lower()))


@lru_cache(maxsize=4096)
def is_test(path: str) -> bool:
    """A test, or data of one."""
    return bool(_TEST.search(path.lower()))


@lru_cache(maxsize=4096)
def is_documentation(path: str) -> bool:
    """Prose or an example for readers."""
    return bool(_DOCUMENTATION.search(path.lower()))


@lru_cache(maxsize=4096)
def is_translation(path: str) -> bool:
    """Texts in the languages of its users."""
    return bool(_TRANSLATION.search(path.lower()))


@lru_cache(maxsize=4096)
def is_code(path: str) -> bool:
    """Something that a machine reads as a language."""
    return bool(_CODE.search(path.lower()))


@lru_cache(maxsize=4096)
def is_settings(path: str) -> bool:
    """A file in which a value may stand without quotes."""
    return bool(_SETTINGS.search(path.lower()))


def is_minified(line: str) -> bool:
    """A line that no person wrote."""
    return len(line) > MINIFIED_LENGTH
