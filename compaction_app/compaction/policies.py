"""Asking a host's ``POLICY``: code that is not ours, called in a chat turn, which never fails because of it.

It is given a tip and a :class:`Budget` and gives back a :class:`PolicyDecision`, or None to allow. Whatever else it
does (it raises, it is a coroutine, it answers "defer" or False) is logged and counts as allow: the compaction that
the numbers ask for is made.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Coroutine
from typing import Any

from compaction_app.conf import load
from compaction_app.messages.validation import is_storable
from compaction_app.models import ChatMessage
from compaction_app.telemetry import log, log_error
from compaction_app.values import Budget, PolicyDecision

logger = logging.getLogger("compaction_app.opening")

POLICY_ACTIONS = ("allow", "defer", "force")
_CODE = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


def ask_policy(path: str | None, tip: ChatMessage, budget: Budget) -> PolicyDecision:
    """What the policy at ``path`` answers; allow where there is none, or no answer that can be used."""
    if path is None:
        return PolicyDecision()
    try:
        policy = load(path)
        answer = (policy() if isinstance(policy, type) else policy)(tip, budget)
    except Exception as error:
        log_error(logger, error, session=tip.session_id, tip=tip.pk, step="policy", policy=path)
        return PolicyDecision()
    if answer is None:
        return PolicyDecision()
    if wrong := _wrong(answer):
        log(logger, logging.ERROR, "error", step="policy", policy=path, session=tip.session_id, tip=tip.pk, **wrong)
        return PolicyDecision()
    decision: PolicyDecision = answer
    return decision


def code_of(decision: PolicyDecision) -> str:
    """Events hold codes only: a reason in words may quote the conversation."""
    return decision.reason if not decision.reason or _CODE.fullmatch(decision.reason) else "not_a_code"


def _wrong(answer: Any) -> dict[str, str]:
    """What is wrong with an answer, as values of a log line: types and names, none of its words."""
    if isinstance(answer, Coroutine):
        # Nobody will await it, and Python would warn of that.
        answer.close()
    if not isinstance(answer, PolicyDecision):
        return {"answered": type(answer).__name__, "known": PolicyDecision.__name__}
    # Nothing holds a dataclass to its types.
    action: Any = answer.action
    if not isinstance(action, str) or action not in POLICY_ACTIONS:
        word = isinstance(action, str) and _CODE.fullmatch(action)
        shown = action if word else type(action).__name__
        return {"answered": shown, "known": ",".join(POLICY_ACTIONS)}
    for name in ("reason", "prompt_line"):
        text = getattr(answer, name)
        if not isinstance(text, str) or not is_storable(text):
            return {"answered": f"{name}:{type(text).__name__}", "known": "str"}
    return {}
