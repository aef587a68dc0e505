import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("compaction_app", "0002_copies_of_copies"),
    ]

    operations = [
        migrations.AlterField(
            model_name="chatmessage",
            name="session",
            field=models.ForeignKey(
                db_index=False,
                editable=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="messages",
                to="compaction_app.chatsession",
                verbose_name="session",
            ),
        ),
        migrations.AlterField(
            model_name="compactionevent",
            name="session",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="events",
                to="compaction_app.chatsession",
                verbose_name="session",
            ),
        ),
        migrations.AlterField(
            model_name="compactionrun",
            name="session",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="runs",
                to="compaction_app.chatsession",
                verbose_name="session",
            ),
        ),
        migrations.AlterField(
            model_name="messagepin",
            name="session",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.DO_NOTHING, related_name="pins", to="compaction_app.chatsession"
            ),
        ),
    ]
