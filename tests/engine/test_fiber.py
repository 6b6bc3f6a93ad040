"""Fibers: straight-line functions that wait for events."""

import pytest
import simpy

from tdsim.engine.events import EventLoop
from tdsim.engine.fiber import Fiber, wait


@pytest.fixture
def env():
    return EventLoop()


@pytest.fixture
def log():
    return []


def start(env, body, enter=lambda: None):
    return Fiber(env, body, enter)


def test_a_fiber_waits_at_any_call_depth(env, log):
    def deep(n):
        if n:
            deep(n - 1)
        else:
            wait(env.timeout(5))
            log.append(env.now)

    start(env, lambda: deep(20))
    env.run()
    assert log == [5]


def test_wait_returns_the_value_of_the_event(env, log):
    event = simpy.Event(env)
    start(env, lambda: log.append(wait(event)))
    event.succeed("landed")
    env.run()
    assert log == ["landed"]


def test_waiting_for_an_event_that_has_happened_does_not_stop(env, log):
    past = env.timeout(3)

    def body():
        wait(env.timeout(7))
        wait(past)
        log.append(env.now)

    start(env, body)
    env.run()
    assert log == [7]


def test_fibers_interleave_in_the_order_of_their_start(env, log):
    def body(name):
        for _ in range(2):
            log.append((name, env.now))
            wait(env.timeout(1))

    start(env, lambda: body("a"))
    start(env, lambda: body("b"))
    env.run()
    assert log == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]


def test_enter_runs_before_a_fiber_gains_control_each_time(env, log):
    def body():
        log.append("first")
        wait(env.timeout(1))
        log.append("second")

    start(env, body, lambda: log.append("enter"))
    env.run()
    assert log == ["enter", "first", "enter", "second"]


def test_done_happens_when_the_body_has_returned(env, log):
    fiber = start(env, lambda: wait(env.timeout(9)))
    fiber.done.callbacks.append(lambda _: log.append(env.now))
    env.run()
    assert log == [9]


def test_a_waiting_fiber_shows_the_frame_that_waits(env):
    never = simpy.Event(env)

    def stuck():
        wait(never)

    fiber = start(env, stuck)
    env.run()
    names = []
    frame = fiber.frame
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    assert "stuck" in names


def test_an_error_in_a_fiber_reaches_the_caller_of_run(env):
    def body():
        wait(env.timeout(1))
        raise LookupError("from the body")

    start(env, body)
    with pytest.raises(LookupError, match="from the body"):
        env.run()


def test_wait_outside_a_fiber_names_the_cure(env):
    with pytest.raises(
        RuntimeError, match=r"outside a fiber; start one with Fiber\(env, body, enter\)"
    ):
        wait(env.timeout(1))
