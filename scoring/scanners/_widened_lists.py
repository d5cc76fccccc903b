"""Lists that let values in or keep them out, and whether a change opens them. Pure."""

import re

_ITEM = re.compile(r"[\"'`]([^\"'`\s]{1,60})[\"'`]|(?<=[\s\[(,]):(\w+)")
_NOT_A_LIST = re.compile(r"(?i)(starts|ends)_?with|[!=]==?|\b(def|func|function|fn|fun|in)\s|\bif\b")
_KEEPS_OUT = re.compile(
    r"(?i)read_?only|exclu|except\b|guarded|attr_protected|protected_?(fields|attr\w*|keys)|hidden|den(y|ied)|block(ed|list)|forbid|blacklist|disallow|reserved|"
    r"restrict|sensitive|redact|secret|mask|filter_?param|omit|immutable|required_"
)
_LETS_IN = re.compile(
    r"(?i)allow|permit|fillable|editable|accessible|writ(e|able)|updatable|patchable|assignable|algorithms?|protocols?|hosts?\b|"
    r"origins?|cidr|whitelist|trusted|safe|verbs|resources|\bactions?\b|principals?|schemes?|extensions|public|anonymous"
)
_SENSITIVE = re.compile(
    r"(?i)^:?(\w*_)?(admin|staff|superuser|roles?|owner(_?id)?|permissions?|password|secret|token|is_?(admin|staff|super\w*|verified|active)|"
    r"scopes?|balance|credits?|plan|tenant(_?id)?|account_?id|user_?id|api_?key|verified|approved|price|isAdmin)$"
)
_WILD = re.compile(
    r"(?i)\*{1,2}|\.\*|0\.0\.0\.0/0|::/0|__all__|none|HS256|ext|file|gopher|dict|javascript|data|https?://\*|null|php\d?|phtml|exe|svg"
)
_READ = re.compile(r"(?i)read|list|show|visible|display|search|order|filter")


def is_list_widened(before: str, after: str) -> bool:
    """Return whether a list that protects loses a right or a secret, or one that allows gains one or a wildcard."""
    old, new = (
        {part for item in _ITEM.findall(text) for part in _parts(item[0] or item[1])} for text in (before, after)
    )
    if not old or old == new or _NOT_A_LIST.search(after):
        return False
    name = after.partition("[")[0].partition("(")[0] or after
    if _KEEPS_OUT.search(after):
        return any(_SENSITIVE.search(item) for item in old - new) and len(new) <= len(old)
    return _LETS_IN.search(after) is not None and any(
        _WILD.fullmatch(item) or (_SENSITIVE.search(item) and not _READ.search(name)) for item in new - old
    )


def _parts(item: str) -> list[str]:
    """Return the words of a list in one text, such as `https:ssh`; addresses and paths stay whole."""
    return [item] if "/" in item or "::" in item else list(filter(None, item.split(":")))
