"""The values that a statement inserts into its texts, and which of them are safe.

They come from interpolation, addition or a format.

`db.query("select * from t where id = " + id)` has the hole `id`; `f"tar {quote(name)}"` has `quote(name)`. A rule that
names a kind of safe values matches only where a hole remains that is not of that kind. Pure and bounded.
"""

import re
from collections.abc import Iterator

import re2

CHARACTERS = 3_000  # of a statement that is analysed
NAME_CHARACTERS = 40  # of a function that may be a format
INNER_CHARACTERS = 600  # of a value that is searched for values of its own
NAMES = 40  # holes of one statement whose guards are searched
DEPTH = 3  # of values that are made of other values
_TEXT = re.compile(r"([fFrRbBuU$@]{0,2})(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`)")
_QUOTED = r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`\n]*`"  # a text in one row
_BRACED = re.compile(r"[$#]\{((?:[^{}]|\{[^{}]*\})*)\}|\{(\$[^{}]*)\}")
_PLAIN = re.compile(r"(?<!\{)\$([A-Za-z_]\w*(?:->\w+|\[[^\]]*\])?)")
_CALCULATED = re.compile(r"\s*[\w.]+\s*[-+/]\s*\d+\s*")  # no text in Python, where one and a number do not add up
_IN_F = re.compile(r"(?<!\{)\{([^{}:!]*)[^{}]*\}")
_SPEC = re.compile(r"%(?:\(\w+\)|\d\$)?[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:ll?|z|h)?([a-zA-Z])|\{[^{}]*\}")
_FORMAT = re.compile(r"(?:^|[^\w])(?:\w+[.:]+)*(?:[sv]?n?[sS]?[pP]rintf|asprintf|[fF]ormat!?|formatted)$")
_NUMBERS = frozenset("diouxXeEfFgGcbtp")
_ADDED = re.compile(r"\s*(?:\+(?![+=])|\.\.(?!\.)|<>|~(?!=))\s*")
_POINT = re.compile(r"(?<=\x00)\s*\.\s*(?=[\x00$\w(])(?![a-z_]+\()|(?<=[\w)\]}\s])\s*\.\s*(?=\x00)|\s\.\s")
# Fixed parts of the source: a text without a value in it, a number, a constant, a member of a class or an enum.
_CONSTANT = (
    r"(?:[rRbBuU@]?(?:\"[^\"$#{}]*\"|'[^'{}]*'|`[^`$]*`)|\d+(?:\.\d+)?|"
    r"(?:[\w$]+(?:\.|::|->))*[A-Z][A-Z0-9_]+|(?:\\?[A-Z]\w*(?:\.|::)|(?:self|static|parent)::)+[A-Z]\w*)"
)
_FIXED = re2.compile(rf"(?:[\s()+.,\[\]]|\bor\b|\|\||\?\?|[\"'][^\"']*[\"']|\.join\(|{_CONSTANT})+")
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
    rf"[\w.]+\.(?:has|includes|contains\w*|include\?|key\?)\([^?]{{1,80}}\?\s*[^?:\"'`]{{1,80}}:\s*{_CONSTANT}|"
    r"\w+ switch \{(?:[^{}\"]*=>\s*\"[^\"]*\",?)+|list\([A-Z]|"
    rf"[\w.()\[\]]{{1,80}} if \S{{1,80}} in [A-Z]\w+ else {_CONSTANT}|"
    r"[\w.$>-]*(?i:columns|sorts|fields|orders|allowed|known|tables|choices|directions)\w*\[\$?[a-z]\w*\]\s*;?\s*(?:(?:\?\?|\|\||\?:)\s*[\"'].*)?$)"
)
_IS_CHOICE = re.compile(r"\?|\bif\b")
# A list of fixed values as a whole, joined or not; a list that is joined; an entry of a table; the name given first.
_LISTED = re2.compile(
    rf"(?:(?:\[\]\w+|\w+(?:\.\w+)?)?[\[({{]+(?:\s|,|{_CONSTANT})*[\])}}]*|%w\[[\w\s]*\])(?:\.join\([^()]*\))?[):]*"
)
_JOINED = re.compile(
    r"(?:[fF]?[\"'`][^\"'`]{0,12}[\"'`]\.join\(\s*([\w.$]+)\s*\)|([\w.$]+)\.join\([^()]*\))(?:\s*(?:or|\|\||\?\?)\s*[\"'`][^\"'`]*[\"'`])?"
)
# A text for each of many, joined: `",".join(f"${n}" for n in range(5))`; the text is the first group.
_EACH = re.compile(r"[\"'`][^\"'`]{0,12}[\"'`]\.join\(\s*[\[(]?\s*(.{1,200}?)\s+for\s+\w")
_ENTRY = re.compile(r"\$?([A-Za-z_]\w*)(?:\[\$?[\w.]+\]|\.get\(\$?[\w.]+\))(?:\s*(?:\?\?|\|\||\?:).*)?$")
_CALL = re.compile(
    r"(?:return\s+|await\s+|(?:const |let |var )?[\w, ]{1,60}:?=\s*)*(?:new\s+)?([\w.$>:?-]+)\((.*?)\)"
    r"(?:\.\w+\(\))*\s*;?$",
    re.DOTALL,
)
_LIST = re.compile(r"(?:&?\[|(?:List\.of|Arrays\.asList|listOf)\(|new String\[\]\s*\{)(.*)[\])}]$", re.DOTALL)
_IN_TEMPLATE = re.compile(r"\$\{([^{}`]*`[^`]*`[^{}`]*)\}")  # a value that holds a template of its own
# A search pattern such as `"%" + name + "%"`, without another text in it.
_PATTERN = re.compile(r"[fF$]?([\"'`])[%_*]*(?:[$#]?\{[^{}]*\})?[%_*]*\1")
# Types whose values never hold anybody's text.
_NUMBER_TYPES = (
    r"u?int(?:8|16|32|64)?|u?long|u?short|Int|Integer|Long|Short|byte|Byte|float(?:32|64)?|double|Float|Double|decimal|"
    r"Decimal|number|bigint|bool|boolean|Boolean|Bool|[iu](?:8|16|32|64|128|size)|f32|f64|size_t|u?int\d+_t|UUID|Uuid|Guid|"
    r"uuid\.UUID|date|datetime|LocalDate|Instant|DateTime|DateOnly|time\.Time|time\.Duration"
)
_CALLED = re.compile(r"[\w$.>:-]+$")
_NAME = re.compile(r"[$@]{0,2}[A-Za-z_]\w*(?:(?:\.|->|\?\.)\w+)*")
_PERCENT = re.compile(
    r"\s*%\s*(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\)|"
    r"((?:[\w.]+|\0\.\w+)(?:\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\))?))"
)
_FUNCTION_HEAD = re2.compile(r"(?m)^\s*(?:\w+\s+)*(?:def|function|func|fn|fun)\s+\w+\s*\([^()\n]*\)")
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_OPEN, _CLOSE, _ENDS = "([{", ")]}", ",;=?:<>&|"


