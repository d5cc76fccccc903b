"""The values that a statement puts into its texts, by interpolation, addition or a format, and which of them are safe.

`db.query("select * from t where id = " + id)` has the hole `id`; `f"tar {quote(name)}"` has `quote(name)`. A rule that
names a kind of safe values matches only where a hole is left that is not of that kind. Pure and bounded.
"""

import re
from collections.abc import Iterator

import re2

CHARACTERS = 3_000  # of a statement that is taken apart
NAME_CHARACTERS = 40  # of a function that may be a format
INNER_CHARACTERS = 600  # of a value that is looked into for values of its own
NAMES = 40  # holes of one statement whose guards are looked for
_TEXT = re.compile(r"([fFrRbBuU$@]{0,2})(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`)")
_BRACED = re.compile(r"[$#]\{((?:[^{}]|\{[^{}]*\})*)\}|\{(\$[^{}]*)\}")
_PLAIN = re.compile(r"(?<!\{)\$([A-Za-z_]\w*(?:->\w+|\[[^\]]*\])?)")
_IN_F = re.compile(r"(?<!\{)\{([^{}:!]*)[^{}]*\}")
_SPEC = re.compile(r"%(?:\(\w+\)|\d\$)?[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:ll?|z|h)?([a-zA-Z])|\{[^{}]*\}")
_FORMAT = re.compile(r"(?:^|[^\w])(?:\w+[.:]+)*(?:[sv]?n?[sS]?[pP]rintf|asprintf|[fF]ormat!?|formatted)$")
_NUMBERS = frozenset("diouxXeEfFgGcbtp")
_ADDED = re.compile(r"\s*(?:\+(?![+=])|\.\.(?!\.)|<>|~(?!=))\s*")
_POINT = re.compile(r"(?<=\x00)\s*\.\s*(?=[\x00$\w(])(?![a-z_]+\()|(?<=[\w)\]}\s])\s*\.\s*(?=\x00)|\s\.\s")
# What is fixed in the source: a text without a value in it, a number, a constant, a name of a class's or an enum's.
_CONSTANT = (
    r"(?:[rRbBuU@]?(?:\"[^\"$#{}]*\"|'[^'{}]*'|`[^`$]*`)|\d+(?:\.\d+)?|"
    r"(?:[\w$]+(?:\.|::|->))*[A-Z][A-Z0-9_]+|(?:\\?[A-Z]\w*(?:\.|::)|(?:self|static|parent)::)+[A-Z]\w*)"
)
_FIXED = re2.compile(rf"(?:[\s()+.]|[\"'][^\"']*[\"']|{_CONSTANT})+")
# One of two fixed values: `newest ? "desc" : "asc"`, `"desc" if newest else "asc"`, `if (newest) "desc" else "asc"`.
_CONDITION = r"(?:[^\"'`(){};,?]|\"[^\"]*\"|'[^']*'|\([^()\"'`]*\))"
_CHOICES = (
    re2.compile(rf"([(=,+.{{\[]|\breturn\b|^)\s*{_CONDITION}{{1,200}}\?\s*({_CONSTANT})\s*:\s*{_CONSTANT}"),
    re2.compile(rf"([(=,+.{{\[]|\breturn\b|^)\s*({_CONSTANT})\s+if\s+{_CONDITION}{{1,200}}?\s+else\s+{_CONSTANT}"),
    re2.compile(rf"([(=,+.{{\[]|\breturn\b|^)\s*if\s*\([^()\"'`]{{1,200}}\)\s*({_CONSTANT})\s+else\s+{_CONSTANT}"),
)
_CHOSEN = re2.compile(
    rf"\s*(?:if\b[^;\n]*\{{\s*{_CONSTANT}\s*\}}\s*else\s*\{{\s*{_CONSTANT}\s*\}}|{_CONDITION}{{1,200}}\?\s*{_CONSTANT}\s*:\s*{_CONSTANT}|"
    rf"{_CONSTANT}\s+if\b[^\n]*\belse\s+{_CONSTANT}|{_CONSTANT}\s*;?$|\{{[^{{}}\n]*\}}\s*(?:\[|\.get\()|"
    r"(?:\w+(?:\.|::))*[A-Z][A-Z_]{2,}(?:\[|\.get\()|"
    r"[\w.$>-]*(?i:columns|sorts|fields|orders|allowed|known|tables|choices|directions)\w*\[\$?[a-z]\w*\]\s*;?\s*(?:(?:\?\?|\|\||\?:)\s*[\"'].*)?$)"
)
# A value to look for, as `"%" + name + "%"`: no text that holds one.
_PATTERN = re.compile(r"[fF$]?([\"'`])[%_*]*(?:[$#]?\{[^{}]*\})?[%_*]*\1")
# Types of which no value holds text of somebody's own.
_NUMBER_TYPES = (
    r"u?int(?:8|16|32|64)?|u?long|u?short|Int|Integer|Long|Short|byte|Byte|float(?:32|64)?|double|Float|Double|decimal|"
    r"Decimal|number|bigint|bool|boolean|Boolean|Bool|[iu](?:8|16|32|64|128|size)|f32|f64|size_t|u?int\d+_t|UUID|Uuid|Guid|"
    r"uuid\.UUID|date|datetime|LocalDate|Instant|DateTime|DateOnly|time\.Time|time\.Duration"
)
_CALLED = re.compile(r"[\w$.>:-]+$")
_NAME = re.compile(r"[$@]{0,2}[A-Za-z_]\w*(?:(?:\.|->|\?\.)\w+)*")
_PERCENT = re.compile(r"\s*%\s*(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\)|([\w.]+(?:\([^()]*\))?))")
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_OPEN, _CLOSE, _ENDS = "([{", ")]}", ",;=?:<>&|"


