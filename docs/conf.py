"""The documentation site: ``make docs`` builds it from this folder into var/docs. It fetches nothing."""

import re
import sys
import tomllib
from pathlib import Path

import django
from django.conf import settings
from django.db.models import Model

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "compaction_app"],
)
django.setup()

project = "django-chat-compaction"
copyright = "the django-chat-compaction authors"  # noqa: A001  # Sphinx's name for it
release = re.search(r'^version = "(.*)"', (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE)[1]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["requirements.txt"]
# Links to headings are those of GitHub.
myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]

html_theme = "furo"
html_title = f"{project} {release}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False

# Extras, which the documentation's environment does not have.
autodoc_mock_imports = ["agents", "langchain", "langchain_core", "langgraph", "pydantic_ai"]
autodoc_member_order = "bysource"
autodoc_default_options = {"undoc-members": True}
autodoc_typehints = "signature"
# As the annotations name them; resolved they are long unions.
autodoc_type_aliases = {"RoleName": "RoleName", "TriggerName": "TriggerName"}
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
# What belongs to Python, Django and clients has pages of its own elsewhere, and none is fetched to link to them.
nitpick_ignore_regex = [
    (r"py:.*", r"(collections|contextlib|datetime|decimal|django|http|openai|treebeard|types|typing|uuid)\..*"),
    (r"py:.*", r"(agents|pydantic_ai)\..*|(Model|Session)Settings|RunConfig"),
    (r"py:.*", r"(Any|Callable|ChatCompletionChunk|Decimal|Iterable|Mapping|Self|Sequence|TracebackType)"),
    (r"py:.*", r"(UUID|datetime)"),
]


def link_to_the_shortest_name(app, doctree):
    """Docstrings and annotations name what their module knows, and not where this site documents it."""
    for node in doctree.findall():
        if node.tagname == "pending_xref" and node.get("refdomain") == "py":
            node["refspecific"] = True
            if node["reftarget"].startswith("compaction_app."):
                node["reftarget"] = node["reftarget"].rpartition(".")[2]


def list_fields(app, what, name, documented, options, lines):
    """Below a model's docstring, its columns."""
    if isinstance(documented, type) and issubclass(documented, Model) and not documented._meta.abstract:
        lines += ["", ".. list-table::", "   :header-rows: 1", "   :class: fields", ""]
        lines += ["   * - field", "     - type", "     - meaning"]
        for field in documented._meta.concrete_fields:
            kind = type(field).__name__
            if field.is_relation:
                kind = f"to {field.related_model.__name__}"
            lines += [f"   * - ``{field.name}``", f"     - {kind}", f"     - {field.help_text}"]
        lines.append("")


def cut_links_that_leave(app, docname, source):
    """On GitHub a page may link to a file of the repository that is no page of the site; here its words remain."""

    def cut(found):
        target = found[2].partition("#")[0]
        leaves = target and not re.match(r"\w+:", target)
        path = (Path(app.srcdir) / docname).parent / target
        return found[1] if leaves and not path.resolve().is_relative_to(app.srcdir) else found[0]

    source[0] = re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", cut, source[0])


def add_origins(app, docname, source):
    """docs/origins.toml as tables, below the page's own words."""
    if docname != "origins":
        return
    lines = [source[0]]
    for system in tomllib.loads((Path(app.srcdir) / "origins.toml").read_text())["system"]:
        lines += ["", f"## {system['name']}", "", system["came"]]
        for part in system["part"]:
            lines += ["", f"### {part['name']}", "", "| There | Here | Status | Where it lives | Held by |"]
            lines.append("| --- | --- | --- | --- | --- |")
            for row in part["row"]:
                status = next(
                    (f"{key.replace('_', ' ')}: {row[key]}" for key in ("differs", "to_come") if key in row), "held"
                )
                names = ("<br>".join(f"`{name}`" for name in row.get(key, ())) or "—" for key in ("where", "tests"))
                lines.append(f"| {' | '.join([row['there'], row.get('here', '—'), status, *names])} |")
    source[0] = "\n".join(lines)


def setup(app):
    app.connect("doctree-read", link_to_the_shortest_name)
    app.connect("autodoc-process-docstring", list_fields)
    app.connect("source-read", add_origins)
    app.connect("source-read", cut_links_that_leave)