def holes(statement: str, safe: "re2._Regexp | None" = None, *, is_inner: bool = False) -> Iterator[str]:
    """Yield each value that becomes part of a text, as written; a format's number as 0.

    Nothing is yielded for a text that is the argument of a call matched by `safe`, as in `quote("file:" + name)`.
    """
    texts: list[str] = []

    def mask(match: re.Match[str]) -> str:
        texts.append(match[0])
        return "\0"

    plain = " ".join(statement[:CHARACTERS].replace("\0", "").split())
    for nested in _IN_TEMPLATE.findall(plain) if not is_inner else ():
        yield from holes(nested, safe)
    plain = _IN_TEMPLATE.sub("", plain)
    for choice in _CHOICES:
        plain = choice.sub(r"\1 \2", plain)
    masked = _TEXT.sub(mask, plain)
    for text in texts:
        yield from _interpolated(text)
    yield from _added(masked, texts, safe, is_inner)


def _interpolated(text: str) -> Iterator[str]:
    if _PATTERN.fullmatch(text):
        return
    yield from (braced or dollar for braced, dollar in _BRACED.findall(text))
    if re.match(r"[rRbB]?[fF$]@?[rR]?[\"']", text):
        is_python = text[0] in "fF"
        yield from ("0" if is_python and _CALCULATED.fullmatch(hole) else hole for hole in _IN_F.findall(text))
    if '"' in text[:3]:
        yield from _PLAIN.findall(text)


