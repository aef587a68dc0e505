"""``make demo``: the app on real components, in one terminal.

``session`` is the sequence of steps. ``places`` has the paths and the environment, ``processes`` starts and stops the
broker, the worker and the web server, ``loading`` imports the conversation and creates the account, ``watching``
follows the worker, and ``reading``, ``branch_map`` and ``report`` print the result.
"""
