"""Asking a model for a summary: prompts, the cascade, the client.

``BACKEND`` of an entry in ``SUMMARIZERS`` names one of the two classes here, or a host's own subclass of
:class:`Summarizer`.
"""

from compaction_app.summarizers.base import ExtractiveSummarizer, Summarizer
from compaction_app.summarizers.cascade import OpenAISummarizer

__all__ = ["ExtractiveSummarizer", "OpenAISummarizer", "Summarizer"]