def _added(masked: str, texts: list[str], safe: "re2._Regexp | None", is_inner: bool) -> Iterator[str]:
    """Yield the operands added to a text, and the arguments of formats, from the inside out."""
    chains: list[list[str]] = [[""]]  # for each open bracket, the operands of the current chain
    lists: list[list[str]] = [[]]  # and its earlier arguments
    formats = [False]  # and whether it has the arguments of a format
    cleaned = [False]  # and whether its content is made safe
    offset = read = 0
    while offset < len(masked):
        sign, chain = masked[offset], chains[-1]
        operator = _ADDED.match(masked, offset) or _POINT.match(masked, offset)
        if operator and chain[-1].strip():
            chain.append("")
            offset = operator.end()
            continue
        if sign == "\0":
            text = texts[read]
            read += 1
            chain[-1] += text
            percent = _PERCENT.match(masked, offset + 1)
            if percent:
                values = re.split(r",(?![^(]*\))", percent[1]) if percent[1] else [percent[2]]
                yield from _of_format([text, *_with_texts(values, texts[read:])])
        elif masked.startswith("::", offset):
            chain[-1] += "::"
            offset += 2
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
            arguments = [argument.strip() for argument in (*lists.pop(), " + ".join(chains.pop()))]
            yield from _of_format(arguments) if formats.pop() else ()
            chains[-1][-1] += f"{_BRACKETS[sign]}{', '.join(arguments)}{sign}"
        elif sign in _ENDS:
            yield from _of_chain(chain, is_inner) if not cleaned[-1] else ()
            # The text before an equals sign is a name.
            lists[-1] += [" + ".join(chain)] if sign != "=" else []
            chains[-1] = [""]
        else:
            chain[-1] += sign
        offset += 1
    for chain in chains:
        yield from _of_chain(chain, is_inner)


def _with_texts(values: list[str], texts: list[str]) -> Iterator[str]:
    """Yield values with the removed quoted texts put back, in order."""
    following = iter(texts)
    for value in values:
        yield re.sub("\0", lambda _: next(following, ""), value)


def _of_chain(operands: list[str], is_inner: bool) -> Iterator[str]:
    """Yield the operands of a chain with a text that are not texts themselves.

    Skip operands that contain values of their own.
    """
    if all(_PATTERN.fullmatch(operand.strip()) for operand in operands if _TEXT.fullmatch(operand.strip())):
        return
    if len(operands) > 1 and any(_TEXT.search(operand) for operand in operands):
        values = (operand.strip() for operand in operands if not _TEXT.fullmatch(operand.strip()))
        for operand in values:
            is_read = not is_inner and len(operand) <= INNER_CHARACTERS and _TEXT.search(operand) is not None
            if not (is_read and any(holes(operand, is_inner=True))):
                yield operand


def _of_format(arguments: list[str]) -> Iterator[str]:
    """Yield the values of a format without its numbers; the format is the first argument that is a text."""
    first = next((index for index, argument in enumerate(arguments) if _TEXT.fullmatch(argument.strip())), None)
    if first is None:
        return
    text = arguments[first].strip()
    kinds = [spec[1] for spec in _SPEC.finditer(text) if spec[0] != "%%"]
    yield from re.findall(r"(?<!\{)\{([a-z_]\w*)(?::[^}]*)?\}", text)
    for index, value in enumerate(arguments[first + 1 :]):
        is_number = index < len(kinds) and kinds[index] in _NUMBERS
        yield "0" if is_number else re.sub(r"^\s*\w+\s*=\s*", "", value)


