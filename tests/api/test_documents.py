"""The OpenAPI document, the page about it, docs/api.md, and what a host without django-ninja is told."""

import re
import subprocess
import sys

import jsonschema_rs
import pytest
from django.conf import settings as django_settings
from django.http import HttpResponseForbidden

from compaction_app.api.errors import Code
from compaction_app.api.mounting import api_urls
from compaction_app.api.permissions import STAFF_PERMISSIONS, Action
from compaction_app.values import SkipReason, Suppression
from tests.api.asking import MOUNT, Asker
from tests.conftest import REPOSITORY

TEXT = (REPOSITORY / "docs" / "api.md").read_text()


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path.removeprefix(MOUNT)}", operation


@pytest.mark.pure
class TestDocument:
    def test_every_error_of_every_operation_has_the_one_shape(self, document):
        for name, operation in operations(document):
            statuses = {int(status) for status in operation["responses"]}
            assert {400, 401, 403, 413, 422, 500, 503} <= statuses, name
            assert ("{" not in name) or 404 in statuses, name
            for status in statuses:
                answer = operation["responses"][str(status)]
                if status >= 400:
                    schema = answer["content"]["application/json"]["schema"]
                    assert schema == {"$ref": "#/components/schemas/ProblemOut"}, (name, status)
                    for code in re.findall(r"`([a-z_0-9]+)`:", answer["description"]):
                        assert Code(code).status == status

    def test_bodies_take_no_unknown_fields(self, document):
        schemas = document["components"]["schemas"]
        assert schemas["UsageIn"]["additionalProperties"] is True, "providers have keys of their own"
        bodies = {name for name in schemas if name.endswith(("In", "Patch")) or name == "SentContext"} - {"UsageIn"}
        of_sessions = {"SessionIn", "SessionPatch", "CopyIn", "CarryIn", "CompactIn", "CorrectIn", "StopIn"}
        assert bodies == {*of_sessions, "MessageIn", "RedactIn", "SentContext"}
        for name in bodies:
            assert schemas[name]["additionalProperties"] is False, name


def shown(schema, path):
    """Every schema below this one that has examples."""
    if isinstance(schema, dict):
        if isinstance(schema.get("examples"), list):
            yield path, schema
        for key, part in schema.items():
            if key not in ("examples", "enum"):
                yield from shown(part, f"{path}/{key}")


@pytest.mark.pure
def test_each_holds(document):
    schemas = document["components"]["schemas"]
    found = [pair for name, schema in schemas.items() for pair in shown(schema, name)]
    assert len(found) > 70
    for path, schema in found:
        whole = {**schema, "components": document["components"]}
        validator = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
        for example in schema["examples"]:
            assert validator.is_valid(example), path


@pytest.mark.django_db
class TestPage:
    def test_everything_on_it_comes_from_this_site(self):
        page = Asker().get("docs").content.decode()
        assert '"url": "openapi.json"' in page
        for address in re.findall(r'(?:src|href)="([^"]+)"', page):
            assert address.startswith(f"/{django_settings.STATIC_URL.strip('/')}/ninja/"), address

    def test_without_ninja_among_the_apps_no_page_leads_elsewhere(self, settings):
        settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "ninja"]
        response = Asker().get("docs")
        assert response.status_code == 404
        assert "INSTALLED_APPS" in response.json()["detail"]
        assert Asker().get("openapi.json").status_code == 200


@pytest.mark.pure
def test_a_host_may_close_the_document_and_the_page(rf):
    def closed(view):
        return lambda request, **kwargs: HttpResponseForbidden()

    open_now = {pattern.name: pattern for pattern in api_urls(docs_decorator=closed)}
    for name in ("openapi", "docs"):
        assert open_now[name].callback(rf.get("/")).status_code == 403


WITHOUT_NINJA = """
import sys
sys.modules["ninja"] = None  # as if it were not installed
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "compaction_app"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:",
                           "OPTIONS": {"transaction_mode": "IMMEDIATE"}}},
    MIGRATION_MODULES={"auth": None, "contenttypes": None, "compaction_app": None},
)
django.setup()
from django.core.management import call_command
call_command("migrate", run_syncdb=True, verbosity=0)
call_command("check")
from compaction_app import chat
from compaction_app.api.permissions import Action
session = chat.start_session()
assert chat.get_context(chat.append_message(session, role="user", content="hello")).tokens
try:
    import compaction_app.urls
except django.core.exceptions.ImproperlyConfigured as error:
    print(error)
"""


@pytest.mark.long
@pytest.mark.pure
def test_without_django_ninja_the_app_works_and_its_urls_say_what_to_install():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NINJA], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "pip install 'django-chat-compaction[api]'" in done.stdout


@pytest.mark.pure
def test_every_reason_for_not_compacting_is_a_code():
    """A reason that is added gets a status here, or a refusal would be a fault."""
    assert {*map(str, SkipReason), str(Suppression.OPEN_RUN), str(Suppression.SPEND)} <= set(map(str, Code))


@pytest.mark.pure
class TestGuide:
    """docs/api.md names what there is, and all of it."""

    def test_every_code_has_a_row_with_its_status_and_meaning(self):
        said = re.findall(r"^\| `([a-z_]+)` \| (\d{3}) \| (.+) \|$", TEXT, re.MULTILINE)
        assert said == [(str(code), str(code.status), code.meaning) for code in Code]

    def test_every_action_stands_there_with_its_permissions(self):
        said = dict(re.findall(r"^\| `([a-z]+)` \| (?!\d)[^|]+ \| ([^|]+) \|$", TEXT, re.MULTILINE))
        expected = {str(action): STAFF_PERMISSIONS.get(action, ()) for action in Action}
        assert set(said) == set(expected)
        for action, names in expected.items():
            assert re.findall(r"`([a-z_]+)`", said[action]) == [name.partition(".")[2] for name in names], action

    def test_every_operation_stands_there(self, document):
        # The example project has the operations of contrib.stream too.
        texts = TEXT + (REPOSITORY / "docs" / "frameworks.md").read_text()
        said = set(re.findall(r"`(GET|POST|PATCH|DELETE) (sessions|messages|summaries|runs|search)([^`? ]*)`", texts))
        short = {
            re.sub(r"\{\w*?(id|generation)\}", lambda found: "{" + found[1] + "}", n) for n, _ in operations(document)
        }
        assert {f"{method} {room}{path}" for method, room, path in said} == short
