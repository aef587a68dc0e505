"""A process that is measured, and the pipe over which it is told what to do.

Each system runs in a process of its own (a peer in an environment of its own), and is asked over a pipe, a few calls at
a time, in turn with the others: so a slow moment of the machine affects all of them. The clock is read in the system's
own process, around each call, so that the pipe costs nothing. Uses the standard library alone, since a peer's
environment has neither Django nor this app.

A request and its answer are a line of JSON each::

    {"do": "about"}                                                     → {"versions": {...}, "durability": "..."}
    {"do": "grow", "size": 1000, "branches": 1}                         → {"seconds": 1.2}
    {"do": "time", "call": "read", "size": 1000, "branches": 1, "times": 5}  → {"seconds": [...]}
    {"do": "count", "call": "read", "size": 1000, "branches": 1}        → {"statements": 2, "rows": 64}
    {"do": "end"}                                                       → no answer, the process ends

Anything else that a system prints goes to standard error. An error is answered as ``{"error": "..."}``.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class System(ABC):
    """What can be asked of a system. A conversation is named by its size and its number of branches."""

    def about(self) -> dict[str, Any]:
        """Versions of its packages, and what it waits for at a commit."""
        return {"versions": {}, "durability": ""}

    @abstractmethod
    def grow(self, size: int, branches: int) -> None:
        """Store a conversation of ``size`` messages on its first branch, and one more for writing."""

    @abstractmethod
    def calls(self, size: int, branches: int) -> dict[str, Callable[[], Any]]:
        """The calls that can be timed, by name; each may be made any number of times."""

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        """Statements and rows of a call; an empty dict if they cannot be counted."""
        call()
        return {}


def message(number: int) -> dict[str, str]:
    """The message with this number, beginning with 0: the same in every system."""
    return {"role": "assistant" if number % 2 else "user", "content": f"message {number} " + "word " * 20}


def serve(system: System) -> None:
    """Answer requests from standard input until ``end`` or its end."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is not an answer
    made: dict[tuple[int, int], dict[str, Callable[[], Any]]] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "end":
            break
        try:
            answer = _answer(system, request, made)
        except Exception as error:  # told to the process that asked, which decides
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)


def _answer(
    system: System, request: dict[str, Any], made: dict[tuple[int, int], dict[str, Callable[[], Any]]]
) -> dict[str, Any]:
    if request["do"] == "about":
        return system.about()
    size, branches = request["size"], request["branches"]
    if request["do"] == "grow":
        started = time.perf_counter()
        system.grow(size, branches)
        return {"seconds": time.perf_counter() - started}
    if (size, branches) not in made:
        made[size, branches] = system.calls(size, branches)
    call = made[size, branches][request["call"]]
    if request["do"] == "count":
        return system.count(call)
    seconds = []
    for _ in range(request["times"]):
        started = time.perf_counter()
        measured = call()
        taken = time.perf_counter() - started
        # A call that prepares something first says itself how long the rest took.
        seconds.append(measured if isinstance(measured, float) else taken)
    return {"seconds": seconds}
