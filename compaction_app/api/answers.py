"""What an operation may answer, declared once: the schema of each status, and in the OpenAPI document its codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compaction_app.api.fields import ProblemOut
from compaction_app.api.problems import MEANINGS, STATUS, Code

#: Anything may end so.
_ALWAYS = (
    Code.MALFORMED,
    Code.UNAUTHENTICATED,
    Code.FORBIDDEN,
    Code.TOO_LARGE,
    Code.INVALID,
    Code.CONFIGURATION,
    Code.INTERNAL,
    Code.UNAVAILABLE,
)
_CHALLENGE = {
    "WWW-Authenticate": {
        "description": "The HTTP schemes that are taken, such as `Bearer`; not there where only cookies or keys are.",
        "schema": {"type": "string"},
    }
}
_RETRY_AFTER = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}


def answers(
    success: Mapping[int, Any],
    *codes: Code,
    changes: bool = False,
    headers: Mapping[int, Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """``response`` and ``openapi_extra`` of an operation: its own codes, and those that any may answer with.

    ``changes``: it writes, so a request that is signed in by cookie needs the CSRF token. ``headers``: status → name
    of a header that a success has → what it says.
    """
    possible = {*_ALWAYS, *codes, *([Code.CSRF_FAILED] if changes else [])}
    by_status: dict[int, list[Code]] = {}
    for code in Code:
        if code in possible:
            by_status.setdefault(STATUS[code], []).append(code)
    described: dict[int, dict[str, Any]] = {
        status: {"description": " ".join(f"`{code}`: {MEANINGS[code]}" for code in those)}
        for status, those in by_status.items()
    }
    described[STATUS[Code.UNAUTHENTICATED]]["headers"] = _CHALLENGE
    for status in {STATUS[Code.THROTTLED], STATUS[Code.UNAVAILABLE]} & set(described):
        described[status]["headers"] = _RETRY_AFTER
    for status, named in (headers or {}).items():
        described[status] = {
            "headers": {name: {"description": said, "schema": {"type": "string"}} for name, said in named.items()}
        }
    return {
        "response": {**success, **dict.fromkeys(by_status, ProblemOut)},
        "openapi_extra": {"responses": described},
    }
