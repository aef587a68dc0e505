"""What the schemas of the API share: strict bodies, ids, numbers and pages.

A page starts after the last row of the page before, which its cursor names: the thousandth costs what the first does,
and rows that are added or deleted meanwhile neither repeat nor hide others.
"""

from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, TypeVar

from ninja import Query, Schema
from pydantic import BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from compaction_app.api.codes import Code, Problem
from compaction_app.messages.validation import MAX_ID, as_id

#: The largest whole number that every JSON parser reads exactly; far more than any figure here.
MAX_NUMBER = 2**53 - 1


def whole(value: Any) -> Any:
    """Accept 7.0 for 7: JSON has one kind of number, and some clients write it so."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _digits(value: Any) -> Any:
    """Refuse texts that pydantic would accept as whole numbers: "+5", "1.0", "1_0"."""
    if isinstance(value, str) and not (value.isascii() and value.removeprefix("-").isdecimal()):
        raise PydanticCustomError("digits", "Input should be a whole number, in digits")
    return value


#: A whole number in a query.
InQuery = BeforeValidator(_digits)
# The limits come first: after the validator they would be missing from the OpenAPI document.
Id = Annotated[int, Field(ge=1, le=MAX_ID), BeforeValidator(whole)]
#: May be negative: with the mode off, the available tokens may be less than zero.
Number = Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER), BeforeValidator(whole)]
ShortText = Annotated[str, Field(max_length=255)]
RoleName = Literal["system", "developer", "user", "assistant", "tool"]
JsonObject = dict[str, Any]


class Body(Schema):
    """The body of a request. Unknown fields are refused, and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


def example(**fields: Any) -> ConfigDict:
    """The configuration of a schema whose example in the OpenAPI document is not made of its fields' own."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


Item = TypeVar("Item")


class Page(Schema, Generic[Item]):
    """One page of a list. There is no total: on a large table counting would cost more than the page."""

    items: list[Item]
    next_cursor: str | None = Field(description="Send it as `cursor` to get the next page. Null: this is the last one.")


Limit = Annotated[int, InQuery, Query(50, ge=1, le=200, description="Items per page.")]
#: Shared by every list, whatever its cursors look like.
CURSOR: dict[str, Any] = {
    "max_length": 100,
    "description": "`next_cursor` of the previous page. Leave it out for the first page.",
}
Cursor = Annotated[str | None, Query(None, examples=["120"], **CURSOR)]


def page(rows: Any, limit: int, cursor_of: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the first rows of a query as a :class:`Page`. One more row shows whether there is a next page."""
    found = list(rows[: limit + 1])
    return {"items": found[:limit], "next_cursor": str(cursor_of(found[limit - 1])) if len(found) > limit else None}


def parse_cursor(cursor: str) -> int:
    """Return the id, depth or generation that a cursor names."""
    if (found := as_id(cursor)) is None:
        raise invalid_cursor()
    return found


def invalid_cursor() -> Problem:
    return Problem(Code.INVALID, "query.cursor: Use the next_cursor of the previous page unchanged.")
