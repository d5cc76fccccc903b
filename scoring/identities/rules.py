"""Where a line says who wrote it, whoever that is: trailers, copyright, addresses, profiles, paths, keys, times."""

import re

from scoring.identities.patterns import EMAIL, PEOPLE, Rules, rule

_LEAD = r"^[^\w\n]{0,20}"  # marks of a comment or a quotation
_COLON = r"[ \t]{0,8}:[ \t]{0,8}"
_TRAILERS = (
    "signed-off-by|co-authored-by|co-developed-by|reviewed-by|acked-by|tested-by|reported-by|suggested-by|helped-by|"
    "mentored-by|based-on-patch-by|requested-by|approved-by|committed-by|authored-by|paired-with|thanks-to"
)
_OTHER_TRAILER = "[A-Z][a-z]{1,20}(?:-[a-z]{1,20}){0,3}-by"
_SENDERS = "from|to|cc|bcc|sender|reply-to|author|commit|committer|tagger|contact"
_MAIL_IDS = "message-id|in-reply-to|references|list-id|return-path|x-[a-z-]{1,40}"
_WRITERS = (
    "Authors?|Written by|Created by|Maintained by|Maintainers?|Contributors?|Contributed by|Credits?|Licensors?|"
    "Developed by|Modified by|Posted by"
)
_COMMENT = r"^[ \t]{0,80}(?:#|//|/?\*|--|;|%|<!--|\"\"\"|'''|REM )[^\w\n]{0,20}"
_QUOTED_LEAD = r"(?:^|[\"'`>])[^\w\n]{0,20}"  # copyright stands in a comment, a text or a string, not behind code
_SIGN = r"(?:\(c\)|©|&copy;)"
_COPYRIGHT = "(?:spdx-file)?copyright(?:text)?"
_YEARS = r"[0-9]{4}(?:[ \t]?[-\u2013,][ \t]?(?:[0-9]{2,4}|present|now)){0,20}"

_LINE_RULES = (
    rule("person", "-by|paired-with|thanks-to", PEOPLE, f"{_LEAD}(?:(?i:{_TRAILERS})|{_OTHER_TRAILER}){_COLON}"),
    rule("change-id", "change-id", r"[\w./-]{1,200}", f"{_LEAD}change-id{_COLON}", flags=re.IGNORECASE),
    rule(
        "change-id", "git-subtree", r"[\w./-]{1,200}", f"{_LEAD}git-subtree-[a-z]{{1,20}}{_COLON}", flags=re.IGNORECASE
    ),
    rule("change-id", "From [0-9a-f]{40}", "[0-9a-f]{40}", "^From ", " "),
    rule("person", "@", PEOPLE, rf"{_LEAD}(?:{_SENDERS}){_COLON}(?=[^\n]*@)", flags=re.IGNORECASE),
    rule("email", "@", r"<[^\s<>@]{1,200}@[^\s<>]{1,200}>", f"{_LEAD}(?:{_MAIL_IDS}){_COLON}", flags=re.IGNORECASE),
    rule(
        "person",
        r"copyright|©|\(c\)|&copy;",
        PEOPLE,
        rf"{_QUOTED_LEAD}(?:{_COPYRIGHT}|{_SIGN})[ \t\"'=:]{{0,8}}{_SIGN}?[ \t\"']{{0,8}}"
        rf"{_YEARS}[ \t,.:-]{{0,4}}(?:by )?",
        flags=re.IGNORECASE,
    ),
    rule(
        "person",
        "copyright|©",
        PEOPLE,
        rf"(?:{_QUOTED_LEAD}{_COPYRIGHT}[ \t]{{0,8}}(?:{_SIGN}|by(?!\w)|:)|©)"
        rf"(?![ \t]{{0,8}}{_SIGN}?[ \t]{{0,8}}[0-9]{{4}})[ \t]{{0,8}}{_SIGN}?[ \t]{{0,8}}",
        flags=re.IGNORECASE,
    ),
    rule("person", "@author", PEOPLE, r"@authors?\b[ \t:]{0,8}"),
    rule(
        "person",
        "author|d by|written by|maintainer|contributor|credit|licensor",
        PEOPLE,
        rf"{_COMMENT}(?:{_WRITERS})(?!\w)[ \t:]{{1,8}}",
    ),
    rule(
        "person",
        "__",
        r"[^\"'\n]{1,200}",
        r"__(?:author|maintainer|email|credits|contact)__[ \t]{0,20}=[ \t]{0,20}\[?[\"']",
    ),
    rule("person", "licensor", PEOPLE, r"^[ \t]{0,80}Licensor:[ \t]{0,80}"),
)

