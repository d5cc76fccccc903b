"""Find conditions that a change reverses or shifts by one, lowered numbers that protect secrets, and widened lists.

A list is widened where one that allows something gains a wildcard, a right or a bypass of a check, or where one that
protects something loses a right or a secret.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile

from scoring.diff.change import FileChange, Hunk, Line
from scoring.scanners._finding_helpers import quoted, worst_first
from scoring.scanners._renames import in_new_names, renamed
from scoring.scanners._text import code_files, is_comment
from scoring.scanners._widened_lists import is_list_widened
from scoring.scanners.submission import Submission
from scoring.types import Finding, FlagType, Severity

SCANNER = "flipped"
LINE_LENGTH = 1_000
TOLD = 10  # findings in one file

_TOKEN = re.compile(r"\w+|[<>=!]=?=?|&&|\|\||[+-]|\S")
_PROTECTED = re.compile(
    r"auth|permission|admin|owner|staff|superuser|token|csrf|secret|password|signature|verif|\ballows?\b|allowed|denied|forbidden|valid|"
    r"disabled|locked|banned|blocked|revoked|expire[sd]|suspended",
    re.IGNORECASE,
)
# Rounds of a key derivation and lengths of keys: they make guessing expensive.
_STRENGTH = re.compile(
    r"iteration|rounds|pbkdf2|bcrypt|scrypt|argon|salt|key_?(size|length|bits|len)|modulus|\bcost\b|_cost|[a-z]cost|"
    r"entropy|min_?(password|length)|nonce|token_?(bytes|length|size)|random_?bytes|token_(hex|urlsafe)",
    re.IGNORECASE,
)
_HEAD = re.compile(
    r"\b(def|func|function|fn|fun|sub)\s|^\s*(public|private|protected|static|async|bool\w*)\s.*\(|=>\s*\{?\s*$"
)
_RIGHTS_PATH = re.compile(
    r"(?i)(polic(y|ies)|permissions?|authz?|acl|guards?|voters?|access_?control)\b[^/]*$|/(policies|permissions|guards)/|_(policy|guard|permission)\."
)
_ROLE = re.compile(
    r"(?i)\b(user|account|session|member)?[._]?(roles?|admin|staff|owner|permissions?|scopes?|rights?)\b"
)
_ASKING = re.compile(
    r"(?i)can_?activate|(may|can|is|has|must)_?(allow|access|edit|view|read|write|delete|remove|manage|own|admin|permi|login|auth|see|use)|"
    r"\b(auth\w*|allowed|authori[sz]e\w*|check_?(access|perm|right|sign|token|pass)\w*|verify\w*|has_?perm\w*|login|sign_?in)\("
)
_CHECKS = re.compile(
    r"(?i)compare\w*\(|verif\w*[!?]?\(|\bvalid\w*\(|\bcheck\w*\(|authenticate\w*[!?]?\(|hosts\w*(\.has\(|\.includes\(|\[)|hash_equals|check_?password|is_?admin|is_?owner|is_?staff|has_?(role|perm\w*)|can_?[A-Z_]\w*|\bcan\w*[?!]?\(|"
    r"authenticated|authori[sz]ed|permission|allowed|signature|csrf|may_\w+"
)
_OR, _AND, _IF = (
    re.compile(r"\|\||\bor\b"),
    re.compile(r"&&|\band\b"),
    re.compile(r"^\s*\}?\s*(else\s+)?(if|elif|elsif|unless|guard)\b"),
)
_REFUSES = re.compile(
    r"(?i)\b(throw|raise|abort|die|exit|reject|deny|forbid\w*|unauthori\w*|40\d)\b|http\.(Error|NotFound)|BadRequest|return\s+(false|null|nil|none|err)"
)
_ENDS = re.compile(
    r"(?i)\b(throw|raise|return|abort|die|exit|reject|deny|forbid\w*|continue|next|break|panic|fatal\w*|40\d)\b|=|\{\s*$|:\s*$"
)
# Another group that a check lets in: `or page.editors.includes(user.id)`.
_OTHER_RIGHT = re.compile(
    r"(?i)\b(editors?|members?|(co_?)?authors?|owners?|admins?|moderators?|collaborators?|maintainers?|reviewers?)\b.*\b(user|me|self|viewer)\b|"
    r"\bhas_?(perm\w*|role|scope)\w*\(|\.can\w*\("
)
# A look-up limited to what somebody may see: `orders.for_user(request.user)`.
_SCOPED = re.compile(
    r"(?i)(for|of|by|visible|owned|accessible|scoped?|with)_?\w*\([^()]*(user|viewer|owner|account|tenant)"
)
_DENIED_GROUP = re.compile(r"\bnot\s*\(|!\s*\(|\bunless\b")
# Algorithms that are still secure, and those that are not.
_STRONG = re.compile(
    r"(?i)sha-?_?(?:224|256|384|512)|\bsha3|blake[23]|argon2|bcrypt|scrypt|aes[-_/]?(?:128|192|256)|\bgcm\b|chacha20|"
    r"TLS_?v?1[._]?[23]|\buuid\w*4\b|\bv4\b.*uuid|randomUUID"
)
_BROKEN = re.compile(
    r"(?i)\bmd[245]\b|[\"'_.:]md5|\bsha-?_?1\b|\bsha1|\b(?:3|triple)?des\b|\brc[24]\b|\becb\b|\bblowfish\b|TLS_?v?1[._]?[01]\b|"
    r"TLSv1\b|SSLv?[23]\b|\bcrc32|adler32|\buuid\w*1\b|\bv1\b.*uuid"
)
_TURNS_OFF = re.compile(r"\b\w*OP_NO_(?:SSL|TLS)")
_ANCHOR = re.compile(r"\\[AzZ]|\^(?!\w*\])|\$(?=[/\"'`])|\bfull(?=match)")
_PATTERN = re.compile(r"[/\"'`]\^|\\A|\$[/\"'`]|fullmatch")
_NUMBER = re.compile(r"\d[\d_]{0,18}")
# A condition that checks a right, and a look-up among somebody's own objects.
_ASKS = re.compile(
    r"^\s*(\}?\s*else\s+)?(if|elif|elsif|unless|return|assert|guard|when|raise|throw)\b|&&|\|\||[!?]\s*$|=>"
)
_RIGHT = re.compile(
    r"(?i)admin|\bowner|owner_?id|staff|superuser|\brole|permission|permit|\bcan_?[a-z_]|moderator|authori[sz]|privileg|"
    r"allowed|is_?auth|authenticated|verif|policy|scope|grant|tenant|current_?user|user\.id|== ?user\b|signature|valid"
)
# What reads like a right and is none, and what it is read as: the scope of a connection (ASGI) or of variables, the
# class that an old `super` names, an error about a value, the text of an assertion. `token.scope`, `"admin" in scope`,
# `has_scope(scope)` and `scope["user"]` stay rights.
_OF_CONNECTION = (
    r"[\"'](?:type|asgi|http_version|method|scheme|raw_path|query_string|headers|client|server|extensions|subprotocols|state|"
    r"app|router|endpoint|path_params|\w*path)[\"']"
)
_NO_RIGHTS = (
    (re.compile(rf"\$scope(?=\.\w)|\b\w*scope(?=(?:\[|\.(?:get|pop|setdefault)\(){_OF_CONNECTION})"), "connection"),
    (re.compile(r"\bscope(?:\s*:\s*\w+)?(?=,\s*receive\b)|(?<=receive, )scope\b|(?<=send, )scope\b"), "connection"),
    (re.compile(rf"({_OF_CONNECTION} (?:not )?in (?:(?:self|request|websocket|conn)\.)?)scope\b"), r"\1connection"),
    (
        re.compile(
            r"((?:\b(?:dict|partial|Request|HTTPConnection|WebSocket|URL)|(?:_|\b)(?:app|asgi|response))\((?:[^()]*[\s,=])?)"
            r"\w*scope(?=\))"
        ),
        r"\1connection",
    ),
    (re.compile(r"\bsuper\(\w+, self\)"), "super()"),
    (re.compile(r"^(\s*(?:raise|throw)\s+(?:new\s+)?)[\w.]*[vV]alid\w*\("), r"\1Error("),
    (re.compile(r"^(\s*assert\b[^\"']*),\s*[fr]?(?:\"[^\"]*\"|'[^']*')\s*$"), r"\1"),
)
_NONE = re.compile(r"\bis (not )?None\b")
_ROUTE = re.compile(
    r"\b\w+\.(get|post|put|patch|delete|all|use|route|group|handle\w*|Handle\w*|GET|POST|PUT|DELETE)\(\s*[\"'`]/"
)
_GUARD = re.compile(
    r"(?i)own|auth|admin|require|ensure|guard|check|verify|csrf|limit|can_?[A-Z]|permi|role|protect|only|valid|session|polic"
)
# Guards listed for an address or a view, and look-up conditions on the state of an object.
_GUARDS = re.compile(
    r"(?i)@UseGuards\(|permission_classes|authentication_classes|middleware\(|before_action|dependencies\s*=|@Secured|@Authorize|\[Authorize"
)
_USES_GUARD = re.compile(r"(?i)\.(use|Use)\(.*(auth|admin|role|require|guard|csrf|session|login|permi|protect|verify)")
# An asynchronous check; one that is returned or passed on is awaited elsewhere.
_AWAITED = re.compile(r"\bawait\s+([\w.$]+)\(")
_CALL = re.compile(r"([\w.$]+)\(")
_CHECK_NAME = re.compile(
    r"(?i)(can|may|is|has|owns?|check|verif|valid|allow|auth|ensure|require|compare|permit|assert)"
)
_WAITS = re.compile(
    r"\bawait\b|\bPromise\.|\.then\(|\byield\b|\breturn\s+[\w.$]+\(|=>\s*[\w.$]+\(|asyncio\.|\b(def|function)\b"
)
_OPTIONAL = re.compile(
    r"(?i)\b(optional|maybe|lenient|anonymous_or)_?\w*(user|auth|session|login|token)|AllowAnonymous|permitAll"
)
_POLICY = frozenset({"Policy", "policy", "can", "hasAuthority", "has_scope"})  # what may replace roles
_ROLES = re.compile(
    r"(?i)\bhas_?(any_?)?(role|authority)|RolesAllowed|\bRoles\s*=|@Roles\(|require_?roles?|allowed_?roles|role_required|only_?roles?"
)
_ROLE_NAME = re.compile(r"(?<=['\":])\w+(?![\w(])")
_FINDS = re.compile(r"(?i)\b(find|get|where|filter|first|select|load|fetch|one|exists|query)\w*!?\(")
_STATE = re.compile(
    r"(?i)\b(is_)?(revoked|expire[sd]?(_?[aA]t)?|active|enabled|disabled|verified|confirmed|suspended|banned|blocked|approved|locked|used|used_at|revoked_at)\b"
)
_OWN = re.compile(
    r"(?i)(current_?user|request\.user|req\.user|session\.user|\buser|account|tenant|organi[sz]ation|team|workspace|owner|"
    r"auth\(\)->user\(\))\b(\(\))?!?(\.|->|\?\.)\w+(\(\))?(\.|->|\?\.)(find|get|where|filter|first|load|fetch|one|by_?id)"
)
_SCOPE = re.compile(r"(?i)user|owner|account|tenant|org|team|workspace|member|scope|polic|authori[sz]")
_LOOK_UP = re.compile(
    r"(?i)\b[A-Z]\w*(\.|::|->)(objects\.)?(\w+\([^()]*\)(\.|->))?(find|get|where|filter|first|load|fetch|query|one|by_?id)"
)
_WORD = re.compile(r"\w+")
TOGETHER = 12  # lines of two runs of different lengths that are compared
FEWEST = 3  # words of a line that is compared
ALIKE = 0.6  # share of the shorter line's words in the other line
_LOGIC = frozenset(
    {"==", "!=", "===", "!==", "is", "not", "!", "and", "or", "&&", "||", "&", "|", "if", "unless", "(", ")"}
)
_LOGIC_WORDS = frozenset(
    {"True", "False", "true", "false", "TRUE", "FALSE", "any", "all", "some", "every"}
) | frozenset(
    {
        "Before",
        "After",
        "isBefore",
        "isAfter",
        "before",
        "after",
        "lessThan",
        "greaterThan",
        "anyMatch",
        "allMatch",
        "noneMatch",
        "Any",
        "All",
        "none",
        "any?",
        "all?",
        "none?",
        "min",
        "max",
        "Min",
        "Max",
    }
)
_STRICTER = ({"==", "==="}, {"!=", "!=="})
_LOOSE = {"===": "==", "!==": "!="}
_DECIDES = frozenset(
    {"if", "elif", "elsif", "unless", "while", "return", "assert", "when", "=", "=>", "&&", "||", "and", "or"}
)
_SHIFTS = ({"<", "<="}, {">", ">="})
_TURNED = ({"<", ">"}, {"<=", ">="}, {"<", ">="}, {">", "<="})


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield a med finding for a reversed condition about rights or a weaker number, low for a bound moved by one."""
    findings = [finding for file in code_files(submission.change) for finding in _scan_file(file)]
    yield from worst_first(findings)


