from typing import Any

import pytest
from django.contrib.auth import get_user_model

from compaction_app import chat
from compaction_app.models import ChatSession


@pytest.fixture
def owner() -> Any:
    return get_user_model().objects.create_user("ann")


@pytest.fixture
def session(owner: Any) -> ChatSession:
    return chat.start_session(owner=owner)
