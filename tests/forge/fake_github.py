"""The part of GitHub's REST API that pull requests need."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from pydantic import SecretStr

REPOSITORY = 4711
"""GitHub's id of the repository `acme/shop`."""
TOKEN = SecretStr("ghp_verysecretverysecret")


@dataclass
class FakeGitHub:
    """`refuse` answers the next calls, `refuse_posts` the next POST, with a message or a whole
    body. `lose_draft` stores a draft and loses the response.
    """

    url: str = ""
    pulls: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    refuse: list[tuple[int, dict[str, str], str | dict[str, Any]]] = field(default_factory=list)
    refuse_posts: list[tuple[int, dict[str, str], str | dict[str, Any]]] = field(
        default_factory=list
    )
    lose_draft: bool = False
    takes_drafts: bool = True
    ignores_head: bool = False
    """Lists the pull requests of every branch, as some servers do when they do not know the
    head.
    """
    head_of: Callable[[str], str] = str

    async def handle(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {TOKEN.get_secret_value()}"
        self.calls.append(request.method)
        if refusals := self.refuse or (self.refuse_posts if request.method == "POST" else []):
            status, headers, said = refusals.pop(0)
            body = said if isinstance(said, dict) else {"message": said}
            return web.json_response(body, status=status, headers=headers)
        number = int(request.match_info.get("number", "0"))
        if request.method == "GET" and not number:
            branch = request.query["head"].removeprefix("acme:")
            pulls = [
                each
                for each in reversed(self.pulls)
                if self.ignores_head or each["head"]["ref"] == branch
            ]
            size = int(request.query["per_page"])
            page = int(request.query["page"])
            return web.json_response(pulls[(page - 1) * size : page * size])
        if number > len(self.pulls):
            return web.json_response({"message": "Not Found"}, status=404)
        if request.method == "POST":
            given = await request.json()
            if given["draft"] and not self.takes_drafts:
                said = "Draft pull requests are not supported in this repository."
                return web.json_response({"message": said}, status=422)
            self.add(given, self.head_of(given["head"]))
            number = len(self.pulls)
            if self.lose_draft:
                self.lose_draft = False
                return web.json_response({}, status=502)
        elif request.method == "PATCH":
            self.pulls[number - 1] |= await request.json()
        return web.json_response(self.pulls[number - 1])

    def add(
        self, given: dict[str, Any], sha: str, repository: int | None = REPOSITORY
    ) -> dict[str, Any]:
        """A pull request from the branch `given["head"]` of a repository; None where that was
        deleted.
        """
        number = len(self.pulls) + 1
        source = None if repository is None else {"id": repository}
        pull = given | {
            "number": number,
            "html_url": f"https://github.example/acme/shop/pull/{number}",
            "head": {"ref": given["head"], "sha": sha, "repo": source},
            "base": {"ref": given["base"], "repo": {"id": REPOSITORY}},
            "state": "open",
            "merged": False,
        }
        self.pulls.append(pull)
        return pull
