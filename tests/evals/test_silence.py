"""The floor of the rule for silence, on labelled threads."""

from tests.evals import silence
from threadline.db.engine import Database


async def test_the_rules_are_right_on_the_labelled_threads(database: Database) -> None:
    judged = await silence.judge_by_rules(silence.examples(), database)
    wrong = [(each.by_rule, each.example) for each in judged if each.right is False]
    assert silence.share_right(judged) >= silence.FLOOR, wrong
    assert silence.share_decided(judged) >= silence.DECIDED
    left = {each.example for each in judged if each.right is None}
    assert left == {each.example for each in judged if each.example.for_model}


def test_half_of_the_threads_must_stay_silent() -> None:
    examples = silence.examples()
    silent = [each for each in examples if not each.answers]
    assert len(examples) >= 80
    assert len(silent) * 2 >= len(examples)