def has_unsafe(statement: str, safe: "re2._Regexp", near: str) -> bool:
    """Return whether an arbitrary value may become part of a text, or nothing is known about it.

    A value is safe that is a literal, a constant, matches `safe`, or is one of a few texts by the rows `near`. A call
    that inserts nothing into a text is judged by its first named argument.
    """
    unsafe_candidates = [hole for hole in dict.fromkeys(value.strip() for value in holes(statement, safe)) if hole]
    if not unsafe_candidates:
        first_argument = _first_value(statement)
        return first_argument is None or not _is_safe_argument(first_argument, safe, near)
    return not all(_is_safe(hole, safe, near) for hole in unsafe_candidates[:NAMES])


def _first_value(statement: str) -> str | None:
    """Return the first argument of a call that is not a text, also in a list of arguments; None without one."""
    call = _CALL.match(statement)
    values = (argument for argument in _arguments(call[2]) if not _TEXT.fullmatch(argument)) if call else iter(())
    first = next(values, None)
    inner = _LIST.match(first) if first else None
    return (
        next((argument for argument in _arguments(inner[1]) if not _TEXT.fullmatch(argument)), None) if inner else first
    )


def _is_safe_argument(value: str, safe: "re2._Regexp", near: str) -> bool:
    call = _CALL.match(value)
    if call and safe.search(f"{call[1]}("):
        return True
    if _TEXT.search(value):  # `safe` is for values, not for texts
        return bool(_FIXED.fullmatch(value) or _CHOSEN.match(value))
    return _is_safe(value, safe, near)


def _is_safe(value: str, safe: "re2._Regexp", near: str, depth: int = 0) -> bool:
    is_fixed = _FIXED.fullmatch(value) is not None or safe.search(value) is not None
    return is_fixed or _is_safe_each(value, safe, near, depth) or is_bounded(value, safe, near, depth)


def _is_safe_each(value: str, safe: "re2._Regexp", near: str, depth: int) -> bool:
    """Return whether a value is joined from texts with only safe values in them."""
    each = _EACH.match(value)
    if each is None or depth >= DEPTH:
        return False
    inner = [hole.strip() for hole in holes(each[1], safe)]
    is_text = bool(inner) or _TEXT.fullmatch(each[1]) is not None
    return is_text and all(_is_safe(hole, safe, near, depth + 1) for hole in inner)


def is_bounded(value: str, safe: "re2._Regexp", near: str, depth: int = 0) -> bool:
    """Return whether the rows near a value show that it is a number, or one of a few known or safe texts."""
    if _is_listed(value, near) or _is_number(value, near):
        return True
    return depth < DEPTH and (_is_chosen(value, safe, near, depth + 1) or _is_fixed_where_called(value, near))


def _is_chosen(value: str, safe: "re2._Regexp", near: str, depth: int) -> bool:
    """Return whether each value that the rows near a text assign to a name in it is safe by itself.

    A value joined from a list is safe where everything added to it is. `name = {name}` in a query assigns nothing.
    """
    joined = _JOINED.fullmatch(value)
    name = (joined[1] or joined[2] if joined else value).strip("( )\x02").lstrip("$")
    if (joined and name.isupper()) or (_IS_CHOICE.search(value) and _CHOSEN.match(value)):
        return True
    if not re.fullmatch(r"[a-z_]\w*", name):
        return _is_entry(value, near)
    near = _FUNCTION_HEAD.sub("", near)  # a parameter's default value says nothing about its other values
    assigned = re2.findall(
        rf"(?m){_QUOTED}|(?:^|[^\w.])\$?{name}(?:\s*:\s*[\w&' ]+)?(?:,\s*\w+)?(?:\[\])?\s*[:+.|]?=([^=\n][^\n]*)|"
        rf"\b{name}(?:\.(?:append|push|add|extend)\(|\s*<<)([^\n]*)|"
        rf"\bfor\s*\(?(?:const |let |var |final \w+ |\w+ |_, )?{name}\s*(?:\bof\b|\bin\b|:=\s*range|:)([^\n]*)|"
        rf"([\w.]+|\[[^\[\]\n]*\])\.(?:map|forEach|flatMap|each|collect)(?:\(\s*(?:async\s*)?\(?{name}\)?\s*(?:=>|->)|"
        rf"\s*(?:\{{|do)\s*\|{name}\|)",
        near,
    )
    values = [
        value.strip().rstrip(";").removesuffix("{").strip() for groups in assigned for value in filter(None, groups)
    ]
    if any(re.match(rf"[\"'%(]{{0,3}}[$#]?\{{\s*\$?{name}\b", value) for value in values):
        return False
    return bool(values) and all(_is_safe_value(value, safe, near, depth) for value in values)


