"""ButtonState keeps each press once."""

from dataclasses import replace

from threadline.threads.model import MAX_SEEN_PRESSES, ButtonPress, ButtonState

PRESS = ButtonPress("U1", "take", "V1", "k1", 0.0, "C1", "1.0")


def test_press_that_is_delivered_again_is_kept_once_also_after_it_was_answered() -> None:
    state = ButtonState()
    state.accept(PRESS)
    state.accept(replace(PRESS, at=5.0))
    assert state.presses == [PRESS]
    state.presses.clear()
    state.accept(PRESS)
    assert state.presses == []


def test_presses_are_kept_in_their_order() -> None:
    state = ButtonState()
    for key in ("k2", "k1", "k3"):
        state.accept(replace(PRESS, key=key))
    assert [each.key for each in state.presses] == ["k2", "k1", "k3"]


def test_oldest_keys_are_forgotten() -> None:
    state = ButtonState()
    for number in range(MAX_SEEN_PRESSES + 1):
        state.accept(replace(PRESS, key=str(number)))
    assert (len(state.seen), "0" in state.seen, "1" in state.seen) == (500, False, True)
