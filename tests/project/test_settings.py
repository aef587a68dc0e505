"""The example project's settings, read as a shell with only these variables would start them."""

import json
import os
import runpy
import sqlite3
import subprocess
import sys
from types import SimpleNamespace
from unittest import mock
from urllib.parse import quote

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db.utils import ConnectionHandler

from project import settings as project_settings
from tests.conftest import REPOSITORY

MODES = "off, manual, standard, conservative, aggressive, deterministic"


def environment(**env):
    """With nothing of this process's environment but PATH."""
    return {"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "project.settings", "DEBUG": "true", **env}


def run_python(*arguments, env):
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=REPOSITORY, env=environment(**env), capture_output=True, text=True, check=False)


def settings_with(**env):
    """The settings as they are read where nothing is set but these variables, and by default a key."""
    with mock.patch.dict(os.environ, {"SECRET_KEY": "a-key-of-our-own", **env}, clear=True):
        return SimpleNamespace(**runpy.run_path(project_settings.__file__))


def refusal(**env):
    with pytest.raises(ImproperlyConfigured) as caught:
        settings_with(**env)
    return str(caught.value)


@pytest.mark.pure
class TestCompaction:
    def test_only_with_a_key_or_an_endpoint_a_model_is_asked(self):
        for env in ({}, {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}):
            assert settings_with(**env).COMPACTION == {"SUMMARIZER": "extractive"}
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
            assert settings_with(**{name: "http://localhost:9"}).COMPACTION == {}


@pytest.mark.pure
@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("COMPACTION_CONTEXT_WINDOW", "abc", "not a whole number. Set it to 1 or more"),
        ("COMPACTION_SUMMARIZER_TIMEOUT", "-1", "not more than 0. Set it to a number of seconds"),
        ("COMPACTION_MODE", "fast", f"unknown. Set it to one of {MODES}"),
        ("COMPACTION_TRIGGER_RATIO", "1", "not strictly between 0 and 1. Set it to a number between 0 and 1"),
        ("DEBUG", "perhaps", "neither true nor false. Set it to true or false"),
    ],
)
def test_a_value_that_can_not_be_read_is_refused_with_its_name_and_what_to_do(name, value, advice):
    message = refusal(**{name: value})
    assert message.startswith(f"The environment variable {name}={value!r} is {advice}")
    assert message.endswith("or unset it for the default.")


@pytest.mark.pure
def test_a_database_url_that_can_not_be_read_is_refused_without_showing_its_password():
    message = refusal(DATABASE_URL="nonsense://user:a-secret@host/name")
    assert message.startswith("The environment variable DATABASE_URL cannot be read")
    assert "a-secret" not in message
    assert "postgresql://user:password@host:5432/name" in message


@pytest.mark.pure
def test_debug_is_off_and_a_secret_key_is_demanded():
    """DEBUG was on by default, with a key that everyone can read."""
    for env in ({}, {"DEBUG": ""}, {"DEBUG": "false"}):
        said = refusal(SECRET_KEY="", **env)
        assert "SECRET_KEY is not set. Set it to a long random text" in said
        assert "set DEBUG=true instead" in said
    default = settings_with(SECRET_KEY="my-own")
    assert default.DATABASES["default"]["NAME"] == str(REPOSITORY / "var" / "db.sqlite3")
    assert (default.DEBUG, default.SECRET_KEY, default.SESSION_COOKIE_SECURE) == (False, "my-own", True)
    asked = settings_with(SECRET_KEY="", DEBUG="true")
    assert (asked.DEBUG, bool(asked.SECRET_KEY)) == (True, True)


@pytest.mark.pure
class TestDatabase:
    def test_sqlite_runs_with_a_write_ahead_log_and_a_path_may_hold_any_character(self, tmp_path, django_db_blocker):
        path = tmp_path / "a b#c?d.sqlite3"
        described = settings_with(DATABASE_URL="sqlite:///" + quote(str(path))).DATABASES
        with django_db_blocker.unblock():
            ConnectionHandler(described)["default"].ensure_connection()
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()

    @pytest.mark.long
    def test_processes_that_open_a_new_sqlite_file_at_once_do_not_lock_each_other_out(self, tmp_path):
        """A web process and a worker are often started in the same second, on a new database."""
        program = (
            "import django; django.setup()\n"
            "from django.db import connection, transaction\n"
            "cursor = connection.cursor()\n"
            "cursor.execute('CREATE TABLE IF NOT EXISTS t (x)')\n"
            "for _ in range(50):\n"
            "    with transaction.atomic():\n"
            "        [n] = cursor.execute('SELECT count(*) FROM t').fetchone()\n"
            "        cursor.execute('INSERT INTO t VALUES (%s)', [n])\n"
        )
        path = tmp_path / "new.sqlite3"
        env = environment(DATABASE_URL=f"sqlite:///{quote(str(path))}")
        command = [sys.executable, "-c", program]
        started = [
            subprocess.Popen(command, cwd=REPOSITORY, env=env, stderr=subprocess.PIPE, text=True) for _ in range(6)
        ]
        errors = [process.communicate()[1] for process in started]
        assert [process.returncode for process in started] == [0] * 6, errors
        connection = sqlite3.connect(path)
        assert connection.execute("SELECT count(*), count(DISTINCT x) FROM t").fetchone() == (300, 300)
        connection.close()


@pytest.mark.pure
class TestCelery:
    SHOW = (
        "import json, project; conf = project.celery_app.conf; print(json.dumps([conf.broker_url, "
        "conf.task_acks_late, conf.task_reject_on_worker_lost, conf.result_backend, conf.worker_prefetch_multiplier, "
        "conf.beat_schedule['recover-compactions']['schedule'], conf.broker_transport_options['visibility_timeout']]))"
    )

    def shown(self, **env):
        """In a process of its own: this one's Celery app has been set up already."""
        done = run_python("-c", self.SHOW, env=env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @pytest.mark.long
    def test_the_settings_and_the_environment_reach_celery(self):
        assert self.shown() == ["redis://127.0.0.1:6379/0", True, True, None, 1, 30, 600]
        variables = {"COMPACTION_SWEEP_SECONDS": "5", "COMPACTION_REDELIVERY_SECONDS": "7"}
        shown = self.shown(CELERY_BROKER_URL="redis://broker:1/2", **variables)
        assert shown == ["redis://broker:1/2", True, True, None, 1, 5, 7]

    def test_kombu_knows_every_transport_option(self):
        """A misspelt option is ignored in silence, and so is one that a later kombu renames."""
        from kombu.transport.redis import Channel

        assert set(project_settings.CELERY_BROKER_TRANSPORT_OPTIONS) <= set(Channel.from_transport_options)


#: A server loads it before its first request.
HAS_THE_TOKENIZER = "import sys; assert 'toktok' in sys.modules"


@pytest.mark.pure
@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        (["-c", f"import project.wsgi; {HAS_THE_TOKENIZER}"], {}),
        (["-c", f"import project.asgi; {HAS_THE_TOKENIZER}"], {}),
        # Looking for a missing migration needs no key.
        (["manage.py", "makemigrations", "--check", "--dry-run"], {"DEBUG": ""}),
    ],
)
def test_the_entry_points_need_no_setting_up(tmp_path, arguments, env):
    done = run_python(*arguments, env={"DATABASE_URL": f"sqlite:///{tmp_path}/none.sqlite3", **env})
    assert done.returncode == 0, done.stderr
