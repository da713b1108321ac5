"""Ports on 127.0.0.1."""

import os
import secrets
import socket
from itertools import count

HOST = "127.0.0.1"
BELOW_EPHEMERAL = range(20_000, 32_768)
"""Where Linux and macOS take no ports by themselves, unless told to (Linux begins at 32,768): between asking for a port
and listening on it, neither a connection nor a program that takes any port, as Temporal's does, can take it.
"""

_SHARES = 64
"""Each process takes ports of a share of its own: two stacks that start at once would see the same port free."""


class Ports:
    """Gives out ports that are free: each time another one, and the usual one where it is wanted and can be had."""

    def __init__(self, *, usual: bool) -> None:
        self._usual = usual
        self._given: set[int] = set()

    def take(self, usual: int) -> int:
        port = usual if self._usual and usual not in self._given and _is_free(usual) else self._any()
        self._given.add(port)
        return port

    def _any(self) -> int:
        own = BELOW_EPHEMERAL[os.getpid() % _SHARES :: _SHARES]
        for attempt in count():
            port = secrets.choice(own if attempt < len(own) else BELOW_EPHEMERAL)
            if port not in self._given and _is_free(port):
                return port
        raise AssertionError("unreachable")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port on which connections of yesterday are still timing out is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
