"""The chat page: a small product on top of ``compaction_app.chat``.

``views`` answer requests, ``turns`` get replies, ``commands`` run slash commands, ``reading`` turns one page of a
branch into the values of ``shown``, which the templates print.
"""
