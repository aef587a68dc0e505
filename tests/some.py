"""Of a family of values, which of them ``make test`` tries."""

from collections.abc import Iterable
from typing import Any

import pytest


def some(values: Iterable[Any], *few: Any) -> list[Any]:
    """All of them; ``make test`` tries those named in ``few``, and ``make test-all`` the others, too."""
    return [pytest.param(one, marks=[] if one in few else pytest.mark.long) for one in values]
