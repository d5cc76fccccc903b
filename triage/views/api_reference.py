"""The API's own description, an OpenAPI document, as a page reads it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter or a field: `kind` says type and range in words, `shape` names the schema it holds ("": none)."""

    name: str
    kind: str
    shape: str
    needed: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class Answer:
    """One status with what it carries; `shape` names the schema ("": no body, or one of another kind)."""

    status: str
    phrase: str
    media: str
    shape: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One method at one address; `body` names the schema of what is sent ("": nothing)."""

    anchor: str
    method: str
    path: str
    summary: str
    meaning: str
    body: str
    fields: tuple[Field, ...]
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A JSON object with its fields."""

    name: str
    meaning: str
    fields: tuple[Field, ...]


def operations(document: Document) -> tuple[Operation, ...]:
    """Every operation, in the document's order."""
    return tuple(
        _operation(method, path, told)
        for path, methods in document["paths"].items()
        for method, told in methods.items()
    )


def shapes(document: Document) -> tuple[Shape, ...]:
    """Every object that an operation takes or gives, by name."""
    found = document["components"]["schemas"].items()
    return tuple(_shape(name, schema) for name, schema in sorted(found) if "properties" in schema)


def _operation(method: str, path: str, told: Mapping[str, Any]) -> Operation:
    sent = next(iter(told.get("requestBody", {}).get("content", {}).values()), {})
    return Operation(
        anchor=told["operationId"],
        method=method.upper(),
        path=path,
        summary=told["summary"],
        meaning=told.get("description", ""),
        body=_named(sent.get("schema", {})),
        fields=tuple(_parameter(one) for one in told.get("parameters", ())),
        answers=tuple(_answers(told["responses"])),
    )


def _parameter(told: Mapping[str, Any]) -> Field:
    schema = told["schema"]
    return Field(told["name"], _kind(schema), _named(schema), told["required"], told.get("description", ""))


def _answers(told: Mapping[str, Any]) -> Iterator[Answer]:
    for status, answer in told.items():
        media, content = next(iter(answer.get("content", {}).items()), ("", {}))
        yield Answer(str(status), HTTPStatus(int(status)).phrase, media, _named(content.get("schema", {})))


def _shape(name: str, schema: Mapping[str, Any]) -> Shape:
    needed = schema.get("required", ())
    fields = (
        Field(field, _kind(told), _named(told), field in needed, told.get("description", ""))
        for field, told in schema["properties"].items()
    )
    return Shape(name, schema.get("description", ""), tuple(fields))


def _named(schema: Mapping[str, Any]) -> str:
    """The schema that this one is, or is a list or a choice of."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    inner = [one for one in (schema.get("items"), *_choices(schema)) if one]
    return next((name for one in inner if (name := _named(one))), "")


def _kind(schema: Mapping[str, Any]) -> str:
    if choices := _choices(schema):
        return " or ".join(dict.fromkeys(_kind(one) for one in choices))
    if "enum" in schema:
        return ", ".join(str(value) or "empty" for value in schema["enum"])
    if "$ref" in schema:
        return "object"
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}{_range(schema, 'minItems', 'maxItems')}"
    words = schema.get("format") or schema.get("type") or "any value"
    return f"{words}{_range(schema, 'minimum', 'maximum')}{_range(schema, 'minLength', 'maxLength', ' characters')}"


def _choices(schema: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return schema.get("anyOf") or schema.get("allOf") or ()


def _range(schema: Mapping[str, Any], low: str, high: str, unit: str = "") -> str:
    match schema.get(low), schema.get(high):
        case None, None:
            return ""
        case least, None:
            return f", at least {least:,}{unit}"
        case None, most:
            return f", at most {most:,}{unit}"
        case least, most:
            return f", {least:,} to {most:,}{unit}"
    return ""
