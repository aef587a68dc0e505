"""Doors for agent frameworks, and ``histories`` for exports of other products.

Each module for a framework needs it, as an extra, and nothing else imports them.

A framework keeps a list of messages. Here the list is a branch: what the framework adds is stored below the tip, in its
own form, and what it reads is the context at the tip. So edits, other branches and compaction are seen by every
framework alike, and redaction and pruning are those of the app.
"""

INSTALL = "This needs an extra: pip install 'django-chat-compaction[{}]'."
