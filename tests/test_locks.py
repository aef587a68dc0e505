"""The locks are those of the requirements: ``make lock`` writes them, and nobody has to remember it."""

import re

import pytest

from tests.conftest import REPOSITORY

pytestmark = pytest.mark.pure

PIN = re.compile(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;]+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    text = (REPOSITORY / name).read_text()
    return {re.sub(r"[._-]+", "-", package).lower(): version for package, version in PIN.findall(text)}


@pytest.mark.parametrize("name", ["requirements", "requirements-dev", "tests/real_model/requirements"])
def test_a_lock_has_every_pin_of_its_requirements(name):
    wanted, locked = pins(f"{name}.txt"), pins(f"{name}.lock")
    assert wanted.items() <= locked.items(), "run: make lock"


def test_both_locks_have_the_same_versions():
    assert pins("requirements.lock").items() <= pins("requirements-dev.lock").items(), "run: make lock"


@pytest.mark.parametrize(
    ("name", "fewest"),
    [("requirements.lock", 20), ("requirements-dev.lock", 20), ("tests/real_model/requirements.lock", 5)],
)
def test_a_lock_has_hashes_and_names_no_place(name, fewest):
    text = (REPOSITORY / name).read_text()
    packages = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]
    assert len(packages) >= fewest
    assert all("--hash=sha256:" in package for package in packages)
    assert not re.search(r"https?:|file:|--(?:extra-)?index|--find-links|(?<!\w)/", text)