def _is_safe_value(value: str, safe: "re2._Regexp", near: str, depth: int) -> bool:
    if _CHOSEN.match(value) or _LISTED.fullmatch(value) or _FIXED.fullmatch(value) or _is_entry(value, near):
        return True
    inner = [hole.strip() for hole in holes(value, safe)]
    return all(_is_safe(hole, safe, near, depth) for hole in inner or [value])


def _is_entry(value: str, near: str) -> bool:
    """Return whether a value is looked up in a literal table near it."""
    table = _ENTRY.match(value)
    return table is not None and (
        re2.search(rf"\b{table[1]}\b[^=\n]*=\s*(?:new Map\(|\w*Map\.of\(|map\[\w+\]\w+\{{|[{{\[]|array\()", near)
        is not None
    )


def _is_fixed_where_called(value: str, near: str) -> bool:
    """Return whether a value is a parameter of a function that nearby calls give only fixed texts."""
    name = value.strip("( )").lstrip("$")
    if not re.fullmatch(r"[a-z_]\w*", name):
        return False
    head = re2.search(
        rf"\b(?:function|def|func|fn|fun|const|let|var)\s+(\w+)\s*(?:=\s*(?:async\s*)?(?:function\s*)?)?\(([^()\n]*\b{name}\b[^()\n]*)\)",
        near,
    )
    if head is None:
        return False
    index = [name in re.findall(r"\w+", parameter.partition(":")[0]) for parameter in head[2].split(",")].index(True)
    calls = [*re2.finditer(rf"\b{head[1]}\(((?:[^()\"'`\n]|\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`)*)\)", near)]
    arguments_of_calls = [_arguments(call[1]) for call in calls if call.start() != head.start(1)]
    return bool(arguments_of_calls) and all(
        len(parameter) > index and _FIXED.fullmatch(parameter[index]) for parameter in arguments_of_calls
    )


def _arguments(text: str) -> list[str]:
    """Return the arguments of a call; commas in texts and brackets do not separate."""
    parts, depth, texts = [""], 0, {quoted_text.start(): quoted_text[0] for quoted_text in _TEXT.finditer(text)}
    offset = 0
    while offset < len(text):
        piece = texts.get(offset, text[offset])
        depth += (piece in _OPEN) - (piece in _CLOSE)
        if piece == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
        offset += len(piece)
    return [part.strip() for part in parts if part.strip()]


def _is_number(hole: str, near: str) -> bool:
    """Return whether a name is declared as a number, a truth value or an identifier near the text."""
    name = re.sub(r"\s*[+-]\s*\d+$", "", hole.strip("( )\x02").lstrip("$"))
    if re.fullmatch(r"[\w.$ ]+(?:[*/][\w.$ ]+)+", name):  # a product
        return True
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        return False
    before = rf"\b(?:{_NUMBER_TYPES})\??\s+\$?{name}\b(?:\s*[,)=;]|\s+in\b)"
    after = rf"\b{name}\??\s*:\s*&?(?:{_NUMBER_TYPES})\b\s*(?:\|\s*(?:None|null|undefined)\s*)?\??[,)=;{{]"
    go = rf"[(,]\s*(?:\w+,\s*)*{name}(?:,\s*\w+)*\s+(?:{_NUMBER_TYPES})\s*[,)]"
    counted = rf"\bfor\s+{name}\s+in\s+range\(|\bfor\s+{name},\s*\w+\s+in\s+enumerate\(|\(\w+,\s*{name}\)\s*=>"
    return re2.search(f"(?m){before}|{after}|{go}|{counted}", near) is not None


def _is_listed(hole: str, near: str) -> bool:
    """Return whether a value's first name is compared with a list of allowed ones."""
    hole = hole.lstrip("( \x02")  # the mark of a visitor's value, which the nearby rows do not have
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
