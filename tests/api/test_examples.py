"""Each schema of the OpenAPI document is shown with an example that it allows, and the examples tell one story."""

import jsonschema_rs
import pytest

from compaction_app.api import examples

pytestmark = pytest.mark.pure


def test_every_schema_has_one_and_it_holds(document):
    schemas = document["components"]["schemas"]
    assert len(schemas) > 20
    for name, schema in schemas.items():
        assert schema.get("examples"), name
        whole = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        validator = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
        for example in schema["examples"]:
            validator.validate(example)
            # One that leaves a field out would not show what an answer has.
            if not name.endswith(("In", "Patch", "ProblemOut")):
                assert set(schema.get("properties", ())) <= (set(example) if isinstance(example, dict) else set()), name


def test_the_figures_of_the_context_add_up():
    figures, messages = examples.CONTEXT["figures"], examples.CONTEXT["messages"]
    tokens = {message["origin"]: 0 for message in messages}
    for message in messages:
        tokens[message["origin"]] += message["tokens"]
    assert figures["tokens"] == sum(tokens.values())
    assert figures["history_tokens"] == figures["tokens"] - tokens["system"]
    assert figures["available_tokens"] == figures["window"] - figures["reserved_tokens"]
    assert figures["threshold"] == int(figures["available_tokens"] * 0.75)
    assert [message["content"] for message in messages] == [sent["content"] for sent in examples.CONTEXT["openai"]]


def test_the_ids_are_those_of_one_conversation():
    run, figures = examples.RUN, examples.FIGURES
    assert examples.COMPACTED["summary_id"] == figures["summary_id"] == examples.SUMMARY_NODE["id"]
    assert run["cutoff_id"] == figures["cutoff_id"] == examples.SUMMARY_NODE["cutoff_id"]
    assert run["anchor_id"] == examples.SUMMARY_NODE["parent_id"]
    assert examples.REPLY_IN["parent_id"] == figures["tip_id"] == examples.MESSAGE["id"]
    assert run["run_id"] == examples.OPEN_RUN["run_id"]
