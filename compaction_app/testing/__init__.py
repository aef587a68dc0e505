"""What tests of this app, and of apps built on it, need: shipped with the package.

``server`` is a real HTTP server that speaks OpenAI's chat API by script, ``steps`` are what it can do, and
``summarizers`` holds a summarizer that needs no network. Nothing here is imported by the app itself.
"""
