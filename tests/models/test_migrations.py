"""A migration that has landed is never edited: databases that ran it would differ from new ones."""

import hashlib
from pathlib import Path

import pytest

from compaction_app import migrations

pytestmark = pytest.mark.pure

#: File → SHA-256. A new migration is added here together with its file.
LANDED = {
    "0001_initial.py": "195973bd8c49dca5531f591420806f983d1877ee55555d862a4a801f8c8ddcc6",
    "0002_model_failed_event.py": "df822d506e90490ded7ea771f5ee1d95c3db5dd26db357c65d5fe48d879c3d8d",
    "0003_originals.py": "93e58839f92bfd8627d43455f14ab0753f282c25ab190efbf83ab745062af4db",
    "0004_named_summarizers.py": "f140fe735a16f88879f4f501eccaee2692360f350585548bbfcfe26591c6fa8b",
    "0005_names.py": "37bb36f6815bd1b74d7e6decfb2c1356a77b042212eb55b119bb095707d5761b",
    "0006_extracts.py": "591be8cd932f008b51e8e6c739c71dd2d65b6c90a01034c15e1c2f01271e4e7f",
    "0009_copies.py": "f7f3fdb2c1d13b95e72d6d9881048e182bf72043be82e8cfbc5f063356952a05",
}


def test_no_landed_migration_was_edited() -> None:
    folder = Path(migrations.__file__).parent
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("[0-9]*.py"))}
    assert found == LANDED
