"""What the schemas of the API share: strict bodies, ids, numbers and examples."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

#: The largest value of the database's id column.
MAX_ID = 2**63 - 1
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
