import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = [("compaction_app", "0006_extracts")]
    operations = [
        migrations.CreateModel(
            name="BranchDigest",
            fields=[
                (
                    "message",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="gateway_digest",
                        serialize=False,
                        to="compaction_app.chatmessage",
                    ),
                ),
                ("digest", models.CharField(max_length=64)),
                ("has_reply", models.BooleanField()),
            ],
            options={"indexes": [models.Index(fields=["digest"], name="compaction_gateway_digest")]},
        )
    ]
