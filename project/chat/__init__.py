"""The chat page: a small product on top of ``compaction_app.chat``, its public door.

``views`` answer requests, ``turns`` get replies, ``commands`` carry out what is typed with a slash, ``reading``
turns one page of a branch into the values of ``shown``, which the templates show.
"""
