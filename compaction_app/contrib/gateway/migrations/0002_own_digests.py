from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("compaction_gateway", "0001_initial")]
    operations = [
        migrations.AddField("BranchDigest", "own", models.CharField(default="", db_default="", max_length=64)),
        migrations.AddIndex("BranchDigest", models.Index(fields=["own"], name="compaction_gateway_own")),
    ]
