"""For the tests of this app and of apps that use it: the app itself imports nothing of it.

``server`` is a real HTTP server with OpenAI's chat API that follows a script of ``steps``.
"""
