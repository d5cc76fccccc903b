"""Source with each variable replaced by its assigned text, so that rules see through one step.

`const run = child_process.exec; const line = "zip " + name; run(line)` becomes `child_process.exec("zip " + name)`.
Rows keep their places. A literal is filled in only where nothing else is ever assigned to the name: a rule must not
treat a value as fixed that another line sets. Pure, and bounded: a text that grows too long stays as written.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import re2

from scoring.diff.budget import spend
from scoring.scanners._python_names import Expanded
from scoring.scanners._rules import cleaning, hiding, visitor_values

if TYPE_CHECKING:
    from ast_grep_py import SgNode

SOURCE_CHARACTERS = 200_000  # of one fragment: walking its nodes takes 1 ms for 10,000 characters
VALUE_CHARACTERS = 400  # of a value that is filled in
VALUE_ROWS = 5
KEPT = 20  # values of one name
GROWTH = 4  # times the length of the source


class Kinds(NamedTuple):
    """Kinds of nodes in one grammar: assignments, uses of a variable, and lists of parameters."""

    definitions: tuple[str, ...]
    uses: tuple[str, ...] = ("identifier",)
    parameters: tuple[str, ...] = ("parameter_list",)


GRAMMAR_KINDS: dict[str, Kinds] = {
    "tsx": Kinds(
        ("variable_declarator", "assignment_expression", "augmented_assignment_expression"),
        ("identifier", "shorthand_property_identifier"),
        ("formal_parameters",),
    ),
    "go": Kinds(("short_var_declaration", "assignment_statement", "var_spec", "const_spec")),
    "rust": Kinds(
        ("let_declaration", "const_item", "assignment_expression", "compound_assignment_expr"),
        parameters=("parameters",),
    ),
    "php": Kinds(
        ("assignment_expression", "augmented_assignment_expression"), ("variable_name",), ("formal_parameters",)
    ),
    "ruby": Kinds(
        ("assignment", "operator_assignment", "binary"),
        ("identifier", "constant", "instance_variable"),
        ("method_parameters", "block_parameters"),
    ),
    "java": Kinds(("variable_declarator", "assignment_expression"), parameters=("formal_parameters",)),
    "cpp": Kinds(("init_declarator", "assignment_expression")),
    "csharp": Kinds(("variable_declarator", "assignment_expression")),
    "kotlin": Kinds(("property_declaration", "assignment"), ("simple_identifier",), ("function_value_parameters",)),
    "lua": Kinds(("assignment_statement",), parameters=("parameters",)),
}
_SET, _APPENDED = frozenset({"=", ":=", "||=", "??="}), frozenset({"+=", ".=", "<<"})
_CONCATENATION = {"php": " . ", "lua": " .. "}
_NAME_KINDS = frozenset(
    {"identifier", "variable_name", "constant", "simple_identifier", "name", "variable_declaration"}
    | {"pointer_declarator", "expression_list", "variable_list", "directly_assignable_expression"}
    | {"instance_variable", "global_variable"}
)
_LITERAL_KINDS = frozenset(
    {
        "string",
        "string_literal",
        "interpreted_string_literal",
        "raw_string_literal",
        "encapsed_string",
        "template_string",
    }
    | {"verbatim_string_literal", "character_literal", "number", "number_literal", "int_literal", "integer", "float"}
    | {"integer_literal", "decimal_integer_literal", "true", "false", "boolean_literal"}
)
_FUNCTIONS = re.compile(
    r"^(function|function_expression|generator_function|arrow_function|function_definition|anonymous_function\w*|"
    r"lambda\w*|closure\w*|func_literal|class\w*|object|object_literal|jsx\w*|block|do_block|struct_expression|"
    r"composite_literal)$"
)
_SCOPES = re.compile(
    r"function_declaration|function_definition|function_item|function_expression|arrow_function|method|func_literal"
)
_NOT_A_USE = re.compile(r"param|import|specifier|pattern|catch|package|label|use_")
_NAMING_FIELDS = ("name", "method", "field", "left", "key", "parameter", "property", "label")
_PLAIN_PARENTS = re.compile(
    r"arg|reference|template_substitution|interpol|declarat|assignment|return|expression_list|spread|array|pair"
)
_RECEIVERS = re.compile("member|selector|call|invocation|navigation|access|field|index")
_SECRET = re.compile(r"(?i)passw|secret|token|credential|api_?key|private")
_PROMISED = re.compile(r"^(?:\w+\.)?promisify\(([\w.]+)\)$|^([\w.]+)\.bind\(\w+\)$")
_LOADED = re.compile(r"(?:await\s+)?(?:require|import)\s*\(")  # handled as imports
_PLAIN_TEXT = re.compile(r"""^(?:"([^"\\`$#{}]*)"|'([^'\\`$#{}]*)'|`([^`\\$]*)`)$""")
_BUILT_IN = frozenset(
    {
        "child_process",
        "fs",
        "vm",
        "crypto",
        "http",
        "https",
        "net",
        "tls",
        "dns",
        "os",
        "path",
        "util",
        "zlib",
        "process",
    }
)
_IMPORT = re2.compile(
    r"""(?:import\s+(?:type\s+)?(?:(?P<default>\w+)\s*,?\s*)?(?:\*\s+as\s+(?P<all>\w+)|\{(?P<named>[^{}]*)\})?\s*from"""
    r"""|(?:const|let|var)\s+(?:(?P<bound>\w+)|\{(?P<taken>[^{}]*)\})\s*=\s*(?:await\s+)?(?:require|import)\s*\()"""
    r"""\s*["'](?:node:)?(?P<module>[\w@./-]+)["']"""
)
_IMPORTED = re2.compile(r"(\w+)(?:\s*(?:\bas\b|:)\s*(\w+))?")
_TAKEN_APART = re2.compile(
    r"(?:const|let|var)\s*\{([^{}]*)\}\s*=\s*(?:await\s+)?([A-Za-z_][\w.]*(?:\(\))?)\s*(?:;|\n|$)"
)
# A handler's parameters that the framework fills with a visitor's input, and the expression that replaces them.
_FROM_VISITOR: dict[str, tuple["re2._Regexp", str]] = {
    "java": (
        re2.compile(
            r"@(?:RequestParam|PathVariable|RequestHeader|CookieValue|QueryParam|PathParam|FormParam|HeaderParam)\b"
            r"(?:\([^)]*\))?\s+(?:final\s+)?(?P<type>[\w<>.]+)\s+(?P<name>\w+)"
        ),
        'request.getParameter("{name}")',
    ),
    "kotlin": (
        re2.compile(
            r"@(?:RequestParam|PathVariable|RequestHeader|CookieValue)\b(?:\([^)]*\))?\s+(?P<name>\w+)\s*:\s*(?P<type>\w+)"
        ),
        'request.getParameter("{name}")',
    ),
    "csharp": (
        re2.compile(r"\[From(?:Query|Route|Header|Form)\b[^\]]*\]\s*(?P<type>[\w<>?.]+)\s+(?P<name>\w+)"),
        'Request.Query["{name}"]',
    ),
    "tsx": (
        re2.compile(r"@(?:Query|Param|Headers|Body)\([^)]*\)\s*(?P<name>\w+)\s*:\s*(?P<type>\w+)"),
        "req.query.{name}",
    ),
}
_HARMLESS_TYPES = frozenset(
    {"UUID", "Guid", "int", "Int", "Integer", "long", "Long", "short", "Short", "number", "boolean"}
)
HANDLER_CHARACTERS = 2_500  # reach after such a parameter, within which its name is replaced


@dataclass(frozen=True, slots=True)
class _Definition:
    name: str
    scope: tuple[int, int]
    value: str
    is_literal: bool
    is_alias: bool
    rows: frozenset[int]


def expand(text: str, grammar: str, root: "SgNode") -> Expanded:
    """Fill in the values; the text stays unchanged where the grammar is unknown or nothing is assigned."""
    if grammar not in GRAMMAR_KINDS or len(text) > SOURCE_CHARACTERS:
        return Expanded(text)
    return _Expansion(text, grammar, root).run()


class _Expansion:
    """A fragment whose values are filled in from beginning to end."""

    def __init__(self, text: str, grammar: str, root: "SgNode") -> None:
        self.text, self.grammar, self.root = text, grammar, root
        self.known: dict[str, list[_Definition]] = {}
        self.edits: list[tuple[int, int, str, int, frozenset[int]]] = []
        self.starts: list[int] = []

    def run(self) -> Expanded:
        """Walk definitions and uses in the order of the text."""
        self._add_imports()
        self._add_taken_apart()
        self._add_parameters()
        assigned = sorted(self._assigned(), key=lambda assignment: assignment[2].range().end.index)
        names = {name for name, *_ in assigned} | set(self.known)
        if not names:
            return Expanded(self.text)
        parameters, target_offsets = self._parameters(), {assignment[1].range().start.index for assignment in assigned}
        waiting = iter(assigned)
        following = next(waiting, None)
        for use in sorted(self._uses(names), key=lambda node: node.range().start.index):
            spend()
            offset = use.range().start.index
            while following is not None and following[2].range().end.index <= offset:
                self._define(*following)
                following = next(waiting, None)
            if offset not in target_offsets:
                self._fill_in(use, parameters)
        return self._result()

    def _add_imports(self) -> None:
        encodable = self.text.encode("utf-8", "replace").decode()
        for match in _IMPORT.finditer(encodable) if self.grammar == "tsx" else ():
            spend()
            module = re.sub(r"\W", ".", match["module"].removeprefix("node-"))
            is_known = module.split(".")[0] in _BUILT_IN
            row = self.text.count("\n", 0, match.start())
            for name in filter(None, (match["default"], match["all"], match["bound"])):
                if is_known and name != module:
                    self._add_import(name, row, module)
            for original, alias in _IMPORTED.findall(match["named"] or match["taken"] or ""):
                if is_known or (alias and alias != original):
                    self._add_import(alias or original, row, f"{module}.{original}" if is_known else original)

    def _add_import(self, name: str, row: int, value: str) -> None:
        self._add(_Definition(name, (0, len(self.text)), value, False, True, frozenset({row})))

    def _add_taken_apart(self) -> None:
        """Give `other` the value `req.query.name` in `const { name: other } = req.query`."""
        encodable = self.text.encode("utf-8", "replace").decode()
        for match in _TAKEN_APART.finditer(encodable) if self.grammar == "tsx" else ():
            spend()
            row, reach = self.text.count("\n", 0, match.start()), (match.start(), len(self.text))
            for original, alias in _IMPORTED.findall(re.sub(r"=[^,]*", "", match[1])):
                value = f"{match[2]}.{original}"
                self._add(_Definition(alias or original, reach, value, False, True, frozenset({row})))

    def _add_parameters(self) -> None:
        if self.grammar not in _FROM_VISITOR:
            return
        pattern, value = _FROM_VISITOR[self.grammar]
        for match in pattern.finditer(self.text.encode("utf-8", "replace").decode()):
            spend()
            if match["type"].rstrip("?") in _HARMLESS_TYPES:
                continue
            reach = (match.end(), match.end() + HANDLER_CHARACTERS)
            row, name = self.text.count("\n", 0, match.start()), match["name"]
            self._add(_Definition(name, reach, value.format(name=name), False, True, frozenset({row})))

    def _add(self, definition: _Definition) -> None:
        """Store a value; above KEPT drop literals first, because a value that is not fixed must stay."""
        definitions = self.known.setdefault(definition.name, [])
        definitions.append(definition)
        if len(definitions) > KEPT:
            definitions.pop(next((index for index, candidate in enumerate(definitions) if candidate.is_literal), 0))

    def _assigned(self) -> Iterator[tuple[str, "SgNode", "SgNode", bool]]:
        """Yield each name, its node, the node of its value, and whether the value is appended to the previous one."""
        for node in self._nodes(GRAMMAR_KINDS[self.grammar].definitions):
            spend()
            children = node.children()
            operator_index = next((i for i, child in enumerate(children) if child.kind() in _SET | _APPENDED), 0)
            target = next((child for child in children[:operator_index] if child.kind() in _NAME_KINDS), None)
            if target is None or operator_index + 1 >= len(children):
                continue
            # The first name of `value, err := read(name)` gets the call's result.
            name, value = target.text().partition(",")[0].strip("*&() "), children[operator_index + 1]
            if re.fullmatch(r"[$@]{0,2}\w+", name) and self._fits(value):
                yield name, target, value, children[operator_index].kind() in _APPENDED

    def _fits(self, value: "SgNode") -> bool:
        reach = value.range()
        if reach.end.index - reach.start.index > VALUE_CHARACTERS or _FUNCTIONS.search(value.kind()):
            return False
        if _LOADED.match(value.text()):
            return False
        if reach.end.line - reach.start.line > VALUE_ROWS:
            return False
        return reach.start.line == reach.end.line or not re.search(r"//|#|/\*|--", value.text())

    def _parameters(self) -> set[str]:
        lists = self._nodes(GRAMMAR_KINDS[self.grammar].parameters)
        return {word for node in lists for word in re.findall(r"[$@]{0,2}\w+", node.text()[:2_000])}

    def _uses(self, names: set[str]) -> list["SgNode"]:
        return [node for node in self._nodes(GRAMMAR_KINDS[self.grammar].uses) if node.text() in names]

    def _nodes(self, kinds: tuple[str, ...]) -> list["SgNode"]:
        config: Any = {"rule": {"any": [{"kind": kind} for kind in kinds]}}
        return self.root.find_all(config)

    def _define(self, name: str, _target: "SgNode", value: "SgNode", is_appended: bool) -> None:
        if value.kind() == "expression_list" and len(value.children()) == 1:  # Go wraps each value in one
            value = value.children()[0]
        reach = value.range()
        text, rows = self._filled(reach.start.index, reach.end.index)
        promised = _PROMISED.match(text)
        text = (promised[1] or promised[2]) if promised else text
        is_literal = value.kind() in _LITERAL_KINDS and not _is_dynamic(value)
        earlier = self.known.get(name, [])
        if is_appended and earlier:
            text = f"{earlier[-1].value}{_CONCATENATION.get(self.grammar, ' + ')}{text}"
            rows, is_literal = rows | earlier[-1].rows, False
        if is_appended and not earlier:
            return
        is_own = re.search(rf"(?<![\w$@.:\"'/]){re.escape(name)}(?![\w\"'])", text)
        # A value made of the name itself adds nothing, unless it makes the name safe, as in `name = quote(name)`.
        says_nothing = is_own and not (cleaning().search(text) or hiding().search(text))
        if len(text) > VALUE_CHARACTERS or says_nothing:
            return
        is_alias = re.fullmatch(r"[\w.]+", text) is not None and not is_literal
        self._add(_Definition(name, self._scope(value), text, is_literal, is_alias, rows | {reach.start.line}))

    def _scope(self, node: "SgNode") -> tuple[int, int]:
        """Return the offsets of the function around a node, or of the whole text without one."""
        function = next((ancestor.range() for ancestor in node.ancestors() if _SCOPES.search(ancestor.kind())), None)
        return (function.start.index, function.end.index) if function else (0, len(self.text))

    def _filled(self, start: int, end: int) -> tuple[str, frozenset[int]]:
        """Return the source between two offsets as one row, with the edits inside it."""
        pieces, rows, position = [], frozenset[int](), start
        for first, last, text, _, rows_of_edit in self.edits[bisect_right(self.starts, start - 1) :]:
            if first >= position and last <= end:
                pieces += [self.text[position:first], text]
                rows |= rows_of_edit
                position = last
        return " ".join("".join([*pieces, self.text[position:end]]).split("\n")), rows

    def _fill_in(self, use: "SgNode", parameters: set[str]) -> None:
        name, offset, parent = use.text(), use.range().start.index, use.parent()
        chosen = self._chosen(name, offset, parameters)
        if chosen is None or parent is None or not self._is_use(use, parent):
            return
        if _SECRET.search(name) and not chosen.is_alias:
            return  # the name tells a rule more than the value
        value = self._value_for(use, parent, chosen)
        plain = _PLAIN_TEXT.match(value) if value and chosen.is_literal else None
        is_part = plain is not None and parent.kind() in ("template_substitution", "interpolation")
        reach = parent.range() if is_part else use.range()
        value = next(text for text in plain.groups() if text is not None) if plain and is_part else value
        first, last = reach.start.index, reach.end.index
        is_free = not self.edits or self.edits[-1][1] <= first
        if value is not None and is_free and "\n" not in self.text[first:last]:
            rows = frozenset[int]() if chosen.is_literal else chosen.rows
            self.edits.append((first, last, value, use.range().start.line, rows))
            self.starts.append(first)

    def _value_for(self, use: "SgNode", parent: "SgNode", chosen: _Definition) -> str | None:
        """Return the value as it must be written at this place; None where it cannot be inserted."""
        kind, character_before = parent.kind(), self.text[use.range().start.index - 1]
        if kind == "encapsed_string":
            value = chosen.value if chosen.is_literal else f"({chosen.value})"
            return None if character_before == "{" else f'" . {value} . "'
        if "string" in kind and kind != "template_substitution":
            return None
        if use.kind() == "shorthand_property_identifier":
            return f"{chosen.name}: {chosen.value}"
        if chosen.is_alias or chosen.is_literal or _PLAIN_PARENTS.search(kind):
            return chosen.value
        # A variable's name tells more about a method's receiver than the call that made it, except for visitor input
        # and decoded values.
        is_told = visitor_values().search(chosen.value) or hiding().search(chosen.value)
        return None if _RECEIVERS.search(kind) and not is_told else f"({chosen.value})"

    def _chosen(self, name: str, offset: int, parameters: set[str]) -> _Definition | None:
        """Return the last value in the same function, a literal only where the name never holds anything else."""
        definitions = self.known.get(name, [])
        visible = [definition for definition in definitions if definition.scope[0] <= offset < definition.scope[1]]
        changing = [definition for definition in visible if not definition.is_literal]
        if changing:
            last = changing[-1]
            if not self._is_deeper(last, offset):
                return last
            # A branch that sets the name may not run: then a visitor's value from before it still holds.
            visitor_values_before = (
                definition for definition in reversed(changing) if visitor_values().search(definition.value)
            )
            return next(visitor_values_before, None if name in parameters else last)
        return visible[-1] if visible and name not in parameters else None

    def _is_deeper(self, definition: _Definition, offset: int) -> bool:
        """Return whether a value is assigned deeper than it is used, as in a branch that may not run."""
        row = max(definition.rows, default=0)
        starts = self._row_starts
        row_of_use = starts[bisect_right(starts, offset) - 1]
        return _indent(self.text, starts[row]) > _indent(self.text, row_of_use)

    @cached_property
    def _row_starts(self) -> list[int]:
        return [0, *(line_feed.end() for line_feed in re.finditer("\n", self.text))]

    def _is_use(self, use: "SgNode", parent: "SgNode") -> bool:
        if _NOT_A_USE.search(parent.kind()) or parent.kind() == "function_call":
            return parent.kind() == "function_call"
        offset = use.range().start.index
        for name in _NAMING_FIELDS:
            field_node = parent.field(name)
            if field_node is not None and field_node.range().start.index == offset:
                return False
        return True

    def _result(self) -> Expanded:
        if not self.edits:
            return Expanded(self.text)
        grown = len(self.text) + sum(len(text) for _, _, text, _, _ in self.edits)
        if grown > GROWTH * len(self.text) + VALUE_CHARACTERS:
            return Expanded(self.text)
        pieces, position = [], 0
        sources: dict[int, set[int]] = {}
        for first, last, text, row, rows in self.edits:
            pieces += [self.text[position:first], text]
            sources.setdefault(row, set()).update(rows - {row})
            position = last
        return Expanded("".join([*pieces, self.text[position:]]), sources)


_BLANKS = re.compile(r"[ \t]*")


def _indent(text: str, start: int) -> int:
    """Return the indentation of the row that begins at an offset."""
    blanks = _BLANKS.match(text, start)
    return blanks.end() - start if blanks else 0


def _is_dynamic(value: "SgNode") -> bool:
    """Return whether a string has parts that are not fixed."""
    return any(
        "string" not in child.kind() and "escape" not in child.kind() for child in value.children() if child.is_named()
    )
