"""Asking a model for a summary: prompts, the cascade, the client.

``SUMMARIZER`` names one of the two classes here, or one of the host's own.
"""

from compaction_app.summarizers.cascade import ExtractiveSummarizer, OpenAISummarizer

__all__ = ["ExtractiveSummarizer", "OpenAISummarizer"]