_FORGES = (
    r"(?:(?:gist\.|raw\.)?github(?:usercontent)?\.com|gitlab\.com|codeberg\.org|bitbucket\.org|gitea\.com|"
    r"tangled\.(?:org|sh)|(?:[a-z]{2,5}\.)?sr\.ht|keybase\.io|opencollective\.com|liberapay\.com|patreon\.com|"
    r"ko-fi\.com|buymeacoffee\.com|paypal\.me|medium\.com|twitter\.com|x\.com|t\.me)[/:](?:users/|orgs/|sponsors/|u/)?"
)
_PROFILES = (
    r"(?:bsky\.app/profile|linkedin\.com/in|stackoverflow\.com/users/[0-9]{1,12}|npmjs\.com|pypi\.org/user|"
    r"crates\.io/users|hub\.docker\.com/u|launchpad\.net|reddit\.com/u(?:ser)?)/"
)
_PAGES = r"\.(?:github\.io|gitlab\.io|codeberg\.page)\b"
_AVATARS = r"(?:avatars[0-9]{0,3}\.githubusercontent\.com|gravatar\.com/avatar|cdn\.bsky\.app/img/avatar[a-z_]{0,20})/"
_HOMES = r"(?:/home/|/Users/|[A-Za-z]:[\\/]{1,4}(?:Users|Documents and Settings)[\\/]{1,4})"
# Accounts that are nobody's, and organisations whose name helps to judge a dependency; known people come before these.
_NOBODY = (
    "user|username|users|you|your|yourname|name|me|runner|root|admin|ubuntu|vagrant|travis|circleci|app|node|public|"
    "shared|default|owner|org|features|login|about|topics|search|settings|marketplace|apps|sponsors|orgs|api|share|intent|"
    "actions|angular|ansible|apache|astral-sh|aws|azure|babel|celery|cloudflare|cncf|codecov|conda-forge|debian|denoland|"
    "django|docker|dotnet|elastic|electron|encode|eslint|facebook|fastapi|gentoo|git|github|gitlab|gnome|golang|google|"
    "googleapis|grafana|grpc|hashicorp|helm|homebrew|huggingface|jquery|kubernetes|llvm|microsoft|mozilla|nixos|nodejs|"
    "npm|numpy|nvidia|openai|opencontainers|openssl|pallets|pallets-eco|pandas-dev|php|postgres|pre-commit|prettier|"
    "prometheus|protocolbuffers|psf|pycqa|pydantic|pypa|pypi|pytest-dev|python|pytorch|rails|react|readthedocs|redis|"
    "ruby|rust-lang|scikit-learn|scipy|spring-projects|sqlalchemy|stripe|svelte|swagger-api|tensorflow|tokio-rs|"
    "torvalds|typescript-eslint|types|vercel|vitejs|vuejs|webpack|w3c|yarnpkg|zulip"
)
_ACCOUNT = rf"(?!(?i:{_NOBODY})(?![\w.-]))[\w.-]{{1,64}}"
_NO_FILE = r"\b(?<!\.png)(?<!\.jpg)(?<!\.jpeg)(?<!\.svg)(?<!\.gif)(?<!\.webp)"  # icon@2x.png
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = "[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_OFFSET = "[+-][0-9]{2}:?[0-9]{2}"
_FINGERPRINT = "(?:[0-9A-F]{4} {1,2}){9}[0-9A-F]{4}"

