"""What the schemas share: strict bodies, ids as the database holds them, pages."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from ninja import Schema
from pydantic import BeforeValidator, ConfigDict, Field

from compaction_app.api.problems import Code

#: The largest that the database's id column holds.
MAX_ID = 2**63 - 1
#: The largest whole number that every reader of JSON takes; far more than any figure here.
MAX_NUMBER = 2**53 - 1
SHORT_TEXT = 255


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 7.0 is the whole number 7, and some clients write it so."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# The limits first: put around the validator they would not be in the OpenAPI document.
Id = Annotated[int, Field(ge=1, le=MAX_ID), BeforeValidator(_whole)]
#: What is available may be less than nothing where the mode is off.
Number = Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER), BeforeValidator(_whole)]
ShortText = Annotated[str, Field(max_length=SHORT_TEXT)]
RoleName = Literal["system", "developer", "user", "assistant", "tool"]
JsonObject = dict[str, Any]

Item = TypeVar("Item")


class Body(Schema):
    """What a client sends: every field known, every type as it is written."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Page(Schema, Generic[Item]):
    """A part of a list. It is not counted: at a million rows a count would cost more than the page."""

    items: list[Item]
    next_cursor: str | None = Field(description="Send it as `cursor` to go on; null: this was the last page.")


class ProblemOut(Schema):
    """Every error has this shape."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"code": "not_found", "detail": "There is no such thing."}]}
    )

    code: Code = Field(description="What went wrong, for programs.")
    detail: str = Field(description="What went wrong, for people.")
