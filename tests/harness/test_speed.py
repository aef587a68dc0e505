"""benchmarks/speed: its conversations are what the app itself would have stored, and its pipe says what happened."""

import json
import subprocess
import sys

import pytest
from django.core.management import call_command

from benchmarks.speed import pages, tables
from compaction_app import chat
from compaction_app.models import ChatMessage
from tests.conftest import REPOSITORY


@pytest.mark.django_db
@pytest.mark.parametrize("branches", [1, 5])
def test_a_grown_conversation_is_one(branches):
    tip = tables.grow(200, branches)
    assert len(chat.get_branch(tip)) == 200
    assert len(chat.tips(tip.session)) == branches
    assert len(chat.get_context(tip).messages) == 64
    call_command("verify_chats", str(tip.session_id), verbosity=0)
    assert chat.append_message(tip.session, tip, role="user", content="Next.").depth == 201


@pytest.mark.django_db
def test_a_conversation_of_the_pages_is_one():
    tip = pages.fill(2_400)
    call_command("verify_chats", str(tip.session_id), verbosity=0)
    assert chat.find_summary(tip) is not None
    assert ChatMessage.objects.filter(session=tip.session_id, kind="message").count() == 2_400


SYSTEM = """
from benchmarks.speed.serving import System, serve

class Counting(System):
    def grow(self, size, branches):
        print("not an answer")
    def calls(self, size, branches):
        return {"nothing": lambda: None, "half a second": lambda: 0.5, "an error": lambda: 1 / 0}

serve(Counting())
"""


@pytest.mark.pure
def test_a_system_is_asked_over_a_pipe():
    at = {"size": 10, "branches": 1}
    asked = [
        {"do": "about"},
        {"do": "grow", **at},
        {"do": "time", "call": "nothing", "times": 3, **at},
        {"do": "time", "call": "half a second", "times": 1, **at},
        {"do": "time", "call": "an error", "times": 1, **at},
        {"do": "count", "call": "nothing", **at},
        {"do": "end"},
    ]
    command = [sys.executable, "-c", SYSTEM]
    text = "".join(json.dumps(one) + "\n" for one in asked)
    done = subprocess.run(command, cwd=REPOSITORY, input=text, capture_output=True, text=True, check=True)
    about, grown, times, told, error, counted = map(json.loads, done.stdout.splitlines())
    assert about == {"versions": {}, "durability": ""}
    assert grown["seconds"] >= 0
    assert len(times["seconds"]) == 3
    assert told == {"seconds": [0.5]}
    assert error == {"error": "ZeroDivisionError: division by zero"}
    assert counted == {}
