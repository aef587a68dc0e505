"""Asking a model for a summary: prompts, the cascade, the client.

``BACKEND`` of an entry in ``SUMMARIZERS`` names one of the two classes here, or a host's own subclass of
:class:`Summarizer`.
"""

from compaction_app.summarizers.base import Summarizer
from compaction_app.summarizers.cascade import OpenAISummarizer
from compaction_app.summarizers.extractive import ExtractiveSummarizer

__all__ = ["ExtractiveSummarizer", "OpenAISummarizer", "Summarizer"]
