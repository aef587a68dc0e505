"""Code of a host's, named in its settings: redactors and a policy."""

from typing import Any

from compaction_app.models import ChatMessage
from compaction_app.values import PolicyDecision

KEY = "sk-proj-Zm9vYmFyMTIzNDU2Nzg5MA"


def hide_keys(text: str) -> str:
    return text.replace(KEY, "[key]")


def hide_keys_otherwise(text: str) -> str:
    return text.replace(KEY, "[a key]")


def ask_for_prices(tip: ChatMessage, budget: Any) -> PolicyDecision:
    return PolicyDecision(action="force", prompt_line="Prices stay in euros.")
