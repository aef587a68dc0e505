"""What has changed or was erased since is said, and not made up."""

import json

import pytest

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.transfer.bundles import read_bundle
from tests.transfer.bundling import export, export_checked, site, talk, tell_key

# Compacting calls a model, which no open transaction may wait for.
pytestmark = pytest.mark.django_db(transaction=True)


class TestChanged:
    @pytest.fixture
    def redacted(self, server, session, settings) -> ChatMessage:
        settings.COMPACTION = site(server, REDACTOR="tests.transfer.bundling.hide_keys")
        return tell_key(session)

    def test_another_redactor(self, server, redacted, tmp_path, settings):
        settings.COMPACTION = site(server, REDACTOR="tests.transfer.bundling.hide_keys_otherwise")
        exported = export(tmp_path / "out")
        assert exported.code == 0
        assert "[a key]" in (exported.bundles[0] / "user-message.md").read_text()

    def test_without_the_redactor_nothing_is_shown(self, server, redacted, tmp_path, settings):
        settings.COMPACTION = site(server)
        exported = export(tmp_path / "out")
        assert (exported.reasons, exported.bundles, exported.code) == (["redactor_missing"], [], 1)

    def test_the_redactor_is_never_one_that_a_row_names(self, server, redacted, tmp_path, settings):
        """Rows may be a file from elsewhere, and what they name would be run."""
        settings.COMPACTION = site(server)
        made = CompactionRun.objects.get()
        made.settings["REDACTOR"] = "os.system"
        made.save()
        assert export(tmp_path / "out").reasons == ["redactor_missing"]

    def test_a_copy_has_no_compaction_of_its_own(self, server, session, tmp_path):
        messages = talk(session, None, 8)
        chat.compact(messages[-1])
        chat.copy_branch(messages[-1])
        exported = export(tmp_path / "out")
        assert (exported.reasons, exported.code) == ([""], 0)

    def test_a_row_and_a_bundle_of_earlier_versions_have_more_keys(self, server, session, tmp_path):
        run = chat.compact(talk(session, None, 8)[-1])
        CompactionRun.objects.filter(pk=run.pk).update(request={**run.request, "digest": "0" * 64})
        exported = export_checked(server, tmp_path / "out")
        path = exported.bundles[0] / "metadata.json"
        path.write_text(json.dumps({**exported.metadata(0), "proof": "proved"}))
        assert read_bundle(exported.bundles[0]).written


class TestErased:
    def two_generations(self, session: ChatSession) -> list[ChatMessage]:
        first = talk(session, None, 6)
        chat.compact(first[-1])
        second = talk(session, first[-1], 6)
        chat.compact(second[-1])
        return [*first, *second]

    @pytest.mark.parametrize(("erase", "reason"), [(chat.redact_message, "redacted"), (chat.delete_message, "deleted")])
    def test_the_earlier_ones_are_left_and_of_the_others_the_record(self, server, session, tmp_path, erase, reason):
        messages = self.two_generations(session)
        erase(messages[12])
        # A redaction asks for the compaction that is needed then: a third run, without a generation.
        first, second = CompactionRun.objects.exclude(generation=None).order_by("generation")
        # Of earlier versions it has a digest, by which a short text could be guessed.
        assert (second.request, first.request["tightened"]) == ({}, False)
        exported = export(tmp_path / "out")
        assert exported.reasons == ["", reason]
        assert [path.name for path in exported.bundles] == ["compaction-001"]
        assert exported.code == 0, "as it should be"
        summary = exported.index["summaries"][1]["summary"]
        assert (summary is None) is (reason == "deleted")
        assert f"not rebuilt: compaction 2 of session {messages[0].session_id}: {reason}" in exported.out

    def test_nothing_of_it_is_written(self, server, session, tmp_path):
        messages = self.two_generations(session)
        chat.redact_message(messages[0])
        exported = export(tmp_path / "out")
        assert exported.reasons == ["redacted", "redacted"]
        assert [path.name for path in exported.folder.rglob("*")] == ["index.json"]

    def test_a_summary_that_was_written_of_an_erased_one_is_not_shown_as_if_of_none(self, server, session, tmp_path):
        """The text was in the first summary alone, of which the second one says nothing: that stays in use."""
        messages = self.two_generations(session)
        first, second = session.messages.summaries().order_by("pk")
        type(first).objects.filter(pk=first.pk).update(content="Anna lives in Husum.")
        chat.redact_text(messages[0].session, "Husum")
        second.refresh_from_db()
        assert second.redacted_at is None
        assert export(tmp_path / "out").reasons == ["redacted", "redacted"]
