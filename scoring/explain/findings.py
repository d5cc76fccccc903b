"""Names of findings for people, one table from scanner and rule to name. Pure.

A page never shows a scanner's code as a name: "addressed" reads like "dealt with" there.
"""

import re
from functools import cache

from scoring.explain.content import FLAG_NAMES

LONGEST_NAME = 32  # characters of a name, so that a file and a line fit beside it

RULES: dict[tuple[str, str], str] = {
    ("build_paths", "ci"): "CI configuration changed",
    ("build_paths", "more-ci"): "More CI configuration changed",
    ("build_paths", "ci-rights"): "CI job given more rights",
    ("build_paths", "ci-secret"): "CI step given a secret",
    ("build_paths", "ci-step-unpinned"): "CI step not pinned",
    ("build_paths", "release"): "Release process changed",
    ("build_paths", "more-release"): "More release files changed",
    ("build_paths", "install_hook"): "Runs at installation",
    ("build_paths", "more-install_hook"): "More files run at installation",
    ("build_paths", "npm-hook"): "Runs at installation",
    ("build_paths", "setup-hook"): "Runs at installation",
    ("build_paths", "build-backend"): "Build tool changed",
    ("build_paths", "build"): "Build changed",
    ("build_paths", "more-build"): "More build files changed",
    ("build_paths", "dependencies"): "Dependencies changed",
    ("build_paths", "more-dependencies"): "More dependency files changed",
    ("build_paths", "binary"): "Binary file changed",
    ("build_paths", "more-binary"): "More binary files changed",
    ("build_paths", "submodule"): "Submodule changed",
    ("build_paths", "more-submodule"): "More submodules changed",
    ("build_paths", "symlink"): "Symbolic link changed",
    ("build_paths", "more-symlink"): "More symbolic links changed",
    ("build_paths", "executable"): "File made executable",
    ("build_paths", "more-executable"): "More files made executable",
    ("build_paths", "sensitive-path"): "Sensitive path changed",
    ("build_paths", "sensitive-paths-unreadable"): "Sensitive paths are unreadable",
    ("dependencies", "new_in_lock"): "New package in lock file",
    ("dependencies", "new_at_build"): "New package at build time",
    ("dependencies", "new_dependency"): "New dependency",
    ("dependencies", "install_script"): "Package runs an install script",
    ("dependencies", "downgrade"): "Package downgraded",
    ("dependencies", "unencrypted_source"): "Package fetched unencrypted",
    ("dependencies", "git_source"): "Package from a git repository",
    ("dependencies", "path_source"): "Package from a folder",
    ("dependencies", "url_source"): "Package from an address",
    ("dependencies", "other_package"): "Package under another name",
    ("dependencies", "lock_host"): "Unusual package host",
    ("dependencies", "unencrypted_index"): "Package index unencrypted",
    ("dependencies", "custom_index"): "Unusual package index",
    ("dependencies", "hash_changed"): "Package hash changed",
    ("dependencies", "too_many"): "Too many dependencies to read",
    ("dependencies", "malware"): "Known malware",
    ("dependencies", "advisory"): "Known vulnerability",
    ("dependencies", "lock_alone"): "Lock file changed",
    ("commit_author", "several-people"): "Commits of several people",
    ("commit_author", "other-person"): "Commit by another person",
    ("commit_author", "other-name"): "Commit under another name",
    ("flipped", "opposite"): "Condition reversed",
    ("flipped", "shifted"): "Limit moved by one",
    ("flipped", "lowered"): "Protection lowered",
    ("flipped", "turned"): "Comparison turned round",
    ("invisible", "file-name"): "Misleading file name",
    ("invisible", "mixed-script"): "Look-alike letters",
    ("licences", "licence_file"): "Licence file changed",
    ("licences", "licence_years"): "Licence years changed",
    ("licences", "unknown_identifier"): "Unknown licence",
    ("licences", "demanding_licence"): "Demanding licence",
    ("licences", "licence_conflict"): "Licence conflict",
    ("licences", "declared_licence"): "Declared licence changed",
    ("licences", "copyright_removed"): "Copyright notice removed",
    ("slop", "chat-leftover"): "Chat reply left in the code",
    ("slop", "placeholder"): "Placeholder left in the code",
    ("slop", "stubs"): "Functions without a body",
    ("slop", "echoing-comments"): "Comments repeat the code",
    ("slop", "copied-block"): "Block copied twice",
    ("dangerous", "too-much-to-read"): "Code too long to scan",
    ("review", "findings-not-kept"): "More findings",
    ("reading", "not-kept"): "Patch no longer kept",
    ("reading", "cut"): "Patch fetched in part",
    ("reading", "scan_failed"): "A scanner failed",
    ("reading", "scan_cut_off"): "Scan not finished",
    ("reading", "git_differs"): "Git reads another change",
    ("reading", "no_file"): "No changed file found",
}
SCANNERS: dict[str, str] = {
    "addressed": "Prompt injection",
    "invisible": "Hidden characters",
    "typosquats": "Look-alike package name",
    "secrets": "Secret in the code",
    "untested": "No test changed",
    "weakened": "Fewer checks",
    "intent": "Title says less than the change",
    "near_duplicates": "Like a known bad change",
    "licences": "Licence changed",
    "sarif": "Found by another tool",
    "reading": "Patch not fully readable",
}
# What a scanner looks for, where its findings are counted together.
COUNTED: dict[str, str] = {
    "bandit": "Risky Python code",
    "build_paths": "CI, build and installation",
    "commit_author": "Commit authors",
    "dangerous": "Risky code",
    "dependencies": "Dependencies",
    "flipped": "Reversed conditions",
    "slop": "Filler in place of work",
}
# Rules of "dangerous" and Bandit's checks by a word of their id; the first that matches names it.
CLASSES: tuple[tuple[str, str], ...] = (
    (r"ssh-host-key|^B507", "SSH host key not checked"),
    (r"tls-unverified|^host-(never|verifier)|other-side-trusted|^B(323|501)$", "TLS check turned off"),
    (r"tls-weakened|old-protocol|^B50[23]$", "Weak TLS version"),
    (r"^B(312|321|508|509)$", "Unencrypted protocol"),
    (r"hash-for-secret|password-hash|password-in-fast|password-fed|hashed-fast|cheap-hash", "Weak password hash"),
    (r"derivation", "Weak key derivation"),
    (r"small-key|^B505", "Key too short"),
    (r"weak-cipher|ecb|cipher|protection-weakened|^B30[45]$", "Weak cipher"),
    (r"nonce|start-value", "Fixed nonce or salt"),
    (r"guess|generator-known", "Guessable secret or name"),
    (r"comparison-cut|in-part|openly|loosely|case-ignored|memcmp|constant-time", "Weak comparison of a secret"),
    (r"signature-off|signature-unchecked|token-without-signature|token-read|jwt", "Signature not checked"),
    (r"checksum|fetched-unchecked", "Download not verified"),
    (r"sql|(?<!j)quer|clause|value-in-quotes|parameters-replaced|statement-from|^B61[01]$", "SQL built from input"),
    (r"row-security|program-run|rights-for-everybody", "Database safeguard lowered"),
    (r"reverse-connection", "Reverse shell"),
    (r"miner", "Mining pool address"),
    (r"keystrokes|password-sent|form-elsewhere", "Sends what people type"),
    (r"secret-in-log|secret-logged|written|secret-in-address", "Secret written out"),
    (r"environment|keys-sent|read-and-sent|secrets-sent|secret-sent|variable-sent|given-away", "Secrets sent away"),
    (r"host-name|name-lookup|sent-elsewhere|sent-away|machine-described|collection-address", "Data sent away"),
    (r"key-file-read|home-keys", "Reads key files"),
    (r"secrets-beside-address", "Secrets near an address"),
    (r"long-encoded|escaped-letters|text-turned", "Unreadable code"),
    (r"decode|encoded|hidden-text-run|letters$|hidden-command|runs-hidden", "Hidden code is run"),
    (r"access-by-name|by-fixed-text|fixed-text|by-text|by-number|by-date|at-a-sign", "Possible back door"),
    (r"master-|password-in|time-bomb|machine-bound", "Possible back door"),
    (r"run-web-input|include-web|chooses-function|call-by", "Visitor decides what runs"),
    (r"hidden|by-name$|renamed|runner", "Hidden code"),
    (r"ci-|pipeline|step-by-branch", "Risky CI step"),
    (r"download|fetch|installer-pipe|code-from-network|bare-address|image-adds", "Code from the network is run"),
    (r"packages-|package-from|installed-at|module-replaced|source-of-somebody", "Package from elsewhere"),
    (r"hook-of-installation|install-step|start-at-login", "Commands that run unasked"),
    (r"root|more-rights|world-writable|mode-set|^B103", "Too many rights given"),
    (r"remove-(variable|everything)", "Deletes too much"),
    (r"eval|run-variable|builtin|interpreter|open-pipe|^B(102|307|612)$", "Text run as code"),
    (
        r"shell|backticks|argument|program-takes|os-system|command|in-list|option$|^c-variable",
        "Shell command from input",
    ),
    (r"^B60[1-9]$", "Shell command from input"),
    (r"pickle|deserialisation|unserialize|-load|objects-from|reduce|^B(301|302|506|614)$", "Unsafe data loading"),
    (r"entities", "Unsafe XML parser"),
    (r"prototype|mass-assignment|fields-from|variables-from", "Visitor may set any field"),
    (r"archive|^B202", "Unsafe archive unpacking"),
    (r"redirect|header-from|chooses-target", "Open redirect"),
    (r"path-guard|path-check", "Path check removed"),
    (r"escap|html|markup|template|script|inner|printed|^B70[1-4]$", "Unescaped markup"),
    (r"web-input|-as-path|path-from|chooses-(file|address)|host-checked|address-", "Unchecked path or address"),
    (r"check-removed|guard-decorator|middleware|owner-condition|nobody-is-asked|by-true", "Access check removed"),
    (r"refused|after-no|way-out|goes-on|failed-check", "Refusal without effect"),
    (r"access-|rights-|permissions|(?<!safe)guard-|visitor-says|sets-rights|identity-set", "Weak access check"),
    (r"asked-by|checked-only|nothing-sent|missing-equals", "Weak access check"),
    (r"always|constant|says-yes|condition-disabled", "Check that always passes"),
    (r"csrf|cookie|any-site|open-hosts|safeguard|safe-option|message-to|web-view", "Safeguard switched off"),
    (r"bind-all|profiler|debug|^B201$", "Safeguard switched off"),
    (r"stale|check(ed)?-then|exclusive|right-by-look|temporary|two-steps|^B(108|306)$", "Race between check and use"),
    (r"lock-removed", "Lock removed"),
    (r"memory|pointer|transmute|unsafe|static-mut|unbounded|format-from|machine-code", "Unsafe memory access"),
    (r"checker-silenced", "Security checker silenced"),
    (r"test-switched|assertion-removed", "Test weakened"),
    (r"limit-removed", "Limit removed"),
    (r"except|catch|error|return-in", "Error swallowed"),
    (r"literal|default|nan|suffix|effect|implemented|assignment|assert", "Likely mistake"),
)
LANGUAGE = re.compile(
    "^(c|csharp|go|java|javascript|kotlin|lua|perl|php|powershell|python|ruby|rust|shell|sql|template)-"
)


@cache
def finding_name(scanner: str, rule: str, kind: str) -> str:
    """Return the name of a finding; that of its `kind` of flag where the table has neither rule nor scanner."""
    if found := RULES.get((scanner, rule)) or SCANNERS.get(scanner):
        return found
    fallback = FLAG_NAMES.get(kind, FLAG_NAMES["other"])
    if scanner not in ("dangerous", "bandit"):
        return fallback
    plain = LANGUAGE.sub("", rule)
    return next((name for words, name in CLASSES if re.search(words, plain)), fallback)


def scanner_words(scanner: str) -> str:
    """Return what a scanner looks for, in words; anything else that finds something is a model."""
    return SCANNERS.get(scanner) or COUNTED.get(scanner) or "A model's flags"
