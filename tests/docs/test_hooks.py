"""docs/hooks.md: its examples are one file that works, and it names every hook that there is."""

import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from compaction_app import chat
from compaction_app.conf import DEFAULTS, SITE_ONLY, find_problems
from compaction_app.exceptions import CompactionFailed
from compaction_app.models import CompactionEvent, CompactionRun
from tests.builders import grow
from tests.conftest import REPOSITORY

TEXT = (REPOSITORY / "docs" / "hooks.md").read_text()
MODULE = "mysite.hooks"
RECAP = "## Recap\n\nAll that was asked was answered, and nothing of it is open."


@pytest.fixture
def hooks(settings: Any) -> Iterator[ModuleType]:
    """The file that the examples make, and the settings that name it."""
    module = ModuleType(MODULE)
    sys.modules |= {"mysite": ModuleType("mysite"), MODULE: module}
    for snippet in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(snippet, vars(module))  # our own document
    settings.COMPACTION = {**vars(module)["COMPACTION"], "CONTEXT_WINDOW": 10_000, "COOLDOWN_SECONDS": 0}
    yield module
    del sys.modules["mysite"], sys.modules[MODULE]


def answer(hooks: ModuleType, **parts: Any) -> list[tuple[Any, ...]]:
    """Have the gateway of the example answer so; what it is asked."""
    asked: list[tuple[Any, ...]] = []

    def ask_our_gateway(*texts: str, tokens: int, seconds: float) -> dict[str, Any]:
        asked.append((*texts, tokens, seconds))
        return {"status": 200, "text": RECAP, "ended": "stop", **parts}

    vars(hooks)["ask_our_gateway"] = ask_our_gateway
    return asked


@pytest.mark.pure
def test_every_key_that_names_code_is_there_and_listed() -> None:
    problems = {key: find_problems({key: "nowhere.at_all"})[:1] for key in DEFAULTS}
    named = {key for key, found in problems.items() if found and "cannot be imported" in found[0].msg}
    assert named <= SITE_ONLY
    assert named == {"TOKEN_COUNTER", "REDACTOR", "POLICY", "PERMISSION", "ATTACHMENT_URL", "ENQUEUE"}
    assert all(f"[`{key}`](" in TEXT for key in named)
    headings = {line[3:].lower() for line in TEXT.splitlines() if line.startswith("## ")}
    assert set(re.findall(r"\]\(#([a-z_]+)\)", TEXT)) == headings
    assert "(docs/hooks.md)" in (REPOSITORY / "README.md").read_text()


@pytest.mark.django_db(transaction=True)
class TestExamples:
    def test_each_of_them_is_called(self, hooks: ModuleType, settings: Any) -> None:
        assert find_problems(settings.COMPACTION) == []
        asked = answer(hooks)
        tip = grow(chat.start_session(), None, "u a " * 40)[-1]
        tip = chat.append_message(tip.session, tip, role="user", content="Tell Project Heron that the word is abc.")
        assert tip.token_count == 4 + 8, "by the counter of words"
        assert "Project X" in chat.get_context(tip).messages[-1].content
        run = chat.compact(tip)
        assert (run.status, run.summarizer_model) == ("succeeded", "house-1")
        assert "Heron" not in str(asked)
        assert chat.find_summary(tip).content.startswith(RECAP)  # type: ignore[union-attr]

    def test_an_attachment_is_sent_with_the_address_that_it_has_now(self, hooks: ModuleType) -> None:
        picture = {"type": "image", "url": "uploads/1.png"}
        tip = chat.append_message(chat.start_session(), role="user", attachments=[picture])
        [part] = chat.get_context(tip).to_openai()[-1]["content"]
        assert part["image_url"]["url"] == "https://files.example.org/uploads/1.png?signature=fresh"

    def test_a_busy_gateway_puts_a_run_off_and_fails_who_waits(self, hooks: ModuleType) -> None:
        """Anthropic says so with a status of its own."""
        body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        answer(hooks, status=529, body=body, headers={"retry-after": "20"})
        tip = grow(chat.start_session(), None, "u a " * 40)[-1]
        with pytest.raises(CompactionFailed):
            chat.compact(tip)
        [run] = CompactionRun.objects.all()
        assert (run.error_code, run.error_detail) == ("provider_error", "HTTP 529: Overloaded")

    def test_the_policy_defers_and_forces(self, hooks: ModuleType, settings: Any) -> None:
        answer(hooks)
        tip = grow(chat.start_session(metadata={"in_checkout": True}), None, "u a " * 40)[-1]
        assert chat.request_compaction(tip) is None
        [event] = CompactionEvent.objects.filter(kind="suppressed")
        assert event.payload == {"reason": "policy", "code": "in_checkout"}
        settings.COMPACTION = {**settings.COMPACTION, "CONTEXT_WINDOW": 7_000}
        tip = grow(chat.start_session(), None, "u a " * 40)[-1]
        run = chat.request_compaction(tip)
        assert run is not None
        assert run.policy_line == "Keep every order number."
