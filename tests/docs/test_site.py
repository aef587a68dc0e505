"""The documentation site's pages: each is in the navigation, and the reference has every public name.

``make docs`` builds it, strictly, in ``make test-all``.
"""

import ast
import inspect
import re
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import get_commands
from django.utils import timezone

from compaction_app import chat, conf, exceptions, plain, signals
from compaction_app.conf import DEFAULTS, KEYS, SITE_ONLY
from compaction_app.management import checks
from compaction_app.models import CompactionRun
from compaction_app.transfer.rebuild import NotRebuilt
from compaction_app.values import ErrorCode, EventKind, RunStatus, SkipReason, Strategy, Suppression
from tests.conftest import REPOSITORY
from tests.docs import signatures

DOCS = REPOSITORY / "docs"
DOCUMENTED = re.findall(r"^\.\. (?:auto\w+|py:data):: ([\w.]+)", (DOCS / "reference.md").read_text(), re.MULTILINE)


def of(module: str) -> set[str]:
    return {name.rpartition(".")[2] for name in DOCUMENTED if name.rpartition(".")[0] == module}


def test_the_reference_has_every_public_name_of_chat() -> None:
    """An async twin is documented with the function that it is the twin of."""
    documented = of("compaction_app.chat")
    public = set(chat.__all__)
    assert documented <= public
    twins = {f"a{name}" for name in documented}
    assert public - documented - twins == set()
    assert len(public & twins) > 10


ERRORS = {name for name, found in vars(exceptions).items() if getattr(found, "__module__", "") == exceptions.__name__}


def test_the_reference_has_every_error() -> None:
    lines = re.findall(r"^\.\. autoexception:: (\w+)", (DOCS / "reference.md").read_text(), re.MULTILINE)
    assert set(lines) == ERRORS


def test_the_reference_has_every_public_name_of_plain() -> None:
    assert of("compaction_app.plain") == set(plain.__all__)


def test_every_signal_is_described_where_the_reference_takes_it_from() -> None:
    assert "compaction_app.signals" in DOCUMENTED
    named = {name for name, found in vars(signals).items() if isinstance(found, signals.Signal)}
    assert named == set(re.findall(r"^``(\w+)`` \(", signals.__doc__ or "", re.MULTILINE))


