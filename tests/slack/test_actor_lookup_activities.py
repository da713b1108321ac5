"""Who asks: kept for a day, asked for once, and never in the way."""

import asyncio

import pytest

from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.slack.actor_model import Actor
from threadline.slack.people import Person
from threadline.threads.actor_lookup import KEPT, Actors
from threadline.threads.user_lookup import KnownPeople
from threadline.threads.user_names import Names

ANN = Person(name="Ann", email="Ann@Example.test")


class People:
    """Answers with what it holds, in turn, the last one again."""

    def __init__(self, *answers: Person | Exception | None) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def person(self, user: str) -> Person | None:
        self.asked.append(user)
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def test_an_actor_is_kept_and_asked_for_once_a_day(database: Database) -> None:
    people, clock = People(ANN, Person(name="Ann Lee")), Clock()
    actors = Actors(database, people, clock)
    first = await actors.of("T1", "U1")
    assert first == Actor("U1", "Ann@Example.test", "Ann", "ann@example.test", clock.now)
    assert await Actors(database, people, clock).of("T1", "U1") == first
    assert people.asked == ["U1"]
    clock.now += KEPT
    assert (await actors.of("T1", "U1")).display_name == "Ann Lee"


@pytest.mark.parametrize("failure", [Transient("Slack is away."), Permanent("The app lacks a scope."), None])
async def test_without_an_answer_there_is_what_is_known(database: Database, failure: Exception | None) -> None:
    clock = Clock()
    nobody = Actors(database, People(failure), clock)
    assert await nobody.of("T1", "U1") == Actor("U1", "", "", "", 0.0)
    known = await Actors(database, People(ANN), clock).of("T1", "U1")
    clock.now += KEPT + 1
    assert await nobody.of("T1", "U1") == known


async def test_without_a_database_slack_is_asked() -> None:
    away = Database("postgresql://nobody@localhost:1/nowhere")
    actor = await Actors(away, People(ANN), Clock()).of("T1", "U1")
    assert actor.display_name == "Ann"
    await away.dispose()


async def test_whoever_wants_to_know_shares_one_question(database: Database) -> None:
    people = People(ANN)
    known = KnownPeople(people)
    names, actors = Names(known), Actors(database, known)
    await asyncio.gather(names.of("U1"), actors.of("T1", "U1"), actors.of("T2", "U1"), known.person("U1"))
    assert await names.time_zone("U1") == ""
    assert people.asked == ["U1"]


async def test_people_are_asked_about_again_after_a_day_and_after_a_failure() -> None:
    clock = Clock()
    people = People(Transient("Slack is away."), ANN)
    known = KnownPeople(people, clock)
    with pytest.raises(Transient):
        await known.person("U1")
    assert [await known.person("U1"), await known.person("U1")] == [ANN, ANN]
    assert len(people.asked) == 2
    clock.now += KEPT
    assert await known.person("U1") == ANN
    assert len(people.asked) == 3


async def test_who_is_broken_off_leaves_the_answer_to_the_others() -> None:
    people = People(ANN)
    known = KnownPeople(people)
    impatient = asyncio.create_task(known.person("U1"))
    patient = asyncio.create_task(known.person("U1"))
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == ANN
    assert people.asked == ["U1"]
