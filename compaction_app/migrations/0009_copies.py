import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("compaction_app", "0008_search_entries"),
    ]

    operations = [
        migrations.AddField(
            model_name="chatsession",
            name="copied_from",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                help_text="The last message of the branch that was copied.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="copied_sessions",
                to="compaction_app.chatmessage",
                verbose_name="copied from",
            ),
        ),
    ]
