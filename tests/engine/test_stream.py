"""Streams, hardware queues and copy engines, with operations that are plain timeouts."""

import pytest

from tdsim.engine.events import EventLoop
from tdsim.engine.stream import Connection, CopyEngines, Stream


@pytest.fixture
def env():
    return EventLoop()


@pytest.fixture
def log():
    return []


def work(env, log, name, ps):
    def steps():
        begin = env.now
        yield env.timeout(ps)
        log.append((name, begin, env.now))

    return steps


def test_operations_of_a_stream_run_one_after_another(env, log):
    stream = Stream(env, "main", Connection())
    stream.enqueue(work(env, log, "a", 10))
    stream.enqueue(work(env, log, "b", 5))
    env.run()
    assert log == [("a", 0, 10), ("b", 10, 15)]


def test_streams_on_own_hardware_queues_run_side_by_side(env, log):
    for name in "ab":
        Stream(env, name, Connection()).enqueue(work(env, log, name, 10))
    env.run()
    assert log == [("a", 0, 10), ("b", 0, 10)]


def test_streams_on_one_hardware_queue_take_turns_in_the_order_of_enqueueing(env, log):
    queue = Connection()
    streams = {name: Stream(env, name, queue) for name in "abc"}
    for name in "bca":
        streams[name].enqueue(work(env, log, name, 10))
    env.run()
    assert log == [("b", 0, 10), ("c", 10, 20), ("a", 20, 30)]


def test_an_operation_may_leave_the_hardware_queue_before_it_is_complete(env, log):
    queue = Connection()
    first, second = Stream(env, "a", queue), Stream(env, "b", queue)

    def handed_over():
        yield env.timeout(2)
        first.leave_queue()
        yield env.timeout(8)
        log.append(("a", 0, env.now))

    first.enqueue(handed_over)
    first.enqueue(work(env, log, "after a", 1))
    second.enqueue(work(env, log, "b", 5))
    env.run()
    # b is behind "after a", which is not issued before a is complete
    assert log == [("a", 0, 10), ("after a", 10, 11), ("b", 11, 16)]


def test_a_stream_is_idle_when_all_it_was_given_is_complete(env, log):
    stream = Stream(env, "main", Connection())
    assert stream.idle
    stream.enqueue(work(env, log, "a", 10))
    assert not stream.idle
    env.run(until=5)
    assert not stream.idle
    env.run()
    assert stream.idle


def test_work_given_to_an_idle_stream_starts_at_once(env, log):
    stream = Stream(env, "main", Connection())
    env.run(until=7)
    stream.enqueue(work(env, log, "late", 1))
    env.run()
    assert log == [("late", 7, 8)]


def test_copies_beyond_the_number_of_engines_wait_first_come_first_served(env, log):
    engines = CopyEngines(env, 2)

    def copy(name):
        engine = yield from engines.acquire()
        begin = env.now
        yield env.timeout(10)
        engines.release(engine)
        log.append((name, begin))

    for name in "abcde":
        env.process(copy(name))
    env.run()
    assert log == [("a", 0), ("b", 0), ("c", 10), ("d", 10), ("e", 20)]


def test_a_hardware_queue_also_orders_streams_that_are_made_later(env, log):
    queue = Connection()
    Stream(env, "a", queue).enqueue(work(env, log, "a", 10))
    Stream(env, "b", queue).enqueue(work(env, log, "b", 10))
    env.run()
    assert log == [("a", 0, 10), ("b", 10, 20)]
