"""Jira Cloud's REST API by its maintained client, and the calls that the client does not make as they are needed here.

Version 2, whose texts are plain: https://developer.atlassian.com/cloud/jira/platform/rest/v2/intro/.
"""

import json
from collections.abc import Mapping
from typing import Any

from jira import JIRA
from requests import Response

from threadline.trackers.errors import PageForPeople

Json = dict[str, Any]


class Wire(JIRA):
    """Blocks; without I/O at its start. It tries each request once, since retrying belongs to whoever asks.

    Args:
        timeout: seconds to connect, and between two pieces of an answer.
    """

    def __init__(self, url: str, email: str, token: str, timeout: float) -> None:
        super().__init__(
            server=url,
            basic_auth=(email, token),
            get_server_info=False,
            max_retries=0,
            timeout=timeout,
            logging=False,  # the client would log answers that it cannot read as a whole
        )
        self.deploymentType = "Cloud"
        self._session.hooks["response"].append(_refuse_what_is_no_data)

    @property
    def _fields_cache(self) -> dict[str, str]:
        """Empty: fields are named by their ids here, so the list of all of them is not asked for."""
        return {}

    def create_with(self, fields: Mapping[str, Any], properties: Mapping[str, Any]) -> Json:
        """An issue that has its entity properties from the first moment; returns its `id` and `key`.

        https://developer.atlassian.com/cloud/jira/platform/rest/v2/api-group-issues/#api-rest-api-2-issue-post
        """
        return self._send("issue", {"fields": fields, "properties": _listed(properties)})

    def comment_with(self, key: str, text: str, properties: Mapping[str, Any]) -> Json:
        """A comment that has its entity properties from the first moment.

        https://developer.atlassian.com/cloud/jira/platform/rest/v2/api-group-issue-comments/
        """
        return self._send(f"issue/{key}/comment", {"body": text, "properties": _listed(properties)})

    def newest_comments(self, key: str, count: int) -> Json:
        """The newest comments first, with their entity properties, and the `total`."""
        given = {"orderBy": "-created", "maxResults": count, "expand": "properties"}
        return dict(self._get_json(f"issue/{key}/comment", params=given))

    def shut(self) -> None:
        self._session.close()

    def _send(self, path: str, body: Json) -> Json:
        return dict(self._session.post(self._get_url(path), data=json.dumps(body)).json())


def _listed(properties: Mapping[str, Any]) -> list[Json]:
    return [{"key": key, "value": value} for key, value in properties.items()]


def _refuse_what_is_no_data(response: Response, *_: Any, **__: Any) -> None:
    """Looked at here, since the client writes an answer that it cannot read into the log as a whole.

    Raises:
        PageForPeople: HTML came.
        ValueError: it is no JSON.
    """
    if 200 <= response.status_code < 300 and response.content:
        if "html" in response.headers.get("Content-Type", ""):
            raise PageForPeople
        response.json()
