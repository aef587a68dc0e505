from django.db import migrations, models

import compaction_app.models.fields

# As copies were found before: on the first lane of a session that was copied from there or from below it, at the same
# depth and with the same role and date. What was copied from a message that is gone is not known any more.
DIRECT = """
WITH RECURSIVE path(session_id, id, parent_id, depth, role, created_at) AS (
    SELECT s.id, m.id, m.parent_message_id, m.depth, m.role, m.created_at
    FROM compaction_app_chatsession s JOIN compaction_app_chatmessage m ON m.id = s.copied_from_id
    UNION ALL
    SELECT path.session_id, m.id, m.parent_message_id, m.depth, m.role, m.created_at
    FROM path JOIN compaction_app_chatmessage m ON m.id = path.parent_id
)
UPDATE compaction_app_chatmessage SET copy_of = path.id
FROM path JOIN compaction_app_chatmessage lane
     ON lane.session_id = path.session_id AND lane.parent_message_id IS NULL AND lane.sib_order = 1
WHERE (compaction_app_chatmessage.id = lane.id OR compaction_app_chatmessage.lane_id = lane.id)
      AND compaction_app_chatmessage.kind = 'message' AND compaction_app_chatmessage.depth = path.depth
      AND compaction_app_chatmessage.role = path.role AND compaction_app_chatmessage.created_at = path.created_at
"""


def name_the_first(apps, schema_editor):
    """A copy of a copy names the first one, too."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(DIRECT)
        while cursor.rowcount:
            cursor.execute(
                "UPDATE compaction_app_chatmessage SET copy_of = source.copy_of FROM compaction_app_chatmessage source"
                " WHERE source.id = compaction_app_chatmessage.copy_of AND source.copy_of IS NOT NULL"
            )
    # PostgreSQL makes no index of a table with rows that are still to be checked.
    schema_editor.connection.check_constraints(["compaction_app_chatmessage"])


class Migration(migrations.Migration):
    dependencies = [
        ("compaction_app", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="chatmessage",
            name="copy_of",
            field=models.BigIntegerField(
                blank=True,
                editable=False,
                help_text="The message that was copied first.",
                null=True,
                verbose_name="copy of",
            ),
        ),
        migrations.AddField(
            model_name="chatsession",
            name="title_of",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                help_text="The message of this session that the title was made of: it is erased with that one.",
                null=True,
                on_delete=compaction_app.models.fields.clear_title,
                related_name="+",
                to="compaction_app.chatmessage",
                verbose_name="title of",
            ),
        ),
        migrations.RunPython(name_the_first, migrations.RunPython.noop, elidable=True),
        migrations.AddIndex(
            model_name="chatmessage",
            index=models.Index(
                condition=models.Q(("copy_of__isnull", False)), fields=["copy_of"], name="compaction_copies"
            ),
        ),
    ]