def holes(statement: str, safe: "re2._Regexp | None" = None, *, is_inner: bool = False) -> Iterator[str]:
    """Yield each value that becomes a part of a text, as it is written; a number of a format as 0.

    Nothing is yielded of a text that is the argument of a call that `safe` matches, as in `quote("file:" + name)`.
    """
    texts: list[str] = []

    def kept(found: re.Match[str]) -> str:
        texts.append(found[0])
        return "\0"

    plain = " ".join(statement[:CHARACTERS].replace("\0", "").split())
    for choice in _CHOICES:
        plain = choice.sub(r"\1 \2", plain)
    masked = _TEXT.sub(kept, plain)
    for text in texts:
        yield from _interpolated(text)
    yield from _added(masked, iter(texts), safe, is_inner)


def _interpolated(text: str) -> Iterator[str]:
    if _PATTERN.fullmatch(text):
        return
    yield from (braced or dollar for braced, dollar in _BRACED.findall(text))
    if re.match(r"[rRbB]?[fF$]@?[rR]?[\"']", text):
        yield from _IN_F.findall(text)
    if '"' in text[:3]:
        yield from _PLAIN.findall(text)


def _added(masked: str, texts: Iterator[str], safe: "re2._Regexp | None", is_inner: bool) -> Iterator[str]:
    """Yield the operands that are added to a text, and the arguments of formats, from the inside out."""
    chains: list[list[str]] = [[""]]  # of each open bracket, the operands of the chain at hand
    lists: list[list[str]] = [[]]  # and the arguments before it
    formats = [False]  # and whether it takes the arguments of a format
    cleaned = [False]  # and whether what stands in it is made safe
    place = 0
    while place < len(masked):
        sign, chain = masked[place], chains[-1]
        operator = _ADDED.match(masked, place) or _POINT.match(masked, place)
        if operator and chain[-1].strip():
            chain.append("")
            place = operator.end()
            continue
        if sign == "\0":
            text = next(texts, "")
            chain[-1] += text
            behind = _PERCENT.match(masked, place + 1)
            if behind:
                yield from _of_format([text, *re.split(r",(?![^(]*\))", behind[1] or behind[2])])
        elif masked.startswith("::", place):
            chain[-1] += "::"
            place += 2
            continue
        elif sign in _OPEN:
            called = _CALLED.search(chain[-1][-NAME_CHARACTERS:]) if sign == "(" else None
            is_clean = called is not None and safe is not None and safe.search(f"{called[0]}(") is not None
            cleaned.append(cleaned[-1] or is_clean)
            formats.append(sign == "(" and _FORMAT.search(chain[-1][-NAME_CHARACTERS:]) is not None)
            chains.append([""])
            lists.append([chain[-1].removesuffix(".format")] if formats[-1] and _TEXT.match(chain[-1]) else [])
        elif sign in _CLOSE and len(chains) > 1:
            yield from _of_chain(chain, is_inner) if not cleaned.pop() else ()
            arguments = [one.strip() for one in (*lists.pop(), " + ".join(chains.pop()))]
            yield from _of_format(arguments) if formats.pop() else ()
            chains[-1][-1] += f"{_BRACKETS[sign]}{', '.join(arguments)}{sign}"
        elif sign in _ENDS:
            yield from _of_chain(chain, is_inner) if not cleaned[-1] else ()
            # What stands before a sign of equality is a name.
            lists[-1] += [" + ".join(chain)] if sign != "=" else []
            chains[-1] = [""]
        else:
            chain[-1] += sign
        place += 1
    for chain in chains:
        yield from _of_chain(chain, is_inner)


