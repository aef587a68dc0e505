"""No transaction and no database connection is held while a model is called (rule 8 of the design)."""

from __future__ import annotations

from django.db import connections

from compaction_app.exceptions import DurableTransactionRequired


def require_no_transaction(using: str) -> None:
    """Claims and commits are durable, and no transaction may wait for a model (rule 8)."""
    if connections[using].in_atomic_block:
        raise DurableTransactionRequired(
            "This calls a model and must not run inside transaction.atomic(). With ATOMIC_REQUESTS, decorate the "
            "view with transaction.non_atomic_requests, or use request_compaction, which works in the background."
        )


def give_back_connection(using: str) -> None:
    """Close this thread's connection (a pool takes it back): none is held while a model is called."""
    if not connections[using].in_atomic_block:
        connections[using].close()
