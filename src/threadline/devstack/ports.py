"""Ports on 127.0.0.1."""

import socket

HOST = "127.0.0.1"


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
        while True:
            with socket.socket() as probe:
                probe.bind((HOST, 0))
                port = int(probe.getsockname()[1])
            if port not in self._given:
                return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port on which connections of yesterday are still timing out is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
