"""What a type checker says of a host's code, with and without the plugin that teaches mypy about Django's models."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.pure]

REPOSITORY = Path(__file__).parent.parent

#: A line that mypy must refuse ends with the code of the error.
HOST = """
from typing import assert_type

from openai.types.chat import ChatCompletionChunk

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.values import PolicyDecision, Role, Trigger


def turn(session: ChatSession, tip: ChatMessage) -> None:
    chat.append_message(session, tip, role="user", content="Hello")
    chat.append_message(session, tip, role=Role.USER)
    chat.append_message(session, tip, role="usr")  # refused: arg-type
    chat.request_compaction(tip, trigger="manual")
    chat.request_compaction(tip, trigger=Trigger.OVERFLOW)
    chat.request_compaction(tip, trigger="by hand")  # refused: arg-type
    run = chat.compact(tip)
    assert_type(run, CompactionRun)
    for chunk in chat.stream(tip):
        assert_type(chunk, ChatCompletionChunk)
        chunk.choices[0].delta.contents  # refused: attr-defined


async def turn_awaited(session: ChatSession, tip: ChatMessage) -> None:
    await chat.aappend_message(session, tip, role="assistant", content="Hi")
    await chat.aappend_message(session, tip, role="robot")  # refused: arg-type
    async with chat.astream(tip) as reply:
        async for chunk in reply:
            assert_type(chunk, ChatCompletionChunk)


def decide() -> PolicyDecision:
    PolicyDecision(action="wait")  # refused: arg-type
    return PolicyDecision(action="defer", reason="busy_hour")


def read(session: ChatSession) -> int:
    newest = session.runs.order_by("-id").first()
    if newest is not None:
        assert_type(newest, CompactionRun)
    ChatSession.objects.filter(title="Trip").count()
    session.mesages.count()  # refused: attr-defined
    return int(session.messages.count() + session.events.count())
"""


@pytest.mark.parametrize("plugins", ["mypy_django_plugin.main", ""])
def test_wrong_words_are_refused(tmp_path: Path, plugins: str) -> None:
    (tmp_path / "host.py").write_text(HOST)
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\nplugins = {plugins}\ndisallow_subclassing_any = False\n"
        # A checker reports nothing of installed packages.
        "[mypy-compaction_app.*]\nignore_errors = True\n"
        "[mypy.plugins.django-stubs]\ndjango_settings_module = tests.settings\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(tmp_path / "mypy.ini")]
    command += ["--cache-dir", str(tmp_path / "cache"), str(tmp_path / "host.py")]
    told = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=300, check=False)
    found = re.findall(r"host\.py:(\d+): error: .*\[([\w-]+)\]$", told.stdout, re.MULTILINE)
    refused = [
        (str(number), line.rpartition("# refused: ")[2])
        for number, line in enumerate(HOST.splitlines(), 1)
        if "# refused: " in line
    ]
    assert found == refused, told.stdout + told.stderr
