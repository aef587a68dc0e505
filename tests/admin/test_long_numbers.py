"""Numbers of any length in an address: no page fails on them, and what cannot be an id is not found."""

import pytest

from tests.admin.pages import MODELS, url
from tests.admin.records import compacted

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]

NUMBERS = [str(2**31), str(2**63 - 1), str(2**63), "9" * 30, "9" * 5000, "-" + "9" * 30, "٩" * 30]
TOO_LONG = NUMBERS[2:]
#: Every parameter of a list's address that a number may stand in.
PARAMETERS = {
    "chatsession": ("p", "q", "before", "id", "pk__in", "owner", "owner__id__exact", "updated_at__gte", "e", "o"),
    "chatmessage": (
        *("p", "q", "id__in", "pk", "pk__gt", "id__exact", "lane", "session", "kind"),
        *("ids", "end", "depth", "parent", "last_summarized_message", "_to_field"),
    ),
    "compactionrun": (
        *("p", "q", "id__in", "pk__lte", "tip", "anchor", "cutoff", "base", "summary", "previous_run", "generation"),
        *("created_at__year", "created_at__month", "created_at__day", "status__exact", "model", "error_code"),
    ),
    "compactionevent": ("p", "q", "id__in", "run", "message", "created_at__year", "kind__exact"),
}


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{number[:3]} of {len(number)}")
@pytest.mark.parametrize("model", MODELS)
def test_no_list_fails_on_a_number_of_any_length(superuser, model, number):
    session, *_ = compacted()
    for name in PARAMETERS[model]:
        queries = [{name: number}, {name: f"1,{number}"}]
        queries += [{"session": session.pk, name: number}] if model == "chatmessage" else []
        queries += [{"created_at__year": "2026", name: number}] if model == "compactionrun" else []
        for query in queries:
            # 400: a column that no address may filter by.
            status = superuser.get(url(f"{model}_changelist", **query)).status_code
            assert status in (200, 302, 400, 404), (name, query)


@pytest.mark.parametrize("number", TOO_LONG, ids=lambda number: f"{number[:3]} of {len(number)}")
def test_a_page_number_that_no_list_has_is_not_found(superuser, number):
    session, *_ = compacted()
    for model in MODELS:
        assert superuser.get(url(f"{model}_changelist", p=number)).status_code == 404, model
    assert superuser.get(url("chatmessage_changelist", session=session.pk, p=number)).status_code == 404


@pytest.mark.parametrize("number", TOO_LONG, ids=lambda number: f"{number[:3]} of {len(number)}")
def test_an_id_that_no_record_has_is_not_found_on_any_page(superuser, number):
    _, nodes, summary, run, event = compacted()
    for record in (nodes[-1], summary, run, event):
        name = record._meta.model_name
        for page in ("change", "delete", "history"):
            address = url(f"{name}_{page}", 7777777).replace("7777777", number)
            assert superuser.get(address).status_code == 404, address
    for page in ("transcript", "context", "compact", "redact"):
        address = url(f"chatmessage_{page}", 7777777).replace("7777777", number)
        assert superuser.get(address).status_code == 404, address
    transcript = url("chatmessage_transcript", nodes[-1].pk)
    assert superuser.get(transcript, {"end": number}).status_code == 404
    session = url("chatsession_change", nodes[0].session_id)
    assert superuser.get(session, {"before": number}).status_code == 404


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{number[:3]} of {len(number)}")
def test_no_action_fails_on_an_id_of_any_length(superuser, number):
    session, *_ = compacted()
    for page in ("retire", "redact_selected"):
        query = {"session": session.pk, "ids": f"1,{number}"}
        assert superuser.get(url(f"chatmessage_{page}", **query)).status_code in (200, 302, 404)
    for model, action in (("compactionrun", "retry"), ("chatmessage", "compact_now")):
        given = {"action": action, "_selected_action": [number]}
        assert superuser.post(url(f"{model}_changelist"), given).status_code in (200, 302, 404)
