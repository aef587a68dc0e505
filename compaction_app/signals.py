"""Django signals that a host can connect receivers to.

``compaction_started`` (``sender`` :class:`CompactionRun`, ``run``, ``using``)
    A worker started a run: its branch is read and planned, the model is called next. Sent at each attempt
    (``run.attempts``).
``compaction_finished`` (``sender`` :class:`CompactionRun`, ``run``, ``using``)
    A run ended: ``run.status`` is ``succeeded``, with ``run.summary`` (an extract instead of a model's, where
    ``run.error_code`` says why no model wrote one), or ``skipped``, with ``run.skip_reason``.
``compaction_failed`` (``sender`` :class:`CompactionRun`, ``run``, ``using``)
    A run failed: ``run.error_code`` says why. Not sent for an attempt that is tried again.
``summary_retired`` (``sender`` :class:`ChatMessage`, ``session_id``, ``summary_ids``, ``reason``, ``using``)
    Summaries were taken out of use together: by a person, or because a message they may contain was redacted.

``using`` is the database alias. Each signal is sent after the commit, with nothing locked, in the thread that did the
work: a worker, or a request where the compaction ran inline. A receiver that raises is logged (by Django, on
``django.dispatch``) and changes nothing; a slow one delays its worker.

``text_erased`` (``sender`` :class:`ChatMessage`, ``session_id``, ``message_ids``, ``using``)
    Messages were redacted; ``message_ids`` are theirs and those of all messages below. For what you made of the texts:
    it is sent within the transaction, with the session locked, and a receiver that raises undoes the redaction. What
    is deleted takes the rows that point at it along.
"""

from django.dispatch import Signal

compaction_started = Signal()
compaction_finished = Signal()
compaction_failed = Signal()
summary_retired = Signal()
text_erased = Signal()