def _scan_file(file: FileChange) -> Iterator[Finding]:
    count = 0
    for hunk in file.hunks:
        names, places = renamed(hunk), {line: place for place, line in enumerate(hunk.lines)}
        for old, new in _pairs(hunk):
            difference = (
                _difference(_tokens(old.text), _tokens(new.text))
                or _weakening(old, new, _row_below(hunk, places[new]))
                or _broken_algorithm(old.text[:LINE_LENGTH], new.text[:LINE_LENGTH])
                if count < TOLD
                else None
            )
            if difference == "weaker" and (_is_renamed(names, old, new) or _is_moved(hunk, old, new)):
                difference = None
            if difference:
                count += 1
                yield _finding(file, new, difference, _is_protected(difference, hunk, new, file.path))
        yield from (_finding(file, line, "weaker", is_protected=True) for line in _guards_behind_routes(hunk))
        yield from (_finding(file, line, "unawaited", is_protected=True) for line in _unawaited(hunk))


def _guards_behind_routes(hunk: Hunk) -> Iterator[Line]:
    """Yield each guard that moves from above a route to below it, where the route answers before the guard runs."""
    removed_at = {line.text.strip(): index for index, line in enumerate(hunk.lines) if line.mark == "-"}
    for index, line in enumerate(hunk.lines):
        text = line.text.strip()[:LINE_LENGTH]
        if line.mark == "+" and _USES_GUARD.search(text) and removed_at.get(line.text.strip(), index) < index:
            between = hunk.lines[removed_at[line.text.strip()] : index]
            if any(
                between_line.mark != "-" and _ROUTE.search(between_line.text[:LINE_LENGTH]) for between_line in between
            ):
                yield line


