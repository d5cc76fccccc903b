"""Name the languages without rules in the code that a change touches. Pure.

A file counts as read where it has rules (`_text.NAMES`), or where its ending or name shows prose, data, styles or
markup. Everything else is unread code, including unknown endings. Templates with code (Vue, ERB, JSP) are not read:
their rules see only unescaped output.
"""

import re
from pathlib import PurePosixPath

from scoring.diff.change import Change, FileChange
from scoring.diff.globs import clean_path
from scoring.scanners._text import language_of_file

PROSE = """
    md rst txt text adoc asciidoc markdown mdx org tex textile pod rdoc rtf bib po pot mo strings arb xlf xliff ftl resx
    license licence html-fragment diff patch log
"""
DATA = """
    json json5 jsonl ndjson jsonc csv tsv xml xsd dtd rng plist yml yaml toml cfg ini conf cnf properties lock lockb sum
    pem crt cer pub asc sig csr in sample example orig snap ics vcf geojson har proto graphql gql avsc thrift map env
    editorconfig coveragerc flake8 pylintrc bazelignore dockerignore gitignore gitattributes gitmodules npmignore npmrc
    gitkeep keep mailmap nvmrc node-version python-version ruby-version prettierrc eslintrc babelrc browserslistrc
    prettierignore eslintignore hgignore hgtags yarnrc stylelintrc curlrc pypirc netrc typed toc manifest webmanifest
"""
STYLES = "css scss sass less styl pcss css_t"
MARKUP = "html htm xhtml svg rss atom xsl xslt jinja jinja2 j2 tmpl tpl mustache hbs handlebars twig liquid njk"
READ_ENDINGS = frozenset(f"{PROSE} {DATA} {STYLES} {MARKUP}".split())
# Names without an ending. Any name in capitals is one of these: LICENSE, AUTHORS, CHANGES, MANIFEST.
_NAMES = """
    readme license licence copying copyright authors contributors maintainers changelog changes history news notice
    codeowners owners pipfile gemfile procfile cname control compat docs manifest version todo pyversions
"""
READ_NAMES = frozenset(_NAMES.split())
# Languages by their ending, for display; a language is removed here once it has rules.
LANGUAGES: dict[str, tuple[str, ...]] = {
    "Scala": ("scala", "sbt", "sc"),
    "Objective-C": ("m", "mm"),
    "C# in templates": ("cshtml", "razor"),
    "F#": ("fs", "fsx"),
    "Visual Basic": ("vb", "vbs", "bas"),
    "Swift": ("swift",),
    "fish": ("fish",),
    "Nushell": ("nu",),
    "Luau": ("luau",),
    "R": ("r", "rmd"),
    "Julia": ("jl",),
    "Elixir": ("ex", "exs", "eex", "heex", "leex"),
    "Erlang": ("erl", "hrl"),
    "Haskell": ("hs", "lhs"),
    "OCaml": ("ml", "mli"),
    "Clojure": ("clj", "cljs", "cljc", "edn"),
    "Lisp": ("lisp", "cl", "el", "scm", "rkt"),
    "Dart": ("dart",),
    "Solidity": ("sol",),
    "Zig": ("zig", "zon"),
    "Nim": ("nim", "nims"),
    "Crystal": ("cr",),
    "D": ("d",),
    "Pascal": ("pas", "pp", "lpr"),
    "Fortran": ("f", "f90", "f95"),
    "assembly": ("s", "asm"),
    "Groovy": ("groovy", "gvy"),
    "Nix": ("nix",),
    "Tcl": ("tcl", "tk"),
    "awk": ("awk",),
    "AppleScript": ("applescript", "scpt"),
    "Vim script": ("vim",),
    "GraphViz": ("dot", "gv"),
    "CUDA": ("cu", "cuh"),
    "shaders": ("glsl", "hlsl", "vert", "frag", "wgsl", "metal"),
    "Coq and Lean": ("v", "lean"),
    "CoffeeScript": ("coffee", "litcoffee"),
    "Vue": ("vue",),
    "Svelte": ("svelte",),
    "Astro": ("astro",),
    "templates with code": ("php", "erb", "ejs", "jsp", "jspx", "haml", "slim", "pug", "jade"),
    "notebooks": ("ipynb",),
    "build files": ("bzl", "bazel", "cmake", "m4", "am", "ac", "gn", "gni", "ninja", "gyp", "gypi"),
    "WebAssembly text": ("wat", "wast"),
    "PostScript": ("ps", "eps"),
}
_BY_ENDING = {ending: language for language, endings in LANGUAGES.items() for ending in endings}
_INTERPRETED = {"tclsh": "Tcl", "rscript": "R"}
_LETTERS = re.compile(r"[a-z]")
_ENDING = re.compile(r"[a-z0-9_+-]{1,15}")
# Endings that describe a file's use and not its content: the ending before them decides.
_COPIES = "in sample example orig tmpl tpl j2 jinja jinja2 dist bak old new"
_OUTER = frozenset(_COPIES.split())


def languages_without_rules(change: Change) -> tuple[str, ...]:
    """Return the languages of the changed lines that no rule reads, sorted, without duplicates."""
    languages = (language_without_rules(file) for file in change.files if file.hunks)
    return tuple(sorted({language for language in languages if language}))


def language_without_rules(file: FileChange) -> str | None:
    """Return the language of a file that no rule reads; None where it has rules, or is prose, data, styles or markup.

    The name can be displayed for any path: only letters and digits of a strange ending are repeated.
    """
    if file.symlink or file.submodule or language_of_file(file) not in ("other", "template"):
        return None
    first = next((line.text for hunk in file.hunks for line in hunk.lines if line.new == 1), "")
    if first.startswith("#!"):
        interpreter = _interpreter(first[2:300].lower())
        return _INTERPRETED.get(interpreter, f"the interpreter {interpreter}")
    return _by_name(PurePosixPath(clean_path(file.path)).name)


def _interpreter(words: str) -> str:
    """Return the name of the program in a first line, without version; after `env` the program that it starts."""
    names = [word.rpartition("/")[2] for word in words.split() if not word.startswith("-") and "=" not in word]
    program = names[1] if names[:1] == ["env"] and len(names) > 1 else "".join(names[:1])
    return "".join(_LETTERS.findall(program))[:20] or "of no name"


def _by_name(name: str) -> str | None:
    stem, dot, ending = name.rpartition(".")
    if not dot:
        is_prose = re.fullmatch(r"[A-Z][A-Z0-9_-]*", name) or name.lower() in READ_NAMES
        return None if is_prose else "files without an ending"
    ending = ending.lower()
    if ending in _OUTER and "." in stem.lstrip("."):
        return _by_name(stem)
    if ending in READ_ENDINGS:
        return None
    if ending in _BY_ENDING:
        return _BY_ENDING[ending]
    return f"files that end in .{ending}" if _ENDING.fullmatch(ending) else "files of an unknown kind"
