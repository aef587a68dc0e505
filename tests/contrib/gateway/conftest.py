"""The scripted provider, two users, and the site over HTTP."""

import threading

import openai
import pytest
import uvicorn
from django.contrib.auth import get_user_model
from django.core.asgi import get_asgi_application


@pytest.fixture(autouse=True)
def provider(server, monkeypatch):
    """The client that the environment names asks the scripted server."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture(autouse=True)
def users():
    return [get_user_model().objects.create_user(name, email=f"{name}@example.org") for name in ("marit", "jonas")]


@pytest.fixture
def asgi_server():
    server = uvicorn.Server(uvicorn.Config(get_asgi_application(), port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def api(request, settings):
    """OpenAI's client with Marit's key."""
    settings.ALLOWED_HOSTS = ["*"]
    return openai.OpenAI(
        base_url=f"{request.getfixturevalue(getattr(request, 'param', 'asgi_server'))}/v1",
        api_key="tiram",
        max_retries=0,
    )
