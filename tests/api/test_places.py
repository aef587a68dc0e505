"""An error names the field, and in JSON the place; what a query holds is read as it is written."""

import json

import pytest

from compaction_app.exceptions import InvalidMessage
from compaction_app.messages.validation import check_json
from tests.api.asking import World, problem

pytestmark = pytest.mark.django_db

GOOD = {"role": "user", "content": "x"}
NUL, LONE = "a\x00b", "\ud800"
WRONG = {
    "contains a NUL character at position 1": NUL,
    "contains a lone surrogate at position 0": LONE,
    "contains nan, which is not JSON": float("nan"),
    "contains a number of more than 1024 bits": 10**400,
}


@pytest.mark.parametrize("said", WRONG)
@pytest.mark.parametrize(
    ("place", "around"),
    [
        ("metadata.a[0]", lambda wrong: {"metadata": {"b": [], "a": [wrong]}}),
        ('metadata["a b"].c', lambda wrong: {"metadata": {"a b": {"c": wrong}}}),
        ("content", lambda wrong: {"content": wrong}),
    ],
)
def test_a_messages_field_is_named_with_the_place_in_it(ask, path, said, place, around):
    response = ask.post(path, {**GOOD, **around(WRONG[said])})
    assert problem(response, 422, "invalid_message") == f"{place} {said}."


@pytest.mark.parametrize("said", list(WRONG)[:2])
def test_every_other_bodys_field_is_named(ask, ann, said):
    world, wrong = World(ann), WRONG[said]
    for method, path, field in (
        ("POST", "sessions", "title"),
        ("PATCH", world.path, "system_prompt"),
        ("POST", f"{world.path}/compact", "instructions"),
        ("POST", f"messages/{world.tip.pk}/redact", "replacement"),
    ):
        assert problem(ask(method, path, {field: wrong}), 422, "invalid_message") == f"{field} {said}."


def test_a_key_that_can_not_be_stored_is_told_of_where_it_stands(ask, path):
    detail = problem(ask.post(path, {**GOOD, "metadata": {"a": [{NUL: 1}]}}), 422, "invalid_message")
    assert detail == "metadata.a[0] has a key that contains a NUL character at position 1."
    detail = problem(ask.post(path, {**GOOD, NUL: 1}), 422, "invalid_message")
    assert detail == "a field's name contains a NUL character at position 1."


def test_a_way_that_is_long_is_cut_short():
    deep = NUL
    for _ in range(20):
        deep = [deep]
    with pytest.raises(InvalidMessage, match=r"^metadata\.n(\[0\]){7}… contains a NUL") as caught:
        check_json({"n": deep}, "metadata")
    assert caught.value.field == "metadata"
    with pytest.raises(InvalidMessage, match=r'^metadata\["x{40}…"\] contains a NUL'):
        check_json({"x" * 1000: NUL}, "metadata")


def test_a_number_of_hundreds_of_digits_is_told_of_where_it_stands(ask, path):
    for digits in (400, 401):
        raw = json.dumps({**GOOD, "metadata": {"n": "?"}}).replace('"?"', "9" * digits).encode()
        detail = problem(ask.post(path, raw=raw), 422, "invalid_message")
        assert detail == "metadata.n contains a number of more than 1024 bits."
        raw = json.dumps({**GOOD, "parent_id": "?"}).replace('"?"', "-" + "9" * digits).encode()
        assert problem(ask.post(path, raw=raw), 422, "invalid_message").startswith("parent_id ")


class TestQueries:
    @pytest.mark.parametrize("limit", ["1.0", "%2B5", "1_0", "%D9%A1", "1e1", ""])
    def test_a_number_has_digits_only(self, ask, limit):
        assert "query.limit" in problem(ask.get(f"sessions?limit={limit}"), 422, "invalid")

    def test_a_reserve_too(self, ask, ann):
        detail = problem(ask.get(f"messages/{World(ann).tip.pk}/context?reserved_tokens=1_0"), 422, "invalid")
        assert "query.reserved_tokens" in detail

    def test_a_parameter_is_given_once(self, ask):
        detail = problem(ask.get("sessions?limit=1&limit=2"), 422, "invalid")
        assert detail == "query.limit: It is given more than once."
        assert ask.get("sessions?limit=1").status_code == 200

    def test_a_models_name_is_read_as_utf_8(self, ask, ann):
        figures = ask.get(f"messages/{World(ann).tip.pk}/context?model=%C3%B8").json()["figures"]
        assert figures["model"] == "ø"


@pytest.mark.parametrize("number", [0, 2**63, 10**30])
def test_a_number_that_can_be_no_id_is_one_that_nobody_has(ask, world, number):
    for path in (f"messages/{number}", f"messages/{number}/context", f"runs/{number}", f"messages/{number}/branch"):
        problem(ask.get(path), 404, "not_found")
        assert ask.get(path).content == ask.get(path.replace(f"/{number}", f"/{10**9}")).content
    for generation in (number, 2, 2**40):
        problem(ask.get(f"{world.path}/compactions/{generation}"), 404, "not_found")
    problem(ask("DELETE", f"summaries/{number}"), 404, "not_found")
    problem(ask.post(f"messages/{number}/redact", {"replacement": 1}), 404, "not_found")


def test_nothing_given_changes_nothing_not_even_when_it_was_used(ask, world):
    before = ask.get(world.path).json()
    assert ask("PATCH", world.path, {}).json() == before
    assert ask.get(world.path).json() == before
