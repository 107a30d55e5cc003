import pytest

from fcnet_core.names import Mode


def stand(bench):
    bench.run(1.2)


def lie_down(bench):
    stand(bench)
    bench.core.lie_down()


def walk(bench):
    stand(bench)
    bench.core.walk()


@pytest.mark.parametrize(
    ("rate", "begin"), [(50.0, lambda bench: None), (50.0, stand), (50.0, walk), (50.0, lie_down), (500.0, walk)]
)
@pytest.mark.parametrize(
    ("stop_following", "words"),
    [("refuse", "a damp must come first"), ("follow_another", "/other"), ("follow_nobody", "")],
)
def test_a_controller_whose_targets_are_not_followed_goes_to_fault_after_100_ms(
    make_bench, rate, begin, stop_following, words
):
    bench = make_bench(rate=rate)
    bench.run(0.1)
    bench.core.following.owner = ("", False)
    bench.core.stand_up(bench.now)
    bench.run(0.06)
    bench.core.following.owner = ("/controller 0123", True)
    begin(bench)
    bench.run(0.1)
    mode = bench.core.mode
    getattr(bench, stop_following)()
    bench.run(0.08)
    assert bench.core.mode is mode
    bench.run(0.06)
    assert bench.core.mode is Mode.FAULT
    assert words in bench.core.fault
    assert bench.sent[-1] is None


def test_a_bridge_that_hesitates_to_follow_and_one_that_never_begins(bench):
    bench.run(0.1)
    for hesitation, mode in ((0.4, Mode.STANDING_UP), (0.6, Mode.FAULT)):
        bench.follow_nobody()
        bench.core.stand_up(bench.now)
        bench.run(hesitation)
        bench.core.following.owner = ("/controller 0123", True)
        bench.run(0.1)
        assert bench.core.mode is mode
        bench.core.make_passive()


def test_a_short_refusal_passes(bench):
    bench.walk()
    for _ in range(10):
        bench.refuse()
        bench.run(0.08)
        bench.core.following.refusal = ""
        bench.run(bench.period)
    assert bench.core.mode is Mode.WALKING
