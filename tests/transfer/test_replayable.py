"""Deterministic mode: the same history gives the same bytes, on either database, in every process, at any pace."""

import json
import os
import subprocess
import sys

import pytest

from tests.transfer.replaying import DEMO, DEMO_TIP, REPOSITORY, digest, digests, read_line

pytestmark = [pytest.mark.long, pytest.mark.django_db(transaction=True)]

#: The beginning of each conversation.
MESSAGES = 100


def elsewhere(folder, temporary, seed):
    """Another process at the same work, on a SQLite file of its own."""
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "DATABASE_URL": f"sqlite:///{temporary}/{seed}.sqlite3",
        "PYTHONHASHSEED": str(seed),
        "SECRET_KEY": "replay",
    }
    command = [sys.executable, "-m", "tests.transfer.replaying", str(MESSAGES), *([str(folder)] if folder else [])]
    return subprocess.Popen(command, cwd=REPOSITORY, env=environment, text=True, stdout=subprocess.PIPE)


@pytest.fixture(autouse=True)
def plain(settings):
    settings.COMPACTION = {}


@pytest.fixture(scope="session")
def data_if_there(request):
    """The real conversations where they are; the demo's own is compared in any case."""
    try:
        return request.getfixturevalue("shared_data")
    except pytest.skip.Exception:
        return None


def test_summaries_and_contexts_are_the_same_bytes_on_both_databases_and_for_two_hash_seeds(data_if_there, tmp_path):
    """This process, on the database under test, against two others on SQLite."""
    with elsewhere(data_if_there, tmp_path, 0) as first, elsewhere(data_if_there, tmp_path, 1) as second:
        here = digests(MESSAGES, data_if_there)
        for process in (first, second):
            output, _ = process.communicate(timeout=300)
            assert json.loads(output.splitlines()[-1]) == {name: list(made) for name, made in here.items()}
    assert here[DEMO.name][0] >= 5
    assert data_if_there is None or all(generations for generations, _ in here.values())


def test_the_pace_of_a_conversation_decides_nothing(monkeypatch):
    """Neither the cool-down nor the breaker, which go by the clock: replayed in no time it compacts where it did."""
    line = read_line(DEMO, tip=DEMO_TIP).first(80)
    monkeypatch.setattr("compaction_app.compaction.trigger.COVERAGE_RATIO", 0.01)
    assert digest(line, COOLDOWN_SECONDS=3600) == digest(line, COOLDOWN_SECONDS=0)
