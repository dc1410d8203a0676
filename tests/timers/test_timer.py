"""What a timer promises, whoever drives it."""


def test_a_timer_fires_once_with_its_arguments(timers, clock):
    calls = []
    timers.call_later(0.1, lambda *args: calls.append(args), 1, 2)
    clock.advance(1)
    assert calls == [(1, 2)]
