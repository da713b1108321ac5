"""JQL of a search: any text of people stays inside its quotes."""

import re

from hypothesis import given
from hypothesis import strategies as st

from threadline.trackers.jira import TicketQuery, quote, search_jql

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
CLAUSE = (
    r"(?:(?:project|status|issuetype|assignee) = \?|text ~ \?|assignee is EMPTY|statusCategory "
    r"!= Done|"
    r"updated >= -\d+d)"
)
QUERIES = st.builds(
    TicketQuery.model_construct,
    words=st.text(max_size=40),
    project=st.text(max_size=20),
    status=st.text(max_size=20),
    type=st.text(max_size=20),
    assignee=st.text(max_size=20),
    open_only=st.booleans(),
    updated_within_days=st.none() | st.integers(1, 3650),
)


def test_query_has_a_clause_for_each_condition() -> None:
    query = TicketQuery(words="cart AND code*", project="SHOP", assignee="nobody", open_only=True)
    assert search_jql(query) == (
        'project = "SHOP" AND text ~ "cart and code" AND assignee is EMPTY AND statusCategory != '
        "Done"
        " ORDER BY updated DESC"
    )


def test_empty_query_has_a_time_bound() -> None:
    assert search_jql(TicketQuery()) == "updated >= -30d ORDER BY updated DESC"


@given(QUERIES)
def test_text_of_people_stays_in_quotes(query: TicketQuery) -> None:
    outside = _STRING.sub("?", search_jql(query))
    assert re.fullmatch(rf"{CLAUSE}(?: AND {CLAUSE})* ORDER BY updated DESC", outside)


@given(st.text())
def test_quoted_text_is_one_string(text: str) -> None:
    assert _STRING.fullmatch(quote(text))
