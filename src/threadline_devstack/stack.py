"""The whole product on one machine. Starts the services that the caller does not configure, and
ends all that it started.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from threadline.db import migrate
from threadline.errors import Permanent
from threadline_devstack import environment, postgres, temporal
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.processes import (
    HOST,
    ChildCommand,
    FreePorts,
    ProcessGroup,
    ready_on_event,
)
from threadline_devstack.sample_records import load_sample_records
from threadline_devstack.sample_repository import make_sample_repository
from threadline_devstack.slack import identity
from threadline_devstack.slack.app import SlackSandbox
from threadline_devstack.state_folder import StateFolder
from threadline_devstack.trackers.app import TrackerSandbox

PRODUCT = ("gateway", "core", "agents")
"""The three processes of the product; the services that they need start before them and stop after
them.
"""

_OPENAI_KEY = "OPENAI_API_KEY"
_MODELS = ("ANTHROPIC", "OPENAI")
_HEALTH_PORTS = {"core": 3001, "agents": 3002}
OnProgress = Callable[[str], None]
Settings = dict[str, str]


_APPROVERS = f"{identity.DEVELOPER},{identity.SECOND_DEVELOPER}"
"""Approvers in the sandbox."""


@dataclass(frozen=True)
class StackOptions:
    """Options of a stack.

    Args:
        given: the caller's environment: real tokens, keys and addresses in it replace services
            that would be started.
        settings: further settings for the product's processes, such as
            `THREADLINE_REPORTER_TIMEOUT`.
        pace: seconds of pause before each reply of the model sandbox, so that people can watch.
        slack: the Slack sandbox to run.
        trackers: the sandbox of Jira and GitHub to run.
        usual_ports: take the well-known ports (7233, 8233, 8800, …) if they are free.
        fresh: remove the data of earlier stacks from the folder.
    """

    given: Mapping[str, str]
    settings: Mapping[str, str] | None = None
    pace: float = 0.0
    slack: type[SlackSandbox] = SlackSandbox
    trackers: type[TrackerSandbox] = TrackerSandbox
    usual_ports: bool = False
    fresh: bool = False


class Stack:
    """A running stack; see `running`.

    `settings` has the settings of the product's processes, secrets included; `processes` has the
    processes by name, and `health_urls` the addresses at which workers answer `/healthz` and
    `/readyz`. The sandboxes run in this process, which must therefore not block for long.
    """

    def __init__(self, home: StateFolder, options: StackOptions, on_progress: OnProgress) -> None:
        self.home = home
        self.ui_url = ""
        self.health_urls: dict[str, str] = {}
        self.settings: Settings = {}
        self._options = options
        self._on_progress = on_progress
        self._given = {name: value for name, value in options.given.items() if value}
        self.processes = ProcessGroup(home.logs)
        self._sandboxes = AsyncExitStack()
        self._slack: SlackSandbox | None = None
        self._model: ModelSandbox | None = None
        self._trackers: TrackerSandbox | None = None
        self._ports = FreePorts(usual=options.usual_ports)
        self._machine = environment.pick(options.given, environment.MACHINE) | {
            "PYTHONUNBUFFERED": "1"
        }

    @classmethod
    @asynccontextmanager
    async def running(
        cls, home: Path, options: StackOptions, on_progress: OnProgress = lambda line: None
    ) -> AsyncIterator[Self]:
        """Run a stack for as long as the block runs.

        Args:
            home: THREADLINE_HOME, for logs and data; one stack at a time uses it.
            on_progress: gets a line about each part as soon as it is up.

        Raises:
            Permanent: a part cannot be started; with the end of its log.
        """
        place = StateFolder(home)
        with place.locked():
            if options.fresh:
                _begin_anew(place, options.given)
            stack = cls(place, options, on_progress)
            try:
                await stack._start()
                yield stack
            finally:
                await stack._stop()

    @property
    def temporal_address(self) -> str:
        return self.settings["TEMPORAL_ADDRESS"]

    @property
    def temporal_namespace(self) -> str:
        return self.settings.get("TEMPORAL_NAMESPACE", temporal.NAMESPACE)

    @property
    def database_url(self) -> str:
        return self.settings["DATABASE_URL"]

    @property
    def words_are_scripted(self) -> bool:
        return "ANTHROPIC_API_KEY" not in self._given

    @property
    def slack_is_real(self) -> bool:
        return "SLACK_BOT_TOKEN" in self._given

    @property
    def slack(self) -> SlackSandbox:
        if self._slack is None:
            raise Permanent("This stack talks to the real Slack: it has no sandbox.")
        return self._slack

    @property
    def model(self) -> ModelSandbox:
        if self._model is None or not self.words_are_scripted:
            raise Permanent("This stack talks to a real model: it has no sandbox.")
        return self._model

    @property
    def trackers(self) -> TrackerSandbox:
        if self._trackers is None:
            raise Permanent(
                "This stack talks to a real Jira and a real GitHub: it has no sandbox of them."
            )
        return self._trackers

    async def _start(self) -> None:
        _check_models(self._given)
        self.settings = environment.pick(
            self._given,
            environment.GATEWAY,
            environment.CORE,
            environment.AGENTS,
            environment.PROXIES,
        )
        await self._together(
            self._start_temporal(),
            self._start_postgres(),
            self._start_slack(),
            self._start_model(),
            self._start_trackers(),
        )
        if "THREADLINE_REPO" not in self._given:
            make_sample_repository(self.home.repository)
            self.settings["THREADLINE_REPO"] = str(self.home.repository)
            self._on_progress("The sample repository is made")
        self.settings |= {"THREADLINE_HOME": str(self.home.root)} | dict(
            self._options.settings or {}
        )
        self.home.write_settings(environment.pick(self.settings, environment.COMMANDS))
        await self._together(*(self._start_product(name) for name in PRODUCT))

    async def _stop(self) -> None:
        await self.processes.stop_all([reversed(PRODUCT)])
        await self._sandboxes.aclose()

    async def _together(self, *parts: Coroutine[Any, Any, None]) -> None:
        """Start parts that do not need each other; the first failure cancels the others."""
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _start_temporal(self) -> None:
        if "TEMPORAL_ADDRESS" in self._given:
            return
        port = self._ports.take(8234) if self._setting("THREADLINE_PAYLOAD_KEYS") else 0
        codec_url = f"http://{HOST}:{port}" if port else ""
        server = await temporal.start(
            self.processes, self.home.root, self._ports, self._machine, codec_url=codec_url
        )
        self.ui_url = server.ui_url
        if port:
            await self._start_codec(port)
        for name in environment.TEMPORAL:  # keys and certificates of another server
            self.settings.pop(name, None)
        # Without this, the SDK would read the user's own profile, with the same effect.
        self.settings |= {"TEMPORAL_ADDRESS": server.address, "TEMPORAL_CONFIG_FILE": os.devnull}
        self.settings["THREADLINE_TEMPORAL_UI"] = server.ui_url
        self._on_progress(f"Temporal is up: {server.ui_url}")

    async def _start_codec(self, port: int) -> None:
        """Start the codec server. By default it has no token: everybody who can reach the UI on
        this machine may see its data.
        """
        origins = f"{self.ui_url},{self.ui_url.replace(HOST, 'localhost')}"
        chosen = {name: self._setting(name) for name in environment.CODEC}
        told = {"THREADLINE_CODEC_ORIGINS": origins} | {
            name: value for name, value in chosen.items() if value
        }
        arguments = (sys.executable, "-m", "threadline", "codec", "--http", f"{HOST}:{port}")
        await self.processes.start(
            ChildCommand(
                "codec",
                arguments,
                self._machine | told,
                ready=ready_on_event("codec_ready"),
                within=60,
            )
        )
        self._on_progress("Payloads are encrypted; the codec server is up for Temporal's UI")

    def _setting(self, name: str) -> str:
        return (self._options.settings or {}).get(name) or self._given.get(name, "")

    async def _start_postgres(self) -> None:
        if "DATABASE_URL" not in self._given:
            databases = await postgres.start(
                self.processes, self.home.root, self._ports, self._machine
            )
            self.settings |= {
                "DATABASE_URL": databases.owner,
                "THREADLINE_AGENT_DATABASE_URL": databases.agent,
            }
            self._on_progress("Postgres is up, with the newest schema")
            if not self.slack_is_real:
                await load_sample_records(databases.owner, identity.TEAM)
            return
        if "THREADLINE_AGENT_DATABASE_URL" not in self._given:
            raise Permanent(
                "DATABASE_URL is set and THREADLINE_AGENT_DATABASE_URL is not: give the agent "
                "worker a login of its own, `threadline_agent`, which `threadline db upgrade` "
                "creates; or set neither."
            )
        await asyncio.to_thread(migrate.upgrade, self._given["DATABASE_URL"])
        self._on_progress("Postgres has the newest schema")

    async def _start_slack(self) -> None:
        if not self.slack_is_real:
            self._slack = await self._sandboxes.enter_async_context(
                self._options.slack.running(port=self._ports.take(8800), file=self.home.slack)
            )
            people = {"THREADLINE_ONCALL": identity.ON_CALL, "THREADLINE_APPROVERS": _APPROVERS}
            self.settings = people | self.settings | self._slack.settings
            self._on_progress(f"The Slack sandbox is up: {self._slack.url}")

    async def _start_model(self) -> None:
        """Start the sandbox of each model without a key: a real key is never combined with the
        sandbox's address.
        """
        scripted = tuple(name for name in _MODELS if f"{name}_API_KEY" not in self._given)
        if scripted:
            running = ModelSandbox.running(port=self._ports.take(8900), pace=self._options.pace)
            self._model = await self._sandboxes.enter_async_context(running)
            self.settings |= {
                name: value
                for name, value in self._model.settings.items()
                if name.startswith(scripted)
            }
            self._on_progress("The model sandbox is up")

    async def _start_trackers(self) -> None:
        if not (wanted := environment.without_a_service(self._given)):
            return
        running = self._options.trackers.running(self._ports.take(8950))
        self._trackers = await self._sandboxes.enter_async_context(running)
        self.settings |= {
            name: value
            for name, value in self._trackers.settings.items()
            if name.startswith(wanted)
        }
        # with a real Slack, the core worker has the caller's proxies
        for name in ("NO_PROXY", "no_proxy"):
            self.settings[name] = ",".join(
                filter(None, (self.settings.get(name), HOST, "localhost"))
            )
        self._on_progress("The sandbox of Jira and GitHub is up")

    async def _start_product(self, name: str) -> None:
        allowed = {
            "gateway": environment.GATEWAY,
            "core": environment.CORE,
            "agents": environment.AGENTS,
        }[name]
        arguments = ("gateway", *self._http()) if name == "gateway" else self._worker(name)
        await self.processes.start(
            ChildCommand(
                name,
                (sys.executable, "-m", "threadline", *arguments),
                self._machine | environment.pick(self.settings, allowed) | self._proxies(name),
                ready=ready_on_event("gateway_ready" if name == "gateway" else "worker_ready"),
                within=60,
            )
        )
        self._on_progress(f"The {name if name == 'gateway' else f'{name} worker'} is up")

    def _proxies(self, name: str) -> Settings:
        """Return the caller's proxies for a process that talks to a real service, with this
        machine excluded.
        """
        outside = {
            "agents": not self.words_are_scripted,
            "core": self.slack_is_real or _OPENAI_KEY in self._given,
        }.get(name, self.slack_is_real)
        found = environment.pick(self.settings, environment.PROXIES) if outside else {}
        if not found:
            return {}
        spared = ",".join(filter(None, (found.get("no_proxy") or found.get("NO_PROXY"), HOST)))
        return found | {"NO_PROXY": spared, "no_proxy": spared}

    def _worker(self, name: str) -> tuple[str, ...]:
        address = f"{HOST}:{self._ports.take(_HEALTH_PORTS[name])}"
        self.health_urls[name] = f"http://{address}"
        return ("worker", "--queue", name, "--health", address)

    def _http(self) -> tuple[str, ...]:
        if "SLACK_APP_TOKEN" in self.settings:
            return ()
        address = f"{HOST}:{self._ports.take(3000)}"
        self._on_progress(
            "Without SLACK_APP_TOKEN, Slack's events are expected at "
            f"http://{address}/slack/events"
        )
        return ("--http", address)


def _check_models(given: Mapping[str, str]) -> None:
    """Check that a model's address comes with its key; otherwise the stand-in would answer
    instead. Raises `Permanent`.
    """
    for name in _MODELS:
        if f"{name}_BASE_URL" in given and f"{name}_API_KEY" not in given:
            raise Permanent(
                f"{name}_BASE_URL is set and {name}_API_KEY is not: set the key as well (any "
                f"word where the endpoint wants none), or unset {name}_BASE_URL, and the "
                "stand-in answers."
            )


def _begin_anew(home: StateFolder, given: Mapping[str, str]) -> None:
    """Remove the data of earlier stacks. Raises `Permanent` if one of the services is the
    caller's: half of the data would be gone, and the rest would refer to it.
    """
    others = [
        name for name in ("DATABASE_URL", "TEMPORAL_ADDRESS", "SLACK_BOT_TOKEN") if given.get(name)
    ]
    if others:
        raise Permanent(
            f"--fresh removes what this folder holds, and {', '.join(others)} names a service "
            "outside of it: unset it, or leave --fresh out and set THREADLINE_HOME to a new "
            "folder."
        )
    home.clear()