def _unawaited(hunk: Hunk) -> Iterator[Line]:
    """Yield the first added line that checks a right without awaiting the answer.

    Its promise counts as a yes.
    """
    removed_texts = (line.text[:LINE_LENGTH] for line in hunk.lines if line.mark == "-")
    names = {
        name for text in removed_texts for name in _AWAITED.findall(text) if _CHECK_NAME.match(name.rpartition(".")[2])
    }
    for line in hunk.lines if names else ():
        text = line.text[:LINE_LENGTH]
        is_waiting = line.mark != "+" or _WAITS.search(text) is not None
        if not is_waiting and names & set(_CALL.findall(text)):
            yield line
            return


def _pairs(hunk: Hunk) -> Iterator[tuple[Line, Line]]:
    """Yield removed lines with the added lines that replace them, where there are as many of both."""
    removed: list[Line] = []
    added: list[Line] = []
    for line in (*hunk.lines, None):
        if line is not None and line.mark == "-" and not added:
            removed.append(line)
        elif line is not None and line.mark == "+":
            added.append(line)
        else:
            yield from zip(removed, added, strict=False) if len(removed) == len(added) else _alike(removed, added)
            removed, added = ([line] if line is not None and line.mark == "-" else []), []


def _alike(removed: list[Line], added: list[Line]) -> Iterator[tuple[Line, Line]]:
    """Yield each removed line with the added one that shares most of its words, in short runs of different lengths."""
    if not added or len(removed) + len(added) > TOGETHER:
        return
    for old in removed:
        words = set(_WORD.findall(old.text[:LINE_LENGTH]))
        shared = [len(words & set(_WORD.findall(new.text[:LINE_LENGTH]))) for new in added]
        if max(shared) >= ALIKE * max(len(words), FEWEST):
            yield old, added[shared.index(max(shared))]


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(_NONE.sub(lambda found: f"{'!=' if found[1] else '=='} None", text[:LINE_LENGTH]))


