"""Asking a model for a summary: prompts, and the cascade of models.

``BACKEND`` of an entry in ``SUMMARIZERS`` names one of the two classes here, or a host's own subclass of
:class:`Summarizer`.
"""

from compaction_app.summarizers.base import ExtractiveSummarizer, Summarizer, failure_of
from compaction_app.summarizers.openai import OpenAISummarizer

__all__ = ["ExtractiveSummarizer", "OpenAISummarizer", "Summarizer", "failure_of"]
