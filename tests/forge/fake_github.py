"""As much of GitHub's REST API as pull requests need."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from pydantic import SecretStr

TOKEN = SecretStr("ghp_verysecretverysecret")


@dataclass
class FakeGitHub:
    """`refuse` answers the next calls, `refuse_posts` the next POST; `lose_draft` stores a draft without saying so."""

    url: str = ""
    pulls: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    refuse: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    refuse_posts: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    lose_draft: bool = False
    head_of: Callable[[str], str] = str

    async def handle(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {TOKEN.get_secret_value()}"
        self.calls.append(request.method)
        if refusals := self.refuse or (self.refuse_posts if request.method == "POST" else []):
            status, headers, text = refusals.pop(0)
            return web.json_response({"message": text}, status=status, headers=headers)
        number = int(request.match_info.get("number", "0"))
        if request.method == "GET" and not number:
            branch = request.query["head"].removeprefix("acme:")
            return web.json_response([pull for pull in reversed(self.pulls) if pull["head"]["ref"] == branch])
        if number > len(self.pulls):
            return web.json_response({"message": "Not Found"}, status=404)
        if request.method == "POST":
            given = await request.json()
            number = len(self.pulls) + 1
            head = {"ref": given["head"], "sha": self.head_of(given["head"])}
            links = {"number": number, "html_url": f"https://github.example/acme/shop/pull/{number}"}
            self.pulls.append(given | links | {"head": head, "state": "open", "merged": False})
            if self.lose_draft:
                self.lose_draft = False
                return web.json_response({}, status=502)
        elif request.method == "PATCH":
            self.pulls[number - 1] |= await request.json()
        return web.json_response(self.pulls[number - 1])
