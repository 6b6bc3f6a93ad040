"""SM slots: who gets one, who waits, and in which order."""

from hypothesis import given
from hypothesis import strategies as st

from tdsim.engine.sm import SM_UNITS, Grid, SmPool


def submit(pool, log, name, count, ctas_per_sm=1):
    grid = Grid(count, ctas_per_sm, lambda i, sm: log.append((name, i, sm)), name)
    pool.submit(grid)
    return grid


def test_each_cta_goes_to_the_emptiest_sm():
    pool, log = SmPool(3), []
    submit(pool, log, "a", 5, ctas_per_sm=2)
    assert [sm for _, _, sm in log] == [0, 1, 2, 0, 1]


def test_a_grid_larger_than_the_gpu_waits_for_slots():
    pool, log = SmPool(2), []
    grid = submit(pool, log, "a", 3)
    assert [i for _, i, _ in log] == [0, 1]
    assert pool.waiting == (grid,)
    pool.release(1, grid.cost)
    assert log[-1] == ("a", 2, 1)
    assert pool.resident == 2


def test_a_later_grid_does_not_overtake_one_that_waits():
    pool, log = SmPool(2), []
    first = submit(pool, log, "first", 3)
    submit(pool, log, "second", 1)
    pool.release(0, first.cost)
    pool.release(1, first.cost)
    assert [name for name, _, _ in log] == ["first", "first", "first", "second"]


def test_a_small_cta_does_not_fit_beside_one_that_takes_the_whole_sm():
    pool, log = SmPool(1), []
    big = submit(pool, log, "big", 1)
    submit(pool, log, "small", 1, ctas_per_sm=4)
    assert [name for name, _, _ in log] == ["big"]
    pool.release(0, big.cost)
    assert [name for name, _, _ in log] == ["big", "small"]


@given(
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from([1, 2, 4])), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
)
def test_every_cta_runs_once_and_no_sm_is_ever_overfull(num_sms, grids, random):
    pool, running, started = SmPool(num_sms), [], []
    used = [0] * num_sms

    def start(name, cost, i, sm):
        used[sm] += cost
        assert used[sm] <= SM_UNITS
        running.append((sm, cost))
        started.append((name, i))

    for name, (count, per_sm) in enumerate(grids):
        cost = SM_UNITS // per_sm
        pool.submit(
            Grid(count, per_sm, lambda i, sm, n=name, c=cost: start(n, c, i, sm), str(name))
        )
    while running:
        sm, cost = running.pop(random.randrange(len(running)))
        used[sm] -= cost
        pool.release(sm, cost)
    assert sorted(started) == [
        (n, i) for n, (count, _) in enumerate(grids) for i in range(count)
    ]
    assert [n for n, _ in started] == sorted(n for n, _ in started)
    assert pool.waiting == ()
    assert pool.resident == 0
