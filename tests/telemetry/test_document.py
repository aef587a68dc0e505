"""docs/telemetry.md, and the app without an SDK."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.dispatch import Signal

from compaction_app import signals, telemetry
from compaction_app.values import EventKind
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.django_db(transaction=True)


class TestDocument:
    """docs/telemetry.md names all that there is, and nothing else."""

    @pytest.fixture
    def text(self):
        return (REPOSITORY / "docs" / "telemetry.md").read_text()

    def test_every_metric(self, text):
        source = Path(telemetry.__file__).read_text()
        made = set(re.findall(r"_(?:counter|histogram)\(\s*\"([^\"]+)\"", source))
        table = text[text.index("| metric |") : text.index("A layer is")]
        rows = [row.split("|")[1] for row in table.splitlines()[2:] if row]
        named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
        assert len(made) == 7
        assert named == made

    def test_every_attribute_event_and_signal(self, text):
        source = Path(telemetry.__file__).read_text()
        keys = set(re.findall(r"\"((?:compaction|gen_ai|server|error)\.[a-z_.]+[a-z])\"", source))
        assert {key for key in keys if f"`{key}`" not in text} == set()
        names = [name for name, value in vars(signals).items() if isinstance(value, Signal)]
        assert len(names) == 5
        assert [name for name in (*names, *EventKind) if f"| `{name}` |" not in text] == []

    def test_every_line(self, text):
        package = Path(telemetry.__file__).parent
        written = {
            event
            for path in package.rglob("*.py")
            for event in re.findall(r"\blog\(\s*logger,\s*(?:level|logging\.\w+),\s*\"(\w+)\"", path.read_text())
        }
        table = text[text.index("| line | level |") : text.index("## Metrics")]
        assert {"skip", "start", "done", "failed", "retry"} < written
        assert {event for event in written if not re.search(rf"`{event}[ `]", table)} == set()


def test_without_an_sdk_nothing_is_needed_and_nothing_happens():
    """The API alone: the same code in a process without a provider."""
    code = (
        "from compaction_app import telemetry\n"
        "telemetry.count_suppression(layer='a', trigger='b', reason='c')\n"
        "import sys\n"
        "assert 'opentelemetry.sdk' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
