"""What the schemas share: strict bodies, ids as the database holds them, pages."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from ninja import Schema
from pydantic import BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from compaction_app.api import examples
from compaction_app.api.problems import Code

#: The largest that the database's id column holds.
MAX_ID = 2**63 - 1
#: The largest whole number that every reader of JSON takes; far more than any figure here.
MAX_NUMBER = 2**53 - 1
SHORT_TEXT = 255


def whole(value: Any) -> Any:
    """JSON has one kind of number: 7.0 is the whole number 7, and some clients write it so."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _digits(value: Any) -> Any:
    """A query has texts: of those that Python reads as whole numbers ("+5", "1.0", "1_0") only digits are one."""
    if isinstance(value, str) and not (value.isascii() and value.removeprefix("-").isdecimal()):
        raise PydanticCustomError("digits", "Input should be a whole number, in digits")
    return value


#: A whole number in a query.
InQuery = BeforeValidator(_digits)
# The limits first: put around the validator they would not be in the OpenAPI document.
Id = Annotated[int, Field(ge=1, le=MAX_ID), BeforeValidator(whole)]
#: What is available may be less than nothing where the mode is off.
Number = Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER), BeforeValidator(whole)]
ShortText = Annotated[str, Field(max_length=SHORT_TEXT)]
RoleName = Literal["system", "developer", "user", "assistant", "tool"]
JsonObject = dict[str, Any]

Item = TypeVar("Item")


class Body(Schema):
    """What a client sends: every field known, every type as it is written."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _show_a_page(schema: dict[str, Any], page: Any) -> None:
    """With what its items are shown with."""
    items = page.model_fields["items"].annotation.__args__[0].model_config["json_schema_extra"]["examples"]
    schema["examples"] = [{"items": items, "next_cursor": None}]


class Page(Schema, Generic[Item]):
    """A part of a list. It is not counted: at a million rows a count would cost more than the page."""

    model_config = ConfigDict(json_schema_extra=_show_a_page)

    items: list[Item]
    next_cursor: str | None = Field(description="Send it as `cursor` to go on; null: this was the last page.")


class ProblemOut(Schema):
    """Every error has this shape."""

    model_config = examples.shown(examples.NOT_FOUND, examples.OPEN_RUN)

    code: Code = Field(description="What went wrong, for programs.")
    detail: str = Field(description="What went wrong, for people.")
    run_id: int | None = Field(
        default=None, description="With `open_run`: the run in the way, for `GET runs/{id}`; else left out."
    )
