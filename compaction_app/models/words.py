"""What people read for a stored code: its own words, in the language of the request."""

from __future__ import annotations

from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy

from compaction_app.values import RunStatus

#: Codes that are not called as they are stored.
_OTHERWISE: dict[str, str] = {RunStatus.READY: "waiting", "generation": "compaction"}


def words(code: str) -> str:
    """``no_progress`` → "no progress"; a code of a host's own stays as it is but for its underscores."""
    return gettext(_OTHERWISE.get(code, code.replace("_", " ")))


def lazy_words(code: str) -> Any:
    """The same for a model's choices."""
    return capfirst(gettext_lazy(_OTHERWISE.get(code, code.replace("_", " "))))
