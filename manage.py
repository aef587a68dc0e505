#!/usr/bin/env python
"""Django's command line for the example project."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    if sys.argv[1:2] == ["demo"]:
        # Before Django reads its settings: the demo has a database of its own.
        from project.demo.places import prepare_environment

        prepare_environment()
    if sys.argv[1:2] in (["makemigrations"], ["help"]) or {"-h", "--help"} & {*sys.argv}:
        # It only compares models with migrations, or prints: nothing depends on the key that the settings ask for.
        os.environ.setdefault("SECRET_KEY", "not-used")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as error:
        raise SystemExit("Django is not installed here. Run `make setup`, then .venv/bin/python manage.py …") from error
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
