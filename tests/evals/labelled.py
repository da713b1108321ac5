"""The labelled sets: questions with the section that answers each, and queries with the right
decision.

They are `questions.yaml` and `decisions.yaml` beside this file, which explain their keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from threadline.decisions.engine import Situation
from threadline.decisions.model import DecisionType, sensitive_topics
from threadline.knowledge.documents import parse_document, split_document
from threadline.knowledge.model import DocumentType, Source

FOLDER = Path(__file__).parent
DOCUMENTS = FOLDER / "documents"
QUESTIONS = FOLDER / "questions.yaml"
DECISIONS = FOLDER / "decisions.yaml"

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class WrongSet(ValueError):
    """A labelled set is invalid; the message gives the place of the error, and the correction."""


class Kind(StrEnum):
    """The property that makes a question's answer easy or hard to find; see `questions.yaml`."""

    SAME = "same"
    PARAPHRASED = "paraphrased"
    TYPOS = "typos"
    REPLACED = "replaced"
    IDENTIFIERS = "identifiers"
    LANGUAGES = "languages"


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Asked(_Entry):
    document: Words
    section: Words
    question: Words


class _Source(_Entry):
    title: Words
    section: str = ""
    text: Words


class _Query(_Entry):
    query: Words
    design: bool = False
    about: str = ""
    recent: tuple[Annotated[Mapping[Words, Words], Field(min_length=1, max_length=1)], ...] = ()
    sources: tuple[_Source, ...] = ()


class _Questions(_Entry):
    as_of: date
    same: tuple[_Asked, ...]
    paraphrased: tuple[_Asked, ...]
    typos: tuple[_Asked, ...]
    replaced: tuple[_Asked, ...]
    identifiers: tuple[_Asked, ...]
    languages: tuple[_Asked, ...]


class _Decisions(_Entry):
    tools: Mapping[Words, Words]
    retrieve: tuple[_Query, ...] = Field(alias="RETRIEVE")
    reason_only: tuple[_Query, ...] = Field(alias="REASON_ONLY")
    use_tool: tuple[_Query, ...] = Field(alias="USE_TOOL")
    clarify: tuple[_Query, ...] = Field(alias="CLARIFY")
    escalate: tuple[_Query, ...] = Field(alias="ESCALATE")


@dataclass(frozen=True)
class Question:
    """`document` is a file of the folder `documents`, `section` a path of headings in it."""

    kind: Kind
    document: str
    section: str
    text: str


@dataclass(frozen=True)
class Questions:
    """`as_of`: the date of the questions."""

    as_of: date
    all: tuple[Question, ...]


@dataclass(frozen=True)
class Example:
    """A query in its situation, and the right decision; `about`: the difficulty, in a word or
    two.
    """

    right: DecisionType
    situation: Situation
    design: bool = False
    about: str = ""


def questions(path: Path = QUESTIONS, folder: Path = DOCUMENTS) -> Questions:
    """Read the questions, each of which must name an existing section.

    Raises:
        WrongSet: a labelled set is invalid.
    """
    read = _read(path, _Questions)
    found = [
        Question(kind, each.document, each.section, each.question)
        for kind in Kind
        for each in getattr(read, kind)
    ]
    _demand_once(path, [each.text for each in found])
    known = sections(folder)
    for each in found:
        if each.section not in known.get(each.document, ()):
            there = (
                ", ".join(known.get(each.document, ()))
                or f"no such document, but {', '.join(known)}"
            )
            raise WrongSet(
                f"{path.name} expects {each.document}, {each.section!r}, and there is: {there}."
            )
    return Questions(read.as_of, tuple(found))


def decisions(path: Path = DECISIONS) -> tuple[Example, ...]:
    """Read the queries in the form that the engine gets.

    Raises:
        WrongSet: a labelled set is invalid.
    """
    read = _read(path, _Decisions)
    labelled = [
        (action, each) for action in DecisionType for each in getattr(read, action.lower())
    ]
    _demand_once(path, [" / ".join([*_said(each), each.query]) for _, each in labelled])
    return tuple(
        Example(action, _situation(each, read.tools), each.design, each.about)
        for action, each in labelled
    )


def sections(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the sections with a heading of each document of a folder, under the names that
    retrieval uses.
    """
    read = {
        path.name: parse_document(path.name, path.read_bytes()).document
        for path in sorted(folder.glob("*.md"))
    }
    return {
        name: tuple(
            dict.fromkeys(piece.section for piece in split_document(each) if piece.section)
        )
        for name, each in read.items()
    }


def _said(asked: _Query) -> list[str]:
    return [text for said in asked.recent for text in said.values()]


def _situation(asked: _Query, tools: Mapping[str, str]) -> Situation:
    return Situation(
        asked.query,
        tuple(f"{author}: {text}" for said in asked.recent for author, text in said.items()),
        sources=tuple(
            Source(each.title, each.section, each.title, "", each.text) for each in asked.sources
        ),
        tools=tools,
        sensitive=sensitive_topics(asked.query),
        types=tuple(DocumentType),
    )


_Set = TypeVar("_Set", bound=_Entry)


def _read(path: Path, shape: type[_Set]) -> _Set:
    try:
        return shape.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except OSError as error:
        raise WrongSet(f"{path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise WrongSet(f"{path.name} is no YAML: {error}") from error
    except ValidationError as error:
        raise WrongSet(
            "\n".join(f"{path.name}: {_told(each)}" for each in error.errors())
        ) from error


def _told(error: Any) -> str:
    """Return the place of an error in an entry; entries count from 1."""
    where = ", ".join(
        f"entry {part + 1}" if isinstance(part, int) else str(part) for part in error["loc"]
    )
    return f"{where or 'the file'}: {error['msg']}."


def _demand_once(path: Path, asked: Sequence[str]) -> None:
    if twice := sorted({each for each in asked if asked.count(each) > 1}):
        raise WrongSet(f"{path.name} asks twice: {'; '.join(twice)}. Leave one of each.")
