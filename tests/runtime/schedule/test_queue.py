"""The queue of runs: in turn by tenant, within its limits, nothing lost and nothing twice."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.runtime.schedule.queue import FairQueue, QueueLimits, RunRef


def wanted(tenant: str, number: int) -> RunRef:
    return RunRef(tenant, f"thr_{number}", f"run_{tenant}_{number}")


def taken(queue: FairQueue) -> Iterable[RunRef]:
    while (found := queue.take()) is not None:
        yield found


@pytest.mark.requirement("HK-31")
def test_tenants_take_turns_however_many_runs_each_has() -> None:
    queue = FairQueue(QueueLimits(running=6))
    for number in range(100):
        queue.offer(wanted("loud", number))
    for number in range(3):
        queue.offer(wanted("quiet", number))
    assert [found.tenant for found in taken(queue)] == ["loud", "quiet"] * 3


def background(tenant: str, number: int) -> RunRef:
    return RunRef(tenant, f"thr_{number}", f"run_{tenant}_b{number}", background=True)


def test_interactive_runs_go_first_and_background_ones_are_not_starved() -> None:
    now = [0.0]
    queue = FairQueue(QueueLimits(running=1), now=lambda: now[0])
    order: list[str] = []

    def work(count: int) -> None:
        for _ in range(count):
            found = queue.take()
            assert found is not None
            order.append("b" if found.background else "i")
            queue.leave(found)

    for number in range(4):
        queue.offer(background("a", number))
    for number in range(20):
        queue.offer(wanted("a", number))
    work(5)
    assert order == ["i"] * 5, "a background run that has not waited long lets every interactive one pass"
    now[0] = 15.0
    work(9)
    assert order[5:] == ["b", "i", "i", "i", "b", "i", "i", "i", "b"], "then one start in four is its own"
    work(10)
    assert sorted(order) == ["b"] * 4 + ["i"] * 20


def test_a_run_that_did_not_begin_counts_as_nobody_s_turn() -> None:
    """On several servers most that a server knows of have begun at another one when their turn comes."""
    now = [0.0]
    queue = FairQueue(QueueLimits(running=1), now=lambda: now[0])
    for number in range(30):
        queue.offer(background("a", number))
        queue.offer(wanted("a", number))
    now[0] = 15.0
    order: list[str] = []
    taken = Counter[bool]()
    while (found := queue.take()) is not None:
        taken[found.background] += 1
        begins = taken[found.background] % 3 == 0
        order += ["b" if found.background else "i"] if begins else []
        queue.leave(found, began=begins)
    assert order == ["i", "i", "i", "b"] * 3 + ["i"] + ["b"] * 7


def test_a_run_that_steps_aside_for_its_agent_has_not_had_its_turn() -> None:
    now = [0.0]
    queue = FairQueue(QueueLimits(running=2), of_agent=lambda agent: 0 if agent == "busy" else None, now=lambda: now[0])
    queue.offer(background("a", 0))
    for number in range(5):
        queue.offer(wanted("a", number))
    now[0] = 15.0
    order: list[str] = []
    while (found := queue.take()) is not None:
        if queue.enter(found, "busy" if found.run_id in ("run_a_0", "run_a_1") else "free"):
            order.append("b" if found.background else "i")
            queue.leave(found)
    assert order == ["i", "i", "i", "b"]


def test_background_runs_leave_places_free_for_interactive_ones_and_tenants_still_take_turns() -> None:
    queue = FairQueue(QueueLimits(running=16))
    for number in range(40):
        queue.offer(background("loud", number))
    queue.offer(background("quiet", 0))
    started = list(taken(queue))
    assert len(started) == 14 and started[1].tenant == "quiet"
    queue.offer(wanted("loud", 0))
    queue.offer(wanted("quiet", 1))
    assert {found.tenant for found in taken(queue)} == {"loud", "quiet"}
    queue.leave(started[0])
    assert [found.background for found in taken(queue)] == [True]


def test_a_tenant_s_runs_keep_their_order() -> None:
    queue = FairQueue(QueueLimits(running=10))
    mine = [wanted("a", number) for number in range(10)]
    for one in mine:
        queue.offer(one)
    assert list(taken(queue)) == mine


def test_no_more_runs_work_at_once_than_there_are_places() -> None:
    queue = FairQueue(QueueLimits(running=2))
    for number in range(3):
        queue.offer(wanted("a", number))
    first, second = queue.take(), queue.take()
    assert first is not None and second is not None and queue.take() is None
    queue.enter(first, "agent")
    queue.leave(first)
    assert queue.take() == wanted("a", 2)


@pytest.mark.requirement("HK-31")
def test_a_busy_agent_s_runs_step_aside_and_others_overtake_them() -> None:
    queue = FairQueue(QueueLimits(running=10), {"slow": 1}.get)
    for number in range(3):
        queue.offer(wanted("a", number))
    first, second, third = taken(queue)
    assert queue.enter(first, "slow") and not queue.enter(second, "slow") and queue.enter(third, "quick")
    assert (queue.running, queue.waiting, queue.take()) == (2, 1, None)
    queue.leave(first)
    assert queue.take() == second and queue.enter(second, "slow")


def test_a_run_that_is_offered_again_waits_once_and_not_while_it_works() -> None:
    queue = FairQueue(QueueLimits())
    for _ in range(3):
        assert queue.offer(wanted("a", 1))
    assert queue.waiting == 1 and queue.take() == wanted("a", 1)
    assert queue.offer(wanted("a", 1)) and queue.take() is None


@pytest.mark.requirement("G13", "G14")
def test_a_full_queue_refuses_and_says_whose_fault_it_is() -> None:
    queue = FairQueue(QueueLimits(waiting=3, waiting_per_tenant=2))
    assert queue.offer(wanted("a", 1)) and queue.refusal("a") is None
    assert queue.offer(wanted("a", 2))
    mine, other = queue.refusal("a"), queue.refusal("b")
    assert mine is not None and mine.code == "TENANT_BUSY" and other is None
    assert queue.offer(wanted("b", 1)) and not queue.offer(wanted("b", 2))
    everybody = queue.refusal("c")
    assert everybody is not None and everybody.code == "SERVER_BUSY"


@pytest.mark.requirement("HK-31")
@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=60))
def test_no_tenant_gets_a_second_turn_before_each_waiting_one_had_its_first(tenants: list[str]) -> None:
    queue = FairQueue(QueueLimits(running=1000))
    for number, tenant in enumerate(tenants):
        queue.offer(wanted(tenant, number))
    turns, left = Counter[str](), Counter(tenants)
    for found in taken(queue):
        turns[found.tenant] += 1
        left[found.tenant] -= 1
        waiting = [turns[tenant] for tenant in left if left[tenant]]
        assert not waiting or turns[found.tenant] - min(waiting) <= 1
    assert turns == Counter(tenants)


def test_a_run_gets_a_place_at_once_only_where_nobody_waits_before_it() -> None:
    queue = FairQueue(QueueLimits(running=2), {"slow": 1}.get)
    assert queue.at_once(wanted("a", 1), "slow")
    assert not queue.at_once(wanted("a", 2), "slow"), "its agent is busy"
    assert queue.at_once(wanted("a", 3), "free")
    assert not queue.at_once(wanted("a", 4), "free"), "there is no place left"
    queue.leave(wanted("a", 3))
    queue.offer(wanted("b", 5))
    assert not queue.at_once(wanted("a", 6), "free"), "somebody stands in line"


class Queueing(RuleBasedStateMachine):
    """Any order of offers, takes, entries and leaves, against plain sets."""

    LIMITS = {"slow": 1, "two": 2, "free": None}

    def __init__(self) -> None:
        super().__init__()
        self.queue = FairQueue(QueueLimits(running=3, waiting=8, waiting_per_tenant=5), self.LIMITS.get)
        self.number = 0
        self.inside: set[RunRef] = set()
        """Offered with success and not left since."""
        self.placed: dict[RunRef, str | None] = {}
        self.agents: dict[RunRef, str] = {}
        """Of whom it is known: a run's agent never changes."""

    @rule(tenant=st.sampled_from("abc"))
    def offer(self, tenant: str) -> None:
        self.number += 1
        one = wanted(tenant, self.number)
        full = self.queue.waiting >= 8
        assert self.queue.offer(one) is not full
        if not full:
            self.inside.add(one)

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def offer_again(self, data: st.DataObject) -> None:
        before = self.queue.waiting
        again = data.draw(st.sampled_from(sorted(self.inside, key=lambda one: one.run_id)))
        assert self.queue.offer(again) and self.queue.waiting == before

    @rule()
    def take(self) -> None:
        found = self.queue.take()
        if found is not None:
            assert found in self.inside and found not in self.placed
            self.placed[found] = None

    @precondition(lambda self: None in self.placed.values())
    @rule(agent=st.sampled_from(["slow", "two", "free"]))
    def enter(self, agent: str) -> None:
        one = next(one for one, entered in self.placed.items() if entered is None)
        agent = self.agents.setdefault(one, agent)
        limit = self.LIMITS[agent]
        has_room = limit is None or list(self.placed.values()).count(agent) < limit
        assert self.queue.enter(one, agent) is has_room
        if has_room:
            self.placed[one] = agent
        else:
            del self.placed[one]

    @precondition(lambda self: self.placed)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(sorted(self.placed, key=lambda one: one.run_id)))
        self.queue.leave(one)
        del self.placed[one]
        self.inside.discard(one)

    @invariant()
    def nothing_is_lost_and_limits_hold(self) -> None:
        assert self.queue.running == len(self.placed) <= 3
        assert self.queue.waiting == len(self.inside) - len(self.placed)
        assert sum(map(self.queue.waiting_of, "abc")) == self.queue.waiting

    def teardown(self) -> None:
        """However it stands, working it off brings every run out."""
        for _ in range(200):
            for one in list(self.placed):
                self.leave_one(one)
            if self.queue.waiting == 0 and self.queue.running == 0:
                return
            found = self.queue.take()
            if found is not None:
                self.queue.enter(found, self.agents.get(found, "free"))
                self.leave_one(found)
        raise AssertionError("a run waits for ever")

    def leave_one(self, one: RunRef) -> None:
        self.queue.leave(one)
        self.placed.pop(one, None)
        self.inside.discard(one)


TestQueueing = Queueing.TestCase
TestQueueing.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_a_run_that_only_waits_lends_its_place_and_comes_back_at_once() -> None:
    queue = FairQueue(QueueLimits(running=1))
    for number in range(3):
        queue.offer(wanted("a", number))
    first = queue.take()
    assert first is not None and queue.enter(first, "agent") and queue.take() is None
    assert queue.step_out(first) and not queue.step_out(first)
    second = queue.take()
    assert second == wanted("a", 1) and not queue.step_out(second), "no more wait outside than there are places"
    queue.step_in(first)
    assert queue.running == 2
    queue.leave(second)
    assert queue.take() is None, "nobody begins until the number is within its limit again"
    queue.leave(first)
    assert queue.take() == wanted("a", 2)


def test_a_run_that_leaves_while_it_waits_outside_leaves_nothing_behind() -> None:
    queue = FairQueue(QueueLimits(running=1))
    queue.offer(wanted("a", 0))
    first = queue.take()
    assert first is not None and queue.enter(first, "agent") and queue.step_out(first)
    queue.leave(first)
    queue.step_in(first)
    assert queue.running == 0
