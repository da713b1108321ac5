"""The codec server's process. It has the keys and a port, and no access to Temporal, Slack or the database."""

import asyncio
import ipaddress

import structlog
from aiohttp import web

from threadline import telemetry
from threadline.errors import Permanent
from threadline.privacy.codec_server import CodecAccess, CodecServer
from threadline.privacy.encryption import EncryptionCodec
from threadline.settings import CodecSettings, LogSettings, PayloadSettings

_log = structlog.get_logger(__name__)


async def run_codec(host: str, port: int, stop: asyncio.Event) -> None:
    """Serve until `stop`.

    Raises:
        Permanent: there is no key, the address cannot be taken, or others could reach it and it asks for no token.
    """
    telemetry.configure_logging(LogSettings.read().level)
    ring, codec = PayloadSettings.read().keys, CodecSettings.read()
    if ring is None:
        raise Permanent("THREADLINE_PAYLOAD_KEYS is not set: without a key there is nothing to decrypt")
    token = codec.token.get_secret_value() if codec.token else ""
    if not token and not _is_loopback(host):
        raise Permanent(
            f"THREADLINE_CODEC_TOKEN is not set, and {host} can be reached from other machines: set it (`openssl rand "
            "-hex 24` makes one), or listen at 127.0.0.1"
        )
    server = CodecServer(EncryptionCodec(ring), CodecAccess(token, codec.origins))
    runner = web.AppRunner(server.application(), access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except (OSError, OverflowError) as error:
            raise Permanent(
                f"The codec server cannot listen at {host}:{port}: {error}. Choose another --http."
            ) from error
        _log.info("codec_ready", port=runner.addresses[0][1], token_required=bool(token))
        await stop.wait()
    finally:
        await runner.cleanup()


def _is_loopback(host: str) -> bool:
    """A name other than `localhost` may mean any address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
