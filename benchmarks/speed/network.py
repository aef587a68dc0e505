"""A network between an application and its PostgreSQL server: a proxy whose every byte arrives later."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from select import select


class Network:
    """``seconds``: how much later, each way. ``trips``: how often a client has waited for an answer."""

    def __init__(self, server: tuple[str, int], seconds: float) -> None:
        self.server, self.seconds, self.trips = server, seconds, 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._is_open = True

    def forward(self) -> None:
        """Until it is closed."""
        peers: dict[socket.socket, socket.socket] = {}
        asking: dict[socket.socket, bool] = {}
        late: deque[tuple[float, socket.socket, bytes]] = deque()
        while self._is_open:
            wait = max(0.0, late[0][0] - time.monotonic()) if late else 0.1
            for one in select([self._listener, *peers], [], [], wait)[0]:
                if one is self._listener:
                    pair = self._listener.accept()[0], socket.create_connection(self.server)
                    peers |= {pair[0]: pair[1], pair[1]: pair[0]}
                    asking |= {pair[0]: False}
                    for end in pair:
                        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    continue
                data = _read(one)
                late.append((time.monotonic() + self.seconds, peers[one], data))
                if not data:
                    del peers[one]
                elif one in asking:
                    self.trips += not asking[one]
                    asking[one] = True
                else:
                    asking[peers[one]] = False
            while late and late[0][0] <= time.monotonic():
                _, end, data = late.popleft()
                _write(end, data)
        for end in (self._listener, *peers):
            end.close()

    def close(self) -> None:
        self._is_open = False


def _read(end: socket.socket) -> bytes:
    try:
        return end.recv(2**16)
    except OSError:
        return b""


def _write(end: socket.socket, data: bytes) -> None:
    try:
        if data:
            end.sendall(data)
        else:
            end.shutdown(socket.SHUT_WR)
    except OSError:
        # It has hung up.
        return


@contextmanager
def network(host: str, port: int, seconds: float = 0.0) -> Iterator[Network]:
    between = Network((host, port), seconds)
    thread = threading.Thread(target=between.forward, daemon=True)
    thread.start()
    try:
        yield between
    finally:
        between.close()
        thread.join()
