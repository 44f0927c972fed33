"""As much of JSON Schema as the schemas of the mirror use."""

from __future__ import annotations

from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
KNOWN = {
    *("$ref", "$defs", "$schema", "anyOf", "default", "description", "enum", "format", "items", "properties"),
    *("required", "title", "type", "additionalProperties"),
}


def misfits(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str = "$") -> list[str]:
    """Where the value does not fit the schema. Raises for a word of JSON Schema that is not known here."""
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        return misfits(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, at)
    if "anyOf" in schema:
        found = [misfits(value, one, root, at) for one in schema["anyOf"]]
        return [] if [] in found else found[0]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{at}: {value!r}"]
    if "type" in schema:
        is_boolean = isinstance(value, bool) and schema["type"] != "boolean"
        fits = isinstance(value, TYPES[schema["type"]]) and not is_boolean
        if not fits:
            return [f"{at}: {value!r:.40} is no {schema['type']}"]
    wrong = [f"{at}.{name} is missing" for name in schema.get("required", ()) if name not in value]
    if schema.get("type") == "object":
        for name, inner in value.items():
            rest = schema.get("additionalProperties", {})
            wrong += misfits(inner, schema.get("properties", {}).get(name, rest), root, f"{at}.{name}")
    if isinstance(value, list):
        for number, inner in enumerate(value):
            wrong += misfits(inner, schema.get("items", {}), root, f"{at}[{number}]")
    return wrong