_INLINE_RULES = (
    rule(
        "person",
        r"(?:todo|fixme|xxx|hack|note)\(",
        r"[^\W\d_][^\n()\[\]{}<>;=\"'`$|]{0,60}",
        r"\b(?:TODO|FIXME|XXX|HACK|NOTE)\(",
        r"\)",
    ),
    rule(
        "ssh-key",
        "aaaa",
        r"(?:ssh-[a-z0-9]{3,10}|ecdsa-sha2-[a-z0-9-]{3,30}|sk-[a-z0-9@.-]{3,60})[ \t]AAAA[\w+/=]{20,}"
        r"(?:[ \t][\w.@+-]{1,100})?",
    ),
    rule(
        "pgp",
        "pgp|gpg|fingerprint|signingkey",
        rf"(?:0x)?[0-9a-f]{{8,40}}|{_FINGERPRINT}",
        r"(?:pgp|gpg|fingerprint|signingkey)[^\n]{0,40}?\b(?=(?:0x)?[0-9a-f]{8}|[0-9a-f]{4} )",
        r"\b",
        re.IGNORECASE,
    ),
    rule("pgp", "[0-9A-F]{4} [0-9A-F]{4} ", _FINGERPRINT, r"\b", r"\b"),
    rule("at-uri", "at://", r"[^\s\"'<>)\]}\\]{1,500}", r"\bat://"),
    rule("did", "did:", r"did:(?:plc|web|key):[\w.:%-]{2,300}", r"\b", flags=re.IGNORECASE),
    rule("avatar", "avatar", r"[^\s\"'<>)\]]{1,300}", _AVATARS, flags=re.IGNORECASE),
    rule(
        "user",
        r"\.(?:com|org|sh|me|app|ht|net)\b",
        _ACCOUNT,
        rf"(?<![\w.-])(?:www\.)?(?:{_FORGES}|{_PROFILES})[@~]?",
        flags=re.IGNORECASE,
    ),
    rule("user", r"\.(?:io|page)\b", r"(?<![\w.-])[\w-]{1,64}", "", _PAGES, re.IGNORECASE),
    rule("user", r"\w#[0-9]", _ACCOUNT, r"(?<![\w./@~-])", r"(?=/[\w.-]{1,100}#[0-9])"),
    rule("user", "@", _ACCOUNT, r"(?<![\w.@])@", r"(?=/[\w])"),
    rule("person", "@", rf"(?:\b[A-Z\u00c0-\u024f][\w.'\u2019-]{{0,40}}[ \t]){{1,5}}<{EMAIL}>"),
    rule("email", "@", rf"(?<![\w.+-]){EMAIL}", "", _NO_FILE),
    rule("user", "@", r"(?<![\w.@+-])(?!git@)[a-z_][\w.-]{0,31}@[\w-]{1,63}", "", "(?=:[~/])"),
    rule("user", r"home/|users[\\/]", _ACCOUNT, _HOMES),
    rule("time", "[0-9]:[0-9]{2}", f"{_DATE}[T ]{_CLOCK} ?{_OFFSET}", r"\b", r"\b"),
    rule("time", "[0-9]:[0-9]{2}", f"{_DAY},? [0-9]{{1,2}} {_MONTH} [0-9]{{4}} {_CLOCK} {_OFFSET}", r"\b", r"\b"),
    rule("time", "[0-9]:[0-9]{2}", f"{_DAY} {_MONTH} {{1,2}}[0-9]{{1,2}} {_CLOCK} [0-9]{{4}} {_OFFSET}", r"\b", r"\b"),
)

_QUOTE = r"^[ \t>]{0,8}"
_ROLES = "author|committer|tagger|sender|reviewer|assignee"
_MAIL_LINES = "message-id|in-reply-to|references|received|return-path|list-[a-z-]{1,20}|x-[a-z-]{1,40}"
# What names people between people only: in code `Date:` is a header of HTTP, and `@name` a decorator.
_WORD_RULES = (
    rule("person", ":", PEOPLE, f"{_QUOTE}(?:{_ROLES}){_COLON}", flags=re.IGNORECASE),
    rule("time", "date", r"[^\n]{1,100}", f"{_QUOTE}(?:author|commit)?date{_COLON}", flags=re.IGNORECASE),
    rule("email", ":", r"[^\n]{1,300}", f"{_QUOTE}(?:{_MAIL_LINES}){_COLON}", flags=re.IGNORECASE),
    rule("time", "[0-9]{4}-[0-9]{2}-", f"{_DATE}(?:[T ]{_CLOCK}Z?)?", r"\b", r"\b(?!-)"),
)

_TAGS = (
    "authors?|param|returns?|throws|type|see|link|code|since|deprecated|example|todo|ts-[a-z-]{1,30}|override|media|"
    "import|keyframes|property|staticmethod|classmethod|pytest|dataclass|decorator|types?|generated"
)
_MENTIONED = rf"(?!(?:{_TAGS})\b)[A-Za-z0-9][\w.-]{{0,100}}"
_HANDLE = rule(
    "handle",
    r"\.bsky\.social|\.tngl\.sh",
    r"(?<![\w.-])[\w-]{1,63}\.(?:bsky\.social|tngl\.sh)\b",
    flags=re.IGNORECASE,
)

CODE_RULES = Rules(*_LINE_RULES, *_INLINE_RULES)
WORD_RULES = Rules(*_LINE_RULES, *_INLINE_RULES, *_WORD_RULES)
HANDLE_RULES = Rules(_HANDLE)
# In code only behind other words, where a decorator does not stand.
MENTION_RULES = Rules(rule("handle", "@", _MENTIONED, r"(?<=[A-Za-z,.:;)-][ \t(])@", r"(?![\w(/])"))
WORD_MENTION_RULES = Rules(_HANDLE, rule("handle", "@", _MENTIONED, r"(?<![\w@/.])@"))
