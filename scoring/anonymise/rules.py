"""Rules for text that names a person: trailers, copyright, addresses, profiles, paths, keys, times.

Every pattern takes linear time: each repetition is bounded or cannot overlap with the text after it, and the text
before a value is atomic (tried once). Values end where code could begin (quotes, `;`, `|`, `=`), so that a placeholder
cannot hide code.

Some words name people in prose but mean something else in code: roles, dates, mail headers, positions. Their rules
apply to prose only.
"""

import re
from dataclasses import dataclass

import re2

from scoring.anonymise.known import Placeholders

EMAIL = r"[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}"
# An address that is encoded or spelled out against collectors.
HIDDEN_EMAIL = (
    r"[\w.+-]{1,64}"
    r"(?:%40|\\u0040|&#64;|&#x40;|[ \t]?[\[({](?:at|@)[\])}][ \t]?|[ \t]at[ \t](?=[\w.-]{1,100}[ \t]dot[ \t]))"
    r"(?:[\w-]{1,63}(?:\.|[ \t]?[\[({]dot[\])}][ \t]?|[ \t]dot[ \t])){1,8}[^\W\d_]{2,24}"
)
_CAPITAL = r"[A-Z\u00c0-\u024f][\w.'\u2019-]{0,40}"
FULL_NAME = rf"{_CAPITAL}(?:[ \t]{_CAPITAL}){{1,5}}"
PEOPLE = (  # names with addresses, links and remarks in brackets
    rf"(?:[\w \t.,@:/+\u2019-]|(?<=\w)'(?=\w)|<{EMAIL}>|<https?://[^\s<>\"']{{1,200}}>"
    r"|\([\w .,@:/+-]{0,80}\)){1,300}"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for texts of one kind. The first group of `pattern` is replaced; `sign` is a cheap necessary condition.

    A match without that group stays as it is. A pattern never crosses a line end.
    """

    kind: str
    sign: re.Pattern[str]
    pattern: re.Pattern[str]

    def scrub(self, line: str, places: Placeholders) -> str:
        """Replace every match in a line."""
        if self.sign.search(line) is None:
            return line
        return self.pattern.sub(lambda match: self._replaced(match, places), line)

    def _replaced(self, match: re.Match[str], places: Placeholders) -> str:
        if match[1] is None:
            return match[0]
        begin = match.start(1)
        value = match[1].rstrip(" \t.,:/-")
        before, after = match.string[match.start() : begin], match.string[begin + len(value) : match.end()]
        return before + (places.put(self.kind, value) if value else "") + after


def rule(kind: str, sign: str, value: str, before: str = "", after: str = "", flags: re.RegexFlag = re.NOFLAG) -> Rule:
    """Build a rule from its pieces, each a regular expression; `sign` ignores case."""
    return Rule(kind, re.compile(sign, re.IGNORECASE), re.compile(f"(?>{before})({value}){after}", flags))


class Rules:
    """Rules in their order. A line without any sign, as nine of ten in code, costs one search.

    RE2 needs .05 s for 20,000 lines; `re`, which tries each sign at each position, needs .55 s.
    """

    def __init__(self, *rules: Rule) -> None:
        self._rules = rules
        self._sign = re2.compile("(?i)" + "|".join(rule.sign.pattern for rule in rules))

    def scrub(self, text: str, places: Placeholders) -> str:
        """Scrub a text line by line; the number of lines stays."""
        return "\n".join(self._line(line, places) for line in text.split("\n"))

    def _line(self, line: str, places: Placeholders) -> str:
        if self._sign.search(line.encode("utf-8", "replace").decode()) is None:  # RE2 takes no lone surrogate
            return line
        for rule in self._rules:
            line = rule.scrub(line, places)
        return line


COLON = r"[ \t]{0,8}:[ \t]{0,8}"
CLOCK = "[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?"
DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_QUOTE = r"^[ \t>]{0,8}"
_ROLES = "author|committer|tagger|sender|reviewer|assignee"
_MAIL_LINES = "message-id|in-reply-to|references|received|return-path|list-[a-z-]{1,20}|x-[a-z-]{1,40}"
# Statements of somebody's position, by themselves or by a forge: a reviewer must not know that either.
_POSITION = (
    r"(?:maintainer|committer|(?:core|regular|long-?time|first-?time|top) (?:developer|contributor)|project lead|"
    r"(?:team|core|org(?:ani[sz]ation)?) member|collaborator|code ?owner)s?"
)
_STANDING = (
    rf"(?:as|i'?m|i\u2019m|i am|we are|we're|i've been|i have been|speaking as)"
    rf" (?:an? |the |one of the |your |also |now )?(?:[\w-]{{1,20}} ){{0,2}}{_POSITION}"
    r"(?: (?:of|at|for|on|since) (?:the )?[\w.@/-]{1,40}| here)?"
    r"|(?:i have |i've |with |my )(?:over |more than )?[0-9]{1,5}\+? (?:merged |accepted |previous )?"
    r"(?:years? of (?:\w{1,20} )?experience|prs?|pull requests|patches|commits|contributions)"
    r"|author_association[\"']?: ?[\"']?\w{1,30}"
)
# For prose only: in code `Date:` is an HTTP header, and `@name` a decorator.
BETWEEN_PEOPLE = (
    rule("person", ":", PEOPLE, f"{_QUOTE}(?:{_ROLES}){COLON}", flags=re.IGNORECASE),
    rule("time", "date", r"[^\n]{1,100}", f"{_QUOTE}(?:author|commit)?date{COLON}", flags=re.IGNORECASE),
    rule("email", ":", r"[^\n]{1,300}", f"{_QUOTE}(?:{_MAIL_LINES}){COLON}", flags=re.IGNORECASE),
    rule(
        "standing",
        rf"{_POSITION}|experience|[0-9]\+? (?:merged|accepted|previous|prs?|pull|patches|commits|contrib)|author_assoc",
        _STANDING,
        r"\b",
        r"\b",
        re.IGNORECASE,
    ),
    rule(
        "standing",
        rf"[\[(](?:{_POSITION}|owner|member)[\])]",
        rf"(?:{_POSITION}|owner|member)",
        r"[\[(]",
        r"[\])]",
        re.IGNORECASE,
    ),
    rule("time", "[0-9]{4}-[0-9]{2}-", f"{DATE}(?:[T ]{CLOCK}Z?)?", r"\b", r"\b(?!-)"),
)


_LEAD = r"^[^\w\n]{0,20}"  # marks of a comment or a quotation
_TRAILERS = (
    "signed-off-by|co-authored-by|co-developed-by|reviewed-by|acked-by|tested-by|reported-by|suggested-by|helped-by|"
    "mentored-by|based-on-patch-by|requested-by|approved-by|committed-by|authored-by|paired-with|thanks-to|"
    "last-translator|language-team"
)
_OTHER_TRAILER = "[A-Z][a-z]{1,20}(?:-[a-z]{1,20}){0,3}-by"
_SENDERS = "from|to|cc|bcc|sender|reply-to|author|commit|committer|tagger|contact"
_MAIL_IDS = "message-id|in-reply-to|references|list-id|return-path|x-[a-z-]{1,40}"
_WRITERS = (
    "Authors?|Written by|Created by|Maintained by|Maintainers?|Contributors?|Contributed by|Credits?|Licensors?|"
    "Developed by|Modified by|Posted by"
)
_COMMENT = r"^[ \t]{0,80}(?:#|//|/?\*|--|;|%|<!--|\"\"\"|'''|REM )[^\w\n]{0,20}"
_QUOTED_LEAD = r"(?:^|[\"'`>])[^\w\n]{0,20}"  # copyright is in a comment, a text or a string, not after code
_SIGN = r"(?:\(c\)|©|&copy;)"
_COPYRIGHT = "(?:spdx-file)?copyright(?:text)?"
_HEADINGS = "Notices?|Holders?|Laws?|Acts?|Owners?|Licen[cs]es?|Statements?|Headers?|Years?|Information|Status|Claims?"
_FIELDS = "authors?|maintainers?|creators?|contributors?|contact"
_YEARS = r"[0-9]{4}(?:[ \t]?[-\u2013,][ \t]?(?:[0-9]{2,4}|present|now)){0,20}"

_LINE_RULES = (
    rule(
        "person",
        "-by|paired-with|thanks-to|last-translator|language-team",
        PEOPLE,
        f"{_LEAD}(?:(?i:{_TRAILERS})|{_OTHER_TRAILER}){COLON}",
    ),
    rule("change-id", "change-id", r"[\w./-]{1,200}", f"{_LEAD}change-id{COLON}", flags=re.IGNORECASE),
    rule(
        "change-id", "git-subtree", r"[\w./-]{1,200}", f"{_LEAD}git-subtree-[a-z]{{1,20}}{COLON}", flags=re.IGNORECASE
    ),
    rule("change-id", "From [0-9a-f]{40}", "[0-9a-f]{40}", "^From ", " "),
    rule("person", "@", PEOPLE, rf"{_LEAD}(?:{_SENDERS}){COLON}(?=[^\n]*@)", flags=re.IGNORECASE),
    rule("email", "@", r"<[^\s<>@]{1,200}@[^\s<>]{1,200}>", f"{_LEAD}(?:{_MAIL_IDS}){COLON}", flags=re.IGNORECASE),
    rule(
        "person",
        r"copyright|©|\(c\)|&copy;",
        PEOPLE,
        rf"{_QUOTED_LEAD}(?:{_SIGN}[ \t]{{1,4}})?(?:{_COPYRIGHT}|{_SIGN})[ \t\"'=:]{{0,8}}{_SIGN}?[ \t\"']{{0,8}}"
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
    rule(  # without a year: the name begins with a capital letter, and is no heading
        "person",
        "copyright",
        PEOPLE,
        rf"{_QUOTED_LEAD}(?i:copyright)[ \t]{{1,4}}(?!(?i:{_HEADINGS})\b)(?={FULL_NAME})",
    ),
    rule("person", "__copyright__", PEOPLE, rf"__copyright__[ \t]{{0,8}}=[ \t]{{0,8}}[\"']{_YEARS}[ \t,]{{0,4}}"),
    rule("person", ":(?:author|maintainer|contact)", PEOPLE, rf"^[ \t]{{0,20}}:(?i:{_FIELDS}):[ \t]{{1,20}}"),
    rule("person", r"\\author", r"[^{}\n]{1,200}", r"\\author\{"),
    rule(
        "person",
        "author|creator|maintainer|contributor",
        r"[^<>\n]{1,200}",
        r"<(?:dc:)?(?:author|creator|maintainer|contributor)s?>"
        r"|<meta[ \t]{1,4}name=[\"']author[\"'][ \t]{1,4}content=[\"']",
        r"(?=[\"'<])",
        re.IGNORECASE,
    ),
    rule(
        "person",
        "author|creator|maintainer|contributor",
        FULL_NAME,
        rf"^[ \t]{{0,40}}[\"']?(?i:{_FIELDS})[\"']?[ \t]{{0,8}}[:=][ \t]{{0,8}}[\"']?",
    ),
    rule("person", "maintainer", PEOPLE, r"^[ \t]{0,20}MAINTAINER[ \t]{1,8}"),
    rule(
        "person",
        "maintainer|image.authors",
        r"[^\"'\n]{1,200}",
        r"\b(?:maintainer|image\.authors)[ \t]{0,4}=[ \t]{0,4}[\"']",
    ),
    rule(
        "person",
        r"user\.(?:name|email)|git_(?:author|committer)",
        r"[^\"'\n;|&$`<>]{1,100}",
        r"(?:\bgit[ \t]+config[ \t]+(?:--[a-z]{1,20}[ \t]+){0,4}user\.(?:name|email)[ \t]+"
        r"|\bGIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL)[\"']?[ \t]{0,4}[=:][ \t]{0,4})[\"']?",
    ),
    rule(
        "person", "^#[^,]{3,200},[ \t][0-9]{4}", FULL_NAME, r"^#[ \t]", r"(?=(?:[ \t]<[^<>\n]{1,200}>)?,[ \t][0-9]{4})"
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
    r"ko-fi\.com|buymeacoffee\.com|paypal\.me|medium\.com|twitter\.com|x\.com|t\.me|dev\.to|huggingface\.co|ghcr\.io|quay\.io|"
    r"gopkg\.in|youtube\.com|registry\.gitlab\.com)[/:](?:users/|orgs/|sponsors/|u/)?"
)
_PROFILES = (
    r"(?:bsky\.app/profile|linkedin\.com/in|stackoverflow\.com/users/[0-9]{1,12}|npmjs\.com|pypi\.org/user|"
    r"crates\.io/users|hub\.docker\.com/[ru]|discord(?:app)?\.com/users|launchpad\.net|reddit\.com/u(?:ser)?)/"
)
# Somebody's own forge or knot, by usual names of such hosts; the first part of the path is an account.
_OWN_FORGES = r"(?<![\w.-])(?:git|gitea|forgejo|gitlab|knot[0-9]{0,3})(?:\.[\w-]{1,63}){2,5}(?::[0-9]{1,5})?[/:][@~]?"
_BADGES = (
    r"\b(?:img\.shields\.io|badgen\.net|badge\.fury\.io|codecov\.io|coveralls\.io|api\.star-history\.com|"
    r"travis-ci\.(?:org|com)|circleci\.com/gh)/"
)
# The local name of somebody's own machine.
_HOST_BEFORE = r"(?://|@|\b(?i:host(?:name)?)[\"']?[ \t]{0,4}[:= \t][ \t\"']{0,4})"
_HOST_AFTER = r"\.(?:local|lan|localdomain|home\.arpa)\b(?![\w(=.])"
_TOPICS = (
    "feat|feature|features|fix|fixes|bugfix|hotfix|release|releases|chore|docs|doc|refactor|test|tests|ci|build|perf|style|"
    "dependabot|renovate|main|master|develop|dev|origin|upstream|heads|refs|remotes|topic|wip|backport|revert"
)
_PAGES = r"\.(?:github\.io|gitlab\.io|codeberg\.page)\b"
_AVATARS = r"(?:avatars[0-9]{0,3}\.githubusercontent\.com|gravatar\.com/avatar|cdn\.bsky\.app/img/avatar[a-z_]{0,20})/"
_HOMES = r"(?:/home/|/Users/|[A-Za-z]:[\\/]{1,4}(?:Users|Documents and Settings)[\\/]{1,4})"
# Generic accounts, and organisations whose name helps to judge a dependency; known people come before these.
_ORGANISATIONS = (
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
_ACCOUNT = rf"(?!(?i:{_ORGANISATIONS})(?![\w.-]))[\w.-]{{1,64}}"
_NO_FILE = r"\b(?<!\.png)(?<!\.jpg)(?<!\.jpeg)(?<!\.svg)(?<!\.gif)(?<!\.webp)"  # icon@2x.png
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_OFFSET = "[+-][0-9]{2}:?[0-9]{2}"
_FINGERPRINT = "(?:[0-9A-F]{4} {1,2}){9}[0-9A-F]{4}"

_INLINE_RULES = (
    rule(
        "person",
        r"(?:todo|fixme|xxx|hack|note)[(\[]",
        r"[^\W\d_][^\n()\[\]{}<>;=\"'`$|]{0,60}",
        r"(?:\b(?:TODO|FIXME|XXX|HACK|NOTE)|(?:#|//|\*)[ \t]{0,8}(?:todo|fixme|xxx|hack))[(\[]",
        r"[)\]]",
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
    rule(
        "did",
        "did(?:%3a|[_-])",
        r"did(?:%3a|[_-])(?:plc(?:%3a|[_-])[a-z2-7]{15,24}|web%3a[\w.%-]{2,200})",
        r"(?<![a-zA-Z0-9])",
        flags=re.IGNORECASE,
    ),
    rule("badge", "badge|shields|codecov|coveralls|travis-ci|circleci|star-history", r"[^\s\"'<>)\]]{1,300}", _BADGES),
    rule("avatar", "avatar", r"[^\s\"'<>)\]]{1,300}", _AVATARS, flags=re.IGNORECASE),
    rule(
        "user",
        r"\.(?:com|org|sh|me|app|ht|net|to|co|io|in)\b",
        _ACCOUNT,
        rf"(?<![\w.-])(?:www\.)?(?:{_FORGES}|{_PROFILES})[@~]?",
        flags=re.IGNORECASE,
    ),
    rule("user", r"(?:git|gitea|forgejo|gitlab|knot[0-9]*)\.", _ACCOUNT, _OWN_FORGES, r"(?=/[\w.-])"),
    rule("user", "://", r"[\w.-]{1,64}", r"https?://(?:[\w-]{1,63}\.){1,5}[a-z]{2,24}/@", r"(?![\w.-]*/-/)(?![\w.@-])"),
    rule(
        "user", "(?:github|gitlab|bitbucket|gist):", _ACCOUNT, r"(?<![\w.-])(?:github|gitlab|bitbucket|gist):", "(?=/)"
    ),
    rule("user", "repository", _ACCOUNT, r"\"repository\"[ \t]{0,4}:[ \t]{0,4}\"", r"(?=/[\w.-]{1,100}\")"),
    rule(
        "user",
        "branch|origin|pull request",
        rf"(?!(?i:{_TOPICS})/){_ACCOUNT}",
        r"(?:\b[Bb]ranch|\borigin|\b[Pp]ull request #[0-9]{1,8} from)[ \t]{1,3}[\"'\u2018`]?(?:origin/|upstream/)?",
        r"(?=/[\w.-])",
    ),
    rule("user", r"\.(?:io|page)\b", r"(?<![\w.-])[\w-]{1,64}", "", _PAGES, re.IGNORECASE),
    rule("user", r"\w#[0-9]", _ACCOUNT, r"(?<![\w./@~-])", r"(?=/[\w.-]{1,100}#[0-9])"),
    rule("user", "@", _ACCOUNT, r"(?<![\w.@])@", r"(?=/[\w])"),
    rule("person", "@", rf"(?:\b[A-Z\u00c0-\u024f][\w.'\u2019-]{{0,40}}[ \t]){{1,5}}<{EMAIL}>"),
    rule("handle", "@", r"@[\w.-]{1,64}@(?:[\w-]{1,63}\.){1,5}[^\W\d_]{2,24}", r"(?<![\w@/.])"),
    rule("user", "://", rf"(?!git:){_ACCOUNT}", r"(?<=://)", r"(?=:[^\s/@\"']{1,200}@)"),
    Rule(  # without what stands between a user and a host: a password, which the reviewer has to see
        "email",
        re.compile("@"),
        re.compile(rf"://[^\s/@\"']{{0,80}}:[^\s/@\"']{{1,100}}@(?=[\w.-])|(?<![\w.+-])({EMAIL}){_NO_FILE}"),
    ),
    rule(
        "email",
        r"%40|u0040|&#(?:64|x40);|[\[({](?:at|@)[\])}]| at [\w.-]{1,100} dot ",
        HIDDEN_EMAIL,
        r"(?<![\w.+-])",
        "",
        re.I,
    ),
    rule("user", "@", r"(?<![\w.@+-])(?!git@)[a-z_][\w.-]{0,31}@[\w-]{1,63}", "", "(?=:[~/])"),
    rule("user", r"@[0-9]", r"(?!git@)[a-z_][\w.-]{0,31}", r"(?<![\w.@+-])", r"(?=@(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b)"),
    rule("user", r"^\[\w", r"[a-z_][\w.-]{0,31}@[\w.-]{1,63}", r"^\[", r"(?=[ \t][^\]\n]{1,80}\][$#])"),
    rule("host", r"\.(?:local|lan|localdomain|home\.arpa)\b", r"[A-Za-z0-9][\w-]{1,62}", _HOST_BEFORE, _HOST_AFTER),
    rule(
        "host",
        "macbook|mbp|imac|thinkpad",
        r"[A-Za-z][\w]{1,30}",
        r"(?<![\w-])",
        r"(?=-(?i:macbook|mbp|imac|thinkpad))",
    ),
    rule("user", r"home/|users[\\/]", _ACCOUNT, _HOMES),
    rule("user", "~[a-z_]", r"(?!(?:user|root)/)[a-z_][\w-]{1,31}", r"(?<![\w/.~)\]])~", "(?=/[A-Za-z._])"),
    rule("time", "[0-9]:[0-9]{2}", f"{DATE}[T ]{CLOCK} ?{_OFFSET}", r"\b", r"\b"),
    rule("time", "[0-9]:[0-9]{2}", f"{_DAY},? [0-9]{{1,2}} {_MONTH} [0-9]{{4}} {CLOCK} {_OFFSET}", r"\b", r"\b"),
    rule("time", "[0-9]:[0-9]{2}", f"{_DAY} {_MONTH} {{1,2}}[0-9]{{1,2}} {CLOCK} [0-9]{{4}} {_OFFSET}", r"\b", r"\b"),
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
WORD_RULES = Rules(*_LINE_RULES, *_INLINE_RULES, *BETWEEN_PEOPLE)
HANDLE_RULES = Rules(_HANDLE)
# In code only after other words, where a decorator cannot be.
MENTION_RULES = Rules(rule("handle", "@", _MENTIONED, r"(?<=[A-Za-z,.:;)-][ \t(])@", r"(?![\w(/])"))
WORD_MENTION_RULES = Rules(_HANDLE, rule("handle", "@", _MENTIONED, r"(?<![\w@/.])@"))
