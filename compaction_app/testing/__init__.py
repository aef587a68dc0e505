"""Tools for the tests of this app and of apps that use it. The app itself imports none of them.

``server`` is a real HTTP server with OpenAI's chat API that follows a script of ``steps``. ``summarizers`` has a
summarizer that needs no network, and ``builders`` makes branches from a short notation.
"""
