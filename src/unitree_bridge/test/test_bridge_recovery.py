"""A bridge lets a robot that lies on its back move only where a parameter and a request say so."""

import pytest

from unitree_lowlevel.fake_board.faults import BoardFaults

ON_ITS_BACK = BoardFaults(tilt=(3.0, 0.0))


@pytest.fixture
def on_its_back(board):
    board.faults = ON_ITS_BACK
    yield
    board.faults = BoardFaults()


@pytest.mark.parametrize("allowed", [False, True])
def test_targets_begin_where_a_recovery_is_allowed_and_requested(start, client, board, robot, on_its_back, allowed):
    start(auto_start=True, allow_recovery=allowed)
    client.until_driver_mode("damping")
    client.until(lambda: "tilt" in client.health.get("warnings", ""), "a warning of the tilt")

    def is_followed(request):
        board.commands.reset()
        client.send_targets(None, 0.2)
        if request:
            assert client.call("aliengo_bridge/recover").success is allowed
        client.send_targets(robot.lie_pose, 0.5)
        return board.commands.last_stiff() is not None

    assert not is_followed(request=False)
    if not allowed:
        assert not is_followed(request=True)
        return
    client.until(lambda: is_followed(request=True), "targets that are followed")
    assert client.fault == ""