def _read(line: Line) -> str:
    """Return the text of a line, without what only reads like a right."""
    text = line.text[:LINE_LENGTH]
    for no_right, plain in _NO_RIGHTS:
        text = no_right.sub(plain, text)
    return text


def _difference(old: list[str], new: list[str]) -> str | None:
    """Return how a line changes: opposite, shifted, turned or lowered; None for any other difference."""
    changed = [(old_token, new_token) for old_token, new_token in zip(old, new, strict=False) if old_token != new_token]
    if len(old) == len(new) and len(changed) == 1:
        pair = set(changed[0])
        is_lower = _is_lower(*changed[0]) and _STRENGTH.search(" ".join(new))
        return "lowered" if is_lower else _exchange(pair)
    other_words = [[word for word in side if word not in _LOGIC] for side in (old, new)]
    logic = [[word for word in side if word in _LOGIC and word not in "()"] for side in (old, new)]
    if other_words[0] != other_words[1] or logic[0] == logic[1] or not _DECIDES & {*old, *new}:
        return None
    is_stricter = [_LOOSE.get(word, word) for word in logic[0]] == [_LOOSE.get(word, word) for word in logic[1]]
    return None if is_stricter else "opposite"


def _weakening(old: Line, new: Line, following: str) -> str | None:
    """Return how a mostly unchanged line no longer checks a right, or widens a look-up beyond one's own objects."""
    before, after = _read(old), _read(new)
    words, kept = set(_WORD.findall(before)), set(_WORD.findall(after))
    if _is_guard_dropped(before, after):
        return "weaker"
    if _OWN.search(before) and not _SCOPE.search(after) and _LOOK_UP.search(after) and len(words & kept) >= FEWEST:
        return "wider"
    if _is_refusal_dropped(before, after) or _is_anchor_lost(before, after):
        return "weaker"
    if is_comment(after) or len(words & kept) < ALIKE * min(len(words), len(kept)):
        return None
    if _ASKS.search(before) and _ASKS.search(after) and _asks_less(before, after):
        return "weaker"
    if _ROUTE.search(before) and _ROUTE.search(after) and kept < words and _GUARD.search(" ".join(words - kept)):
        return "weaker"
    if _FINDS.search(before) and _FINDS.search(after) and kept < words and _STATE.search(" ".join(words - kept)):
        return "weaker"
    if _is_check_loosened(before, after, following):
        return "weaker"
    if is_list_widened(before, after):
        return "list-widened"
    return None


