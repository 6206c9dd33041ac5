"""What a spoken request may do next, and what of its text the model runner has not seen."""

from __future__ import annotations

from types import SimpleNamespace

from omnicfg.engine.speech.utterance import KEY, Utterance, begin, end, of

END = 99


def test_a_frame_waits_for_the_text_that_it_reads() -> None:
    utterance = Utterance("a", window=100, text=[7, 8])
    assert [utterance.may_speak(frame) for frame in range(4)] == [True, True, False, False]
    utterance.ended = True
    assert utterance.may_speak(3)


def test_a_frame_waits_for_a_client_that_is_behind() -> None:
    utterance = Utterance("a", window=3, ended=True)
    assert [utterance.may_speak(frame) for frame in range(4)] == [True, True, True, False]
    utterance.arrived = 2
    assert utterance.may_speak(4)
    assert not utterance.may_speak(5)


def test_text_is_handed_over_once_and_its_end_behind_it() -> None:
    utterance = Utterance("a", window=3, text=[7, 8])
    assert utterance.unread(END) == [(0, 7), (1, 8)]
    assert utterance.unread(END) == []
    utterance.text.append(9)
    utterance.ended = True
    assert utterance.unread(END) == [(2, 9), (3, END)]
    assert utterance.unread(END) == []


def test_an_utterance_is_found_by_its_requests_arguments_while_it_lasts() -> None:
    utterance = Utterance("a", window=3)
    request = SimpleNamespace(extra_args=dict(begin(utterance)))
    assert request.extra_args == {KEY: "a"}
    assert of(request) is utterance
    end("a")
    assert of(request) is None
    assert of(SimpleNamespace(extra_args=None)) is None
    assert of(None) is None
