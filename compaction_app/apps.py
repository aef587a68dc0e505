from django.apps import AppConfig, apps
from django.core.checks import Tags, register
from django.db.models.signals import post_delete, pre_delete
from django.utils.translation import gettext_lazy as _

from compaction_app.management import checks


class CompactionConfig(AppConfig):
    name = "compaction_app"
    verbose_name = _("Chat compaction")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from compaction_app.conversation.erase import delete_contents, lock_contents

        # A proxy of a host is the sender where one of its rows is deleted.
        for model in apps.get_models():
            if model._meta.concrete_model is self.get_model("ChatSession"):
                pre_delete.connect(lock_contents, sender=model)
                post_delete.connect(delete_contents, sender=model)
        for check in checks.ALL:
            register(check)
        register(checks.check_earlier_tables, Tags.database)
