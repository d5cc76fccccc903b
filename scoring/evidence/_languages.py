"""Tells the language of a file by its name, for languages that have rules. Pure."""

import re
from typing import Literal

from scoring.content.change import FileChange
from scoring.content.globs import clean_path, first_match

Language = Literal[
    "python",
    "javascript",
    "go",
    "rust",
    "php",
    "ruby",
    "java",
    "c",
    "csharp",
    "kotlin",
    "lua",
    "shell",
    "powershell",
    "perl",
    "sql",
    "template",
    "config",
    "other",
]

# As ast-grep names them. TypeScript is read as TSX: its old type assertions `<T>value` are read as an element. C is
# read as C++, which has its expressions.
GRAMMARS = {
    "python": "python",
    "javascript": "tsx",
    "go": "go",
    "rust": "rust",
    "php": "php",
    "ruby": "ruby",
    "java": "java",
    "c": "cpp",
    "csharp": "csharp",
    "kotlin": "kotlin",
    "lua": "lua",
}
NAMES: dict[Language, tuple[str, ...]] = {
    "python": ("*.py", "*.pyi", "*.pyw", "*.pyx", "sconstruct", "wscript"),
    "javascript": ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.ts", "*.tsx", "*.mts", "*.cts"),
    "go": ("*.go",),
    "rust": ("*.rs",),
    # Blade's templates first: their markup is no code of PHP.
    "template": (
        *("*.blade.php", "*.html", "*.htm", "*.xhtml", "*.jinja", "*.jinja2", "*.j2", "*.erb", "*.rhtml", "*.ejs"),
        *(
            "*.vue",
            "*.svelte",
            "*.hbs",
            "*.handlebars",
            "*.mustache",
            "*.njk",
            "*.twig",
            "*.liquid",
            "*.haml",
            "*.slim",
        ),
        *(
            "*.pug",
            "*.jade",
            "*.jsp",
            "*.jspx",
            "*.ftl",
            "*.cshtml",
            "*.razor",
            "*.tmpl",
            "*.gohtml",
            "*.astro",
            "*.svg",
        ),
    ),
    "php": ("*.php", "*.php3", "*.php4", "*.php5", "*.php7", "*.phtml", "*.phar", "*.inc", "*.module"),
    "ruby": ("*.rb", "*.rake", "*.gemspec", "*.ru", "rakefile", "gemfile", "vagrantfile", "fastfile", "podfile"),
    "java": ("*.java",),
    "c": ("*.c", "*.h", "*.cc", "*.cpp", "*.cxx", "*.hpp", "*.hh", "*.hxx", "*.ino"),
    "csharp": ("*.cs", "*.csx"),
    "kotlin": ("*.kt", "*.kts"),
    "lua": ("*.lua",),
    "shell": (
        *("*.sh", "*.bash", "*.zsh", "*.ksh", "*.bats", "*.command", ".bashrc", ".bash_profile", ".zshrc", ".profile"),
        *(".envrc", "/debian/*inst", "/debian/*rm", "/.husky/*", "/.githooks/*", "/githooks/*"),
    ),
    "powershell": ("*.ps1", "*.psm1", "*.psd1", "*.bat", "*.cmd"),
    "perl": ("*.pl", "*.pm", "*.t", "*.cgi"),
    "sql": ("*.sql", "*.pgsql", "*.psql", "*.ddl"),
    "config": (
        *("dockerfile*", "*.dockerfile", "containerfile*", "makefile*", "*.mk", "justfile", "jenkinsfile*", "*.yml"),
        *("*.yaml", "*.toml", "*.cfg", "*.ini", "*.conf", "*.json", "procfile", "*.service", "*.tf", "*.gradle"),
        *("*.npmrc", "*.yarnrc", ".cargo/config", "go.mod", "pom.xml", "*.csproj", "*.targets", "*.props"),
        *("cmakelists.txt", "*.cmake", "*.properties"),
    ),
}


def language_of(path: str) -> Language:
    """Return the language whose rules apply; "other" for text in a language without rules of its own."""
    clean = clean_path(path).lower()
    return next((language for language, names in NAMES.items() if first_match(names, clean)), "other")


_INTERPRETER = re.compile(
    r"#!\s{0,4}\S{0,200}?(?:/|\benv\s+(?:-\S+\s+)?)(python|node|deno|bun|sh|bash|zsh|dash|ksh|perl|ruby|php|lua|pwsh)[\d.]{0,8}(?:\s|$)"
)
_INTERPRETED: dict[str, Language] = {
    "python": "python",
    "node": "javascript",
    "deno": "javascript",
    "bun": "javascript",
    "perl": "perl",
    "ruby": "ruby",
    "php": "php",
    "lua": "lua",
    "pwsh": "powershell",
}


def language_of_file(file: FileChange) -> Language:
    """Return the language by the file's name, else by the interpreter in its first line, else shell for a program."""
    named = language_of(file.path)
    if named != "other":
        return named
    first = next((line.text for hunk in file.hunks for line in hunk.lines if line.new == 1), "")
    told = _INTERPRETER.match(first[:300])
    if told:
        return _INTERPRETED.get(told[1], "shell")
    is_program = "100755" in (file.old_mode, file.new_mode) and "." not in file.path.rpartition("/")[2]
    return "shell" if is_program else "other"
