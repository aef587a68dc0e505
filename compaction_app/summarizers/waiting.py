"""How a caller waits for a model: it blocks, or it awaits.

What a turn or a run does in order is written once, as a coroutine. A synchronous caller runs the same one with calls
that block instead of waiting, so no wrapper blocks a thread while a model works.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Way:
    """Each of these takes a function and its arguments."""

    is_awaited: bool
    #: For a client's own functions.
    call: Callable[..., Awaitable[Any]]
    #: For a whole database step: a transaction belongs to one thread.
    do: Callable[..., Awaitable[Any]]


async def _here(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return function(*args, **options)


BLOCKING = Way(is_awaited=False, call=_here, do=_here)
AWAITED = Way(
    is_awaited=True,
    call=lambda function, *args, **options: function(*args, **options),
    do=lambda function, *args, **options: sync_to_async(function)(*args, **options),
)


def without_waiting(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine that waits for nothing: what it calls blocks, so it runs to its end at once."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    raise RuntimeError("The coroutine waits for an event loop.")
