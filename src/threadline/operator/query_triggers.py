"""What a request calls for beside what every request gets: words that ask for the team, the outside, skills, memory.

Rules that may change: they are asked in activities. Case and inflection do not matter, the words stand alone: "steam"
asks for no team.
"""

import re

TEAM_WORDS = (
    "team", "teammate", "member", "colleague", "staff", "people", "person", "biography", "biographies", "bio", "resume",
    "cv", "capability", "capabilities", "capacity", "availability", "skill", "expertise", "experience", "expert",
    "specialist", "qualified", "qualification", "assign", "assignee", "staffing",
)  # fmt: skip
TEAM_PHRASES = ("who can", "who could", "who knows", "who should", "who has time", "who is free", "who works")
OUTSIDE_WORDS = ("internet", "google", "wikipedia", "linkedin", "competitor")
OUTSIDE_PHRASES = (
    *("the web", "web search", "search engine", "search online", "look online", "their website", "in the news"),
    *("latest news", "market research", "external source", "external context"),
)
SKILL_WORDS = ("playbook", "runbook")
SKILL_PHRASES = ("skills system", "which skills do you", "your skills", "use a skill", "use the skill")

_LOOKED_AT = 5_000
"""Characters of a question, of which there are no more."""
_REMEMBER = re.compile(r"\s*(?:please,?\s+)?remember(?:\s+that\b|\s*:)[\s,:]*(?P<what>\S.*)", re.IGNORECASE | re.DOTALL)


def about_team(question: str) -> bool:
    """Whether it is about the people who answer requests for proposals, or one of them."""
    return _TEAM.search(question[:_LOOKED_AT]) is not None


def about_outside(question: str) -> bool:
    """Whether it asks for what only sources outside of Slack and of the records can tell."""
    return _OUTSIDE.search(question[:_LOOKED_AT]) is not None


def about_skills(question: str) -> bool:
    """Whether it asks for instructions that are kept for a kind of work."""
    return _SKILLS.search(question[:_LOOKED_AT]) is not None


def to_remember(question: str) -> str:
    """What is to be remembered, as it was said ("remember that …", "remember: …"); empty when that is not asked for.

    "Remember to …" asks for a reminder, which is a job.
    """
    found = _REMEMBER.match(question[:_LOOKED_AT])
    return found["what"].strip() if found else ""


def _any_of(words: tuple[str, ...], phrases: tuple[str, ...]) -> re.Pattern[str]:
    inflected = "|".join(rf"{re.escape(each)}(?:s|'s|ed|ing|es)?" for each in words)
    spaced = "|".join(r"\s+".join(map(re.escape, each.split())) for each in phrases)
    return re.compile(rf"(?<![\w-])(?:{inflected}|{spaced})(?![\w-])", re.IGNORECASE)


_TEAM = _any_of(TEAM_WORDS, TEAM_PHRASES)
_OUTSIDE = _any_of(OUTSIDE_WORDS, OUTSIDE_PHRASES)
_SKILLS = _any_of(SKILL_WORDS, SKILL_PHRASES)