def _is_guard_dropped(before: str, after: str) -> bool:
    """Return whether a list of guards is shorter, names more roles, or asks for somebody who may be missing."""
    words, kept = set(_WORD.findall(before)), set(_WORD.findall(after))
    if _GUARDS.search(before) and _GUARDS.search(after) and not kept & _POLICY:
        is_shorter = _count_guards(words - kept) > _count_guards(kept - words)
    else:
        is_shorter = False
    is_optional = _OPTIONAL.search(after) and not _OPTIONAL.search(before) and _RIGHT.search(before)
    has_more_roles = _ROLES.search(after) and set(_ROLE_NAME.findall(before)) < set(_ROLE_NAME.findall(after))
    return is_shorter or bool(is_optional or has_more_roles)


def _broken_algorithm(before: str, after: str) -> str | None:
    """Return `algorithm` where one that is broken takes the place of one that holds, and most of the line stays.

    Options that turn protocols off say it the other way round: `OP_NO_TLSv1`.
    """
    if _TURNS_OFF.search(before) and _TURNS_OFF.search(after):
        before, after = after, before
    words, kept = set(_WORD.findall(before)), set(_WORD.findall(after))
    is_weaker = _STRONG.search(before) and _BROKEN.search(after)
    is_other = _BROKEN.search(before) or _STRONG.search(after) or is_comment(after)
    is_alike = len(words & kept) >= ALIKE * min(len(words), len(kept))
    return "algorithm" if is_weaker and not is_other and is_alike else None


def _is_anchor_lost(before: str, after: str) -> bool:
    """Return whether the only change is that a pattern no longer has to match a text from start to end."""
    is_shorter = len(_ANCHOR.findall(after)) < len(_ANCHOR.findall(before))
    return is_shorter and _PATTERN.search(before) is not None and _ANCHOR.sub("", before) == _ANCHOR.sub("", after)


def _is_refusal_dropped(before: str, after: str) -> bool:
    """Return whether a one-line check stays, and its failure is no longer refused."""
    shared_start = "".join(
        character for character, _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    )
    end = shared_start.rfind(")")
    if end < 0 or not _IF.search(shared_start) or not _CHECKS.search(shared_start):
        return False
    return _REFUSES.search(before[end:]) is not None and _ENDS.search(after[end:]) is None and len(after) > end + 2


def _asks_less(before: str, after: str) -> bool:
    """Return whether a condition checks fewer rights than before, and no new ones."""
    old, new = ({word for word in _WORD.findall(text) if _RIGHT.search(word)} for text in (before, after))
    is_fewer = len(_RIGHT.findall(before)) > len(_RIGHT.findall(after))
    return is_fewer and new <= old and not _SCOPED.search(after)