@pytest.mark.pure
def test_the_signatures_are_those_of_the_code() -> None:
    assert signatures.PAGE.read_text() == signatures.page(), "python -m tests.docs.signatures"


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [
        line.partition("<")[2].rstrip(">")
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(), re.DOTALL)
        for line in tree.split("\n")
        if line and not line.startswith(":")
    ]
    pages = {str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")} - {"index"}
    assert sorted(listed) == sorted(pages)
    assert listed[-1] == "origins"


class TestTroubleshooting:
    TEXT = (DOCS / "troubleshooting.md").read_text()

    def test_every_check_has_a_row(self) -> None:
        """It is where a host looks up an id; those of the keys are beside the keys."""
        sources = inspect.getsource(checks) + inspect.getsource(conf)
        known = set(re.findall(r"compaction_app\.([EW]0\d\d)", sources))
        assert set(re.findall(r"\b[EW]0\d\d\b", self.TEXT)) == known
        keys = sorted(extra["id"].rpartition(".")[2] for extra in KEYS.values())
        assert f"`{keys[0]}` to `{keys[-1]}`" in self.TEXT

    def test_every_error_that_it_names_is_one(self) -> None:
        named = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", self.TEXT)) - {"CompactionEvent"}
        assert named <= ERRORS
        assert len(named) > 10


#: A default that is written as it is, and not in words.
LITERAL = re.compile(r"[\d,.]+|`(None|True|False|{}|\"\w+\")`")


def test_every_setting_is_explained_with_its_default() -> None:
    _, _, keys = (DOCS / "settings.md").read_text().partition("## Keys")
    table, _, rest = keys.partition("\nA session cannot override")
    assert set(DEFAULTS) - set(re.findall(r"`([A-Z_]+)`", table)) == set()
    assert set(re.findall(r"`([A-Z_]+)`", rest.partition("## Presets")[0])) == SITE_ONLY
    told: dict[str, Any] = {}
    for named, cell in re.findall(r"^\| (`.*?`) \| (.*?) \|", table, re.MULTILINE):
        names, values = re.findall(r"[A-Z_]+", named), cell.split(", ")
        if len(names) == len(values) and all(LITERAL.fullmatch(value) for value in values):
            told |= zip(names, (ast.literal_eval(value.strip("`").replace(",", "")) for value in values), strict=True)
    # Names an entry, as which it is read.
    assert told.pop("SUMMARIZER") == DEFAULTS["SUMMARIZER"].name
    assert told == {key: DEFAULTS[key] for key in told}
    assert len(told) > 25


@pytest.mark.parametrize(
    "page",
    ["production", "troubleshooting", "adopting", "upgrading", "security", "tuning", "why-not-compacted", "commands"],
)
def test_settings_and_codes_that_a_page_names_are_there(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text()
    keys = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", text))
    of_others = {
        *("ATOMIC_REQUESTS", "CELERY_BEAT_SCHEDULE", "CELERY_BROKER_URL", "CHAT_MODELS", "CONN_MAX_AGE"),
        *("DATABASE_ROUTERS", "INSTALLED_APPS", "MAX_OUTPUT_TOKENS", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        *("SILENCED_SYSTEM_CHECKS", "TENANT_APPS", "USE_TZ"),
    }
    assert keys - of_others <= set(DEFAULTS)
    codes = {*ErrorCode, *EventKind, *SkipReason, *Suppression, *Strategy, *RunStatus}
    reasons = re.findall(r"(?:reason|event|layer|outcome|status\*?,) `(\w+)`", text)
    assert set(reasons) <= set(map(str, codes))
    if page in ("tuning", "why-not-compacted", "commands"):
        named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text))
        words = {"api_key_env", "max_input_tokens", "should_compact", "request_compaction"}
        assert named - set(map(str, {*codes, *NotRebuilt})) - set(get_commands()) - words == set()


class TestProduction:
    EXAMPLES = re.findall(r"```python\n(.*?)```", (DOCS / "production.md").read_text(), re.DOTALL)

    @pytest.mark.django_db
    @pytest.mark.parametrize(
        ("status", "column"),
        [
            ("ready", "created_at"),
            ("ready", "started_at"),
            ("ready", "next_attempt_at"),
            ("running", "lease_expires_at"),
        ],
    )
    def test_the_health_check_finds_a_run_that_waits(self, status: str, column: str) -> None:
        known: dict[str, Any] = {}
        exec(next(example for example in self.EXAMPLES if "compaction_is_late" in example), known)
        now = timezone.now()
        run = CompactionRun(session=chat.start_session(), trigger="manual", status=status)
        run.created_at = now - timedelta(hours=1)
        setattr(run, column, now - timedelta(minutes=4))
        run.save()
        assert not known["compaction_is_late"]()
        setattr(run, column, now - timedelta(minutes=6))
        run.save()
        assert known["compaction_is_late"]()
        run.status = "failed"
        run.save()
        assert not known["compaction_is_late"]()

    def test_the_options_for_faster_reads_are_those_that_the_suite_runs_with(self) -> None:
        """make test-prepared."""
        databases: dict[str, dict[str, Any]] = {"default": {}}
        exec(next(example for example in self.EXAMPLES if "prepare_threshold" in example), {"DATABASES": databases})
        assert set(databases["default"]["OPTIONS"]) == {"server_side_binding", "prepare_threshold"}

    def test_the_settings_for_logs_write_each_line_once(self) -> None:
        """In a process of its own, since logging is configured for a whole process."""
        known: dict[str, Any] = {}
        exec(next(example for example in self.EXAMPLES if "LOGGING" in example), known)
        program = (
            "import logging, logging.config\n"
            "logging.basicConfig(level=logging.INFO)\n"
            f"logging.config.dictConfig({known['LOGGING']!r})\n"
            "logging.getLogger('compaction_app.tasks').info('sweep enqueued=0 given_up=0')\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stderr == "sweep enqueued=0 given_up=0\n"
