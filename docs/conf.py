"""The documentation site: ``make docs`` builds it from the Markdown in this folder into ``var/docs``."""

import os
import sys
import tomllib
from pathlib import Path

import django

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))
os.environ |= {"DJANGO_SETTINGS_MODULE": "project.settings", "DEBUG": "true"}
django.setup()

project = "django-chat-compaction"
project_copyright = "the django-chat-compaction authors"
version = release = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["requirements.txt"]
html_theme = "furo"
html_title = f"{project} {version}"
html_show_sourcelink = False
html_static_path = ["site"]
html_css_files = ["site.css"]
myst_enable_extensions = ["colon_fence"]
# Links to headings, as GitHub makes them.
myst_heading_anchors = 4

# A parameter a line where a signature is longer.
maximum_signature_line_length = 90
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_display_short_literal_types = True
# Roles such as :func:`stream` without a module are looked for on the page, wherever it documents them from.
default_role = "code"
