"""docs/recipes.md, without Celery's broker: a site with its files, and the worker of django-tasks-db as a process.

.ci/test-newest-django installs what it needs.
"""

import os
import re
import sqlite3
import subprocess
import sys
import time

import pytest

from compaction_app.testing import steps
from project.guard import GuardedProcess
from tests.conftest import REPOSITORY
from tests.plugin import NO_DJANGO_TASKS

pytest.importorskip("django_tasks_db", reason=NO_DJANGO_TASKS)
pytestmark = pytest.mark.pure

RECIPE = (REPOSITORY / "docs" / "recipes.md").read_text().partition("## django.tasks in place")[2].partition("\n## ")[0]
SETTINGS = """
SECRET_KEY, USE_TZ, TIME_ZONE = "none", True, "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "compaction_app"]
OPTIONS = {"transaction_mode": "IMMEDIATE", "timeout": 30}
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.sqlite3", "OPTIONS": OPTIONS}}
COMPACTION = {}
"""
#: Three runs: one is sent, one belongs to a worker that is gone while its session is to be compacted, one was lost.
RUNS = """
from compaction_app import chat, tasks
from compaction_app.models import CompactionRun
from tests.builders import grow
from django_tasks_db.models import DBTaskResult
tips = [grow(chat.start_session(), None, "u a " * 40)[-1] for _ in range(3)]
lost, gone = (chat.request_compaction(tip) for tip in tips[:2])
assert CompactionRun.objects.get(pk=lost.pk).task_id
DBTaskResult.objects.all().delete()
CompactionRun.objects.filter(pk=lost.pk).update(enqueued_at=None)
assert CompactionRun.objects.claim(gone.pk, 1)
assert tasks.enqueue_session(gone.session)
chat.request_compaction(tips[2])
"""


@pytest.fixture
def site(tmp_path, server):
    tasks, settings = re.findall(r"```python\n(.*?)```", RECIPE, re.DOTALL)
    (tmp_path / "mysite").mkdir()
    (tmp_path / "mysite" / "__init__.py").touch()
    (tmp_path / "mysite" / "tasks.py").write_text(tasks)
    limits = 'COMPACTION |= {"CONTEXT_WINDOW": 8_000, "RESERVED_TOKENS": 500, "COOLDOWN_SECONDS": 0}\n'
    (tmp_path / "mysite" / "settings.py").write_text(SETTINGS + settings + limits)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{tmp_path}:{REPOSITORY}",
        "DJANGO_SETTINGS_MODULE": "mysite.settings",
        "OPENAI_BASE_URL": server.url,
        "OPENAI_API_KEY": "none",
    }

    class Site:
        def manage(self, *arguments: str) -> str:
            command = [sys.executable, "-m", "django", *arguments]
            done = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        def worker(self) -> GuardedProcess:
            command = [sys.executable, "-m", "django", "db_worker", "--interval", "0.1", "--no-startup-delay"]
            return GuardedProcess(command, log=tmp_path / "worker.log", cwd=tmp_path, env=environment)

        def sql(self, statement: str) -> list[tuple[object, ...]]:
            with sqlite3.connect(tmp_path / "site.sqlite3", timeout=30) as connection:
                return connection.execute(statement).fetchall()

        def wait_for(self, wanted: list[tuple[object, ...]], statement: str) -> None:
            end = time.monotonic() + 60
            while (found := self.sql(statement)) != wanted:
                assert time.monotonic() < end, (found, (tmp_path / "worker.log").read_text())
                time.sleep(0.2)

    made = Site()
    made.manage("migrate")
    return made


def test_compactions_without_a_broker(site, server):
    assert "no issues" in site.manage("check")
    server.script([steps.rate_limited()])
    site.manage("shell", "-c", RUNS)
    worker = site.worker()
    try:
        # The model was busy once.
        site.wait_for(
            [("succeeded", 2)], "SELECT status, attempts FROM compaction_app_compactionrun WHERE attempts > 1"
        )
        # The session was sent once more, for later.
        deferred = "FROM django_tasks_database_dbtaskresult WHERE run_after <> '9999-01-01 00:00:00'"
        site.wait_for([(1,)], f"SELECT count(*) > 1 {deferred}")
        assert site.manage("recover_compactions") == "2 requeued, 0 abandoned in 1 database.\n"
        site.wait_for([("succeeded", 3)], "SELECT status, count(*) FROM compaction_app_compactionrun GROUP BY status")
        site.wait_for([("SUCCESSFUL",)], "SELECT DISTINCT status FROM django_tasks_database_dbtaskresult")
    finally:
        worker.stop()
