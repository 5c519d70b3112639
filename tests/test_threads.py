"""Threads that share out calls, and loops that wait for each other."""

import numpy as np
import pytest

from polyfm.core.threads import Team, in_order
from polyfm.loops.jit import loop


@loop
def pass_round(me, barrier, rounds, number):
    """In each round one thread after the other does what depends on the one before."""
    for _ in range(rounds):
        for turn in range(barrier.n_threads):
            if turn == me:
                number[0] = (3 * number[0] + me + 1) % 1_000_003
            if not barrier.wait():
                return


@pytest.mark.parametrize("n_threads", [1, 2, 3, 5])
def test_loops_wait_for_each_other(n_threads):
    """Also with more threads than processors."""
    number, expected, rounds = np.zeros(1, dtype=np.int64), 0, 300
    with Team(n_threads) as team:
        team.together(lambda me, barrier: pass_round(me, barrier, rounds, number))
    for _ in range(rounds):
        for me in range(n_threads):
            expected = (3 * expected + me + 1) % 1_000_003
    assert number[0] == expected


@loop
def draw_all(barrier, rounds, taken):
    """Draw the numbers of one round after the other, as `columns.epoch_sparse` does."""
    drawn = 0
    for r in range(rounds):
        c = barrier.draw() - drawn
        while c < taken.shape[1]:
            taken[r, c] += 1
            c = barrier.draw() - drawn
        drawn += taken.shape[1] + barrier.n_threads
        if not barrier.wait():
            return


@pytest.mark.parametrize("n_threads", [1, 2, 3, 5])
def test_every_number_is_drawn_once(n_threads):
    taken = np.zeros((200, 7), dtype=np.int64)
    with Team(n_threads) as team:
        team.together(lambda me, barrier: draw_all(barrier, len(taken), taken))
    assert np.all(taken == 1)


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_no_thread_waits_for_one_that_failed(who, error):
    def task(me, barrier):
        if me == who:
            raise error
        pass_round(me, barrier, 10, np.zeros(1, dtype=np.int64))

    with pytest.raises(error), Team(3) as team:
        team.together(task)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_shares_are_all_taken(n_threads):
    taken = []
    with Team(n_threads) as team:
        team.run(lambda a, b: taken.append((a, b)), [(i, i + 1) for i in range(4)])
    assert sorted(taken) == [(i, i + 1) for i in range(4)]
    assert in_order(lambda i: i * i, 5, n_threads) == [0, 1, 4, 9, 16]
