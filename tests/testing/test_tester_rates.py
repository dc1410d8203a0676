"""Topics with a rate, in a test: jobs that the rate holds back begin as the clock is moved."""

from itertools import pairwise


def test_a_rate_lets_jobs_begin_one_after_the_other(tester, queue):
    seen = []
    queue.handler("t", rate="60/m")(lambda job: seen.append(tester.clock.time()))
    queue.put_many([queue.job("t") for _ in range(30)])
    assert tester.advance("1h") == 30
    gaps = [later - earlier for earlier, later in pairwise(seen)]
    assert min(gaps) > 0.9
    assert seen[-1] < 40


def test_a_paused_topic_with_a_rate_costs_no_steps(tester, queue):
    queue.handler("t", rate="600/m")(lambda job: None)
    queue.put("t")
    queue.topics.pause("t")
    assert tester.advance("1000d") == 0


def test_a_higher_priority_comes_first_and_a_limit_stands_in_nobodys_way(tester, queue):
    seen = []
    queue.handler("t", limit=1)(lambda job: seen.append(job.json()))
    queue.put("t", "low", delay=5, priority=-1)
    queue.put("t", "high", delay=5, priority=1)
    assert tester.advance(5) == 2
    assert seen == ["high", "low"]
