from django.apps import AppConfig
from django.core.checks import Tags, register
from django.db.models.signals import pre_delete
from django.utils.translation import gettext_lazy as _

from compaction_app.management import checks


class CompactionConfig(AppConfig):
    name = "compaction_app"
    verbose_name = _("Chat compaction")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from compaction_app.conversation.erase import delete_contents

        pre_delete.connect(delete_contents, sender="compaction_app.ChatSession")
        for check in checks.ALL:
            register(check)
        register(checks.check_earlier_tables, Tags.database)
