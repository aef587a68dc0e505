"""How a caller waits for a model: it blocks, or it awaits.

What a turn or a run does in order is written once, as a coroutine. A synchronous caller runs the same one with calls
that block instead of waiting, so no wrapper blocks a thread while a model works.
"""

import asyncio
import concurrent.futures
import importlib
import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

Result = TypeVar("Result")
P = ParamSpec("P")

#: Its locks cannot be shared with a real thread, which a model's call needs (see :func:`replaced_threads`).
NO_EVENTLET = "eventlet has replaced Python's threads: asking a model would stop the database work of other greenlets."
USE_GEVENT = "Use Celery's prefork pool, or gevent (-P gevent)."


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


def takes_the_arguments_of(other: Callable[P, Any]) -> Callable[[Callable[..., Result]], Callable[P, Result]]:
    """For type checkers and for :func:`help`: the function has the signature of another one."""

    def with_signature(function: Any) -> Any:
        function.__signature__ = inspect.signature(other)
        return function

    return with_signature


def run_in_loop(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run one call to its end on an event loop of its own.

    Synchronous callers need a loop too: cancelling a task closes its connection at the deadline. A synchronous
    client can only time out between two bytes, and closing it from another thread neither wakes a blocked read nor
    is safe under TLS.
    """
    threads: Any = concurrent.futures
    if replaced_threads() == "gevent":
        # Its executor starts real threads, and lets the other greenlets work until one is done.
        threads = importlib.import_module("gevent.threadpool")
    elif not is_loop_running():
        return asyncio.run(coroutine)
    # Called synchronously from asynchronous code, such as a notebook, where a second loop needs a second thread.
    with threads.ThreadPoolExecutor(max_workers=1) as pool:
        # In a copy of this context, so that a span of the client is a child of the task's.
        result: Result = pool.submit(copy_context().run, asyncio.run, coroutine).result()
    return result


def replaced_threads() -> str:
    """The library that has replaced threads by greenlets: "gevent", "eventlet", or "" for real threads.

    Greenlets share one thread. A loop that runs in it counts as running in each of them, and Django's ORM refuses to
    work where a loop runs.
    """
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent and gevent.is_module_patched("threading"):
        return "gevent"
    return "eventlet" if eventlet and eventlet.is_monkey_patched("thread") else ""


def is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
