"""Each example in the OpenAPI document is one that its schema allows, and what is sent has one whole."""

import jsonschema_rs
import pytest

pytestmark = pytest.mark.pure


def shown(schema, path):
    """Every schema below this one that has examples."""
    if isinstance(schema, dict):
        if isinstance(schema.get("examples"), list):
            yield path, schema
        for key, part in schema.items():
            if key not in ("examples", "enum"):
                yield from shown(part, f"{path}/{key}")


def test_each_holds(document):
    schemas = document["components"]["schemas"]
    found = [pair for name, schema in schemas.items() for pair in shown(schema, name)]
    assert len(found) > 70
    for path, schema in found:
        whole = {**schema, "components": document["components"]}
        validator = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
        for example in schema["examples"]:
            assert validator.is_valid(example), path


def test_every_body_has_one_that_can_be_sent(document):
    bodies = [
        operation["requestBody"]["content"]["application/json"]["schema"]
        for methods in document["paths"].values()
        for operation in methods.values()
        if "requestBody" in operation
    ]
    assert len(bodies) == 6
    for schema in bodies:
        [reference] = [part["$ref"] for part in schema.get("anyOf", [schema]) if "$ref" in part]
        assert document["components"]["schemas"][reference.rpartition("/")[2]]["examples"], reference


def test_the_figures_of_a_context_add_up(document):
    properties = document["components"]["schemas"]["Figures"]["properties"]
    figures = {name: field["examples"][0] for name, field in properties.items() if "examples" in field}
    assert figures["available_tokens"] == figures["window"] - figures["reserved_tokens"]
    assert figures["threshold"] == int(figures["available_tokens"] * 0.75)
    assert figures["history_tokens"] < figures["tokens"] < figures["available_tokens"]