def _is_moved(hunk: Hunk, old: Line, new: Line) -> bool:
    """Return whether every word about rights that a line loses is in another added line of the hunk."""
    words, kept = (set(_WORD.findall(_read(line))) for line in (old, new))
    lost = {word for word in words - kept if any(pattern.search(word) for pattern in (_GUARD, _RIGHT, _STATE))}
    others = (line.text[:LINE_LENGTH] for line in hunk.lines if line.mark == "+" and line is not new)
    return bool(lost) and lost <= {word for text in others if not is_comment(text) for word in _WORD.findall(text)}


def _is_renamed(names: Mapping[str, str], old: Line, new: Line) -> bool:
    """Return whether a line only calls a name as the hunk does where the name gets its value."""
    return in_new_names(old.text[:LINE_LENGTH], names) == new.text[:LINE_LENGTH]


def _count_guards(words: set[str]) -> int:
    return sum(_GUARD.search(word) is not None for word in words)


def _row_below(hunk: Hunk, place: int) -> str:
    below = (hunk.lines[after] for after in range(place + 1, len(hunk.lines)))
    return next((line.text[:LINE_LENGTH] for line in below if line.mark != "-" and line.text.strip()), "")


def _is_check_loosened(before: str, after: str, following: str) -> bool:
    """Return whether something besides a check of rights is now enough to pass, or a part of the check is removed."""
    old, new = set(_WORD.findall(before)), set(_WORD.findall(after))
    ors, ands = (len(operator.findall(after)) - len(operator.findall(before)) for operator in (_OR, _AND))
    is_refusal = _IF.search(after) is not None and _REFUSES.search(f"{after} {following}") is not None
    if new < old and (_STATE.search(" ".join(old - new)) or _CHECKS.search(before)):
        return ors < 0 if is_refusal else ands < 0
    if not (old <= new and _CHECKS.search(before) and _CHECKS.search(after)):
        return False
    is_refusal = is_refusal and not _DENIED_GROUP.search(after)  # `not (a and b)` refuses where either is missing
    if is_refusal:
        return ands > 0 and ors == 0
    return ors > 0 and not _OTHER_RIGHT.search(_OR.split(after)[-1])


def _is_lower(old: str, new: str) -> bool:
    """Return whether a number replaces one that is at least twice as large."""
    if not (_NUMBER.fullmatch(old) and _NUMBER.fullmatch(new)):
        return False
    return int(new.replace("_", "")) * 2 <= int(old.replace("_", ""))


def _exchange(pair: set[str]) -> str | None:
    if pair in _SHIFTS:
        return "shifted"
    if pair in _TURNED:
        return "turned"
    is_turned = pair <= _LOGIC or pair <= _LOGIC_WORDS
    return "opposite" if is_turned and pair not in _STRICTER and not pair & {"(", ")"} else None


def _is_protected(how: str, hunk: Hunk, line: Line, path: str) -> bool:
    """Return whether a condition is about rights, by its own words or by the name of the function around it."""
    if how != "opposite":
        return how in ("lowered", "weaker", "wider", "list-widened", "algorithm")
    above = (
        line_above.text[:LINE_LENGTH]
        for line_above in reversed(hunk.lines[: hunk.lines.index(line)])
        if line_above.mark != "-"
    )
    head = next((text for text in above if _HEAD.search(text)), hunk.section)
    text = _read(line)
    is_asking = _ASKING.search(head) is not None or _RIGHTS_PATH.search(path) is not None
    return is_asking or any(pattern.search(text) for pattern in (_PROTECTED, _ROLE))


def _finding(file: FileChange, line: Line, how: str, is_protected: bool) -> Finding:
    kind: FlagType = "security" if is_protected else "subtle_bug"
    severity = Severity.MED if is_protected else Severity.LOW
    messages = {
        "opposite": "A condition or a switch is turned round, or its “and” is an “or” now; the rest of the line stays.",
        "shifted": "A limit moves by one, and nothing else on the line changes.",
        "lowered": "A number that makes a password, key or token hard to guess is at most half of what it was.",
        "weaker": "A condition or an address no longer asks for a right that it asked for; most of the line stays.",
        "wider": "What was looked up among what belongs to one person or group is looked up among everybody's.",
        "list-widened": "A list that keeps values out loses one, or one that lets them in gains a way round.",
        "unawaited": "A check is no longer waited for, and its promise counts as a yes whatever the answer is.",
        "algorithm": "An algorithm that is broken takes the place of one that holds, and most of the line stays.",
        "turned": "A comparison is turned round, and nothing else on the line changes.",
    }
    return Finding(SCANNER, how, kind, severity, messages[how], file=file.path, line=line.new, quote=quoted(line.text))