def _of_chain(operands: list[str], is_inner: bool) -> Iterator[str]:
    """Yield what is no text of its own in a chain that holds a text; for what holds values itself those stand."""
    if all(_PATTERN.fullmatch(one.strip()) for one in operands if _TEXT.fullmatch(one.strip())):
        return
    if len(operands) > 1 and any(_TEXT.search(one) for one in operands):
        values = (one.strip() for one in operands if not _TEXT.fullmatch(one.strip()))
        for one in values:
            is_read = not is_inner and len(one) <= INNER_CHARACTERS and _TEXT.search(one) is not None
            if not (is_read and any(holes(one, is_inner=True))):
                yield one


def _of_format(arguments: list[str]) -> Iterator[str]:
    """Yield the values of a format but its numbers; the text of the format is the first argument that is one."""
    first = next((place for place, one in enumerate(arguments) if _TEXT.fullmatch(one.strip())), None)
    if first is None:
        return
    text = arguments[first].strip()
    kinds = [found[1] for found in _SPEC.finditer(text) if found[0] != "%%"]
    yield from re.findall(r"(?<!\{)\{([a-z_]\w*)(?::[^}]*)?\}", text)
    for place, value in enumerate(arguments[first + 1 :]):
        is_number = place < len(kinds) and kinds[place] in _NUMBERS
        yield "0" if is_number else re.sub(r"^\s*\w+\s*=\s*", "", value)


def has_unsafe(statement: str, safe: "re2._Regexp", near: str) -> bool:
    """Return whether something that may be anything becomes a part of a text, or nothing can be said of it.

    A value is safe that is written out, is a constant, matches `safe`, or is looked up in a list of values `near`.
    """
    found = [one for one in dict.fromkeys(value.strip() for value in holes(statement, safe)) if one]
    if not found:
        return True
    return any(not (_FIXED.fullmatch(one) or safe.search(one) or is_bounded(one, near)) for one in found[:NAMES])


def is_bounded(hole: str, near: str) -> bool:
    """Return whether the rows near a value say that it is a number, or one of a few texts that are known."""
    return _is_listed(hole, near) or _is_number(hole, near) or _is_chosen(hole, near)


def _is_chosen(hole: str, near: str) -> bool:
    """Return whether a name is given one of a few fixed values near the text that holds it, and nothing else."""
    name = hole.strip("( )\x02").lstrip("$")
    if not re.fullmatch(r"[a-z_]\w*", name):
        return False
    given = re2.findall(rf"(?m)(?:^|[^\w.])\$?{name}(?:\s*:\s*[\w&' ]+)?(?:,\s*\w+)?\s*[:+.|]?=([^=\n][^\n]*)", near)
    return bool(given) and all(_CHOSEN.match(value) for value in given)


def _is_number(hole: str, near: str) -> bool:
    """Return whether a name is declared as a number, a truth value or an identifier near the text that holds it."""
    name = hole.strip("( )\x02").lstrip("$")
    if re.fullmatch(r"[\w.$ ]+(?:[*/][\w.$ ]+)+", name):  # a product
        return True
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        return False
    before = rf"\b(?:{_NUMBER_TYPES})\??\s+\$?{name}\b(?:\s*[,)=;]|\s+in\b)"
    after = rf"\b{name}\??\s*:\s*&?(?:{_NUMBER_TYPES})\b\s*(?:\|\s*(?:None|null|undefined)\s*)?\??[,)=;{{]"
    go = rf"[(,]\s*(?:\w+,\s*)*{name}(?:,\s*\w+)*\s+(?:{_NUMBER_TYPES})\s*[,)]"
    return re2.search(f"(?m){before}|{after}|{go}", near) is not None


def _is_listed(hole: str, near: str) -> bool:
    """Return whether the name that a value begins with is compared with a list of allowed ones."""
    hole = hole.lstrip("( \x02")  # the mark of a visitor's value, which the rows near do not have
    name = _NAME.match(hole)
    if name is None:
        return False
    whole = re2.escape(hole.rstrip(" )")) + r"\)*"
    word = f"(?:{whole}|{re2.escape(name[0])})"
    listed = (
        rf"(?:\b(?:if|elif|not|and|or|assert|unless|while|return)\b|[(!])\s*{word}\)?\s+(?:not\s+)?in\s+(?:[A-Z\[({{]|self\.|\w*(?i:allow|valid|known|column|field|choice|sort))|"
        rf"(?:\.|\b)(?:includes|has|contains\w*|Contains\w*|include\?|key\?|member\?|in_array|array_key_exists|isset|indexOf|"
        rf"fullmatch|match|test|matches|MatchString|IsMatch)\(\s*(?:[^()\n]*,\s*)?(?:\w+\[)?{word}\b|\b(?:switch|match|case)\s*\(?{word}\b"
    )
    return re2.search(f"(?m){listed}", near) is not None
