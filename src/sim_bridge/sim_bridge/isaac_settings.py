"""The parameters of the playback of Isaac Gym recordings, declared with description and range."""

from __future__ import annotations

from dataclasses import dataclass

from rclpy.node import Node

from sim_bridge.parameter_declaration import declare, declare_number


@dataclass(frozen=True)
class PlaybackSettings:
    """What is played and how; see the descriptions below."""

    robot: str
    recording: str
    mapping: str
    live: str
    rate: float
    loop: bool
    wait_for_controller: bool
    control_rate: float
    publish_commands: bool
    summary: str


def declare_playback_settings(node: Node) -> PlaybackSettings:
    """Declare the parameters of `node` and read them. Raises ValueError with a sentence for what cannot be."""
    settings = PlaybackSettings(
        robot=declare(node, "robot", "aliengo", "robot that is played, a file in config/robots"),
        recording=declare(node, "recording", "", "file to play: .rollout, .npz, .pt, .h5"),
        mapping=declare(node, "mapping", "", "YAML file that says what the recording's arrays are called"),
        live=declare(node, "live", "", "host:port at which a running simulation's states are received instead"),
        rate=declare_number(node, "rate", 1.0, (0.05, 20.0), "recorded seconds per second"),
        loop=declare(node, "loop", False, "begin again at the end"),
        wait_for_controller=declare(
            node, "wait_for_controller", True, "play a standing robot until the controller walks, then the recording"
        ),
        control_rate=declare_number(
            node, "control_rate", 50.0, (0.0, 500.0), "the controller's [Hz]; a recording of that rate is kept in step"
        ),
        publish_commands=declare(node, "publish_commands", True, "send the recorded commands as cmd_vel and cmd_pose"),
        summary=declare(node, "summary", "", "JSON file to write the comparison to; must not exist"),
    )
    if bool(settings.recording) == bool(settings.live):
        raise ValueError("give either a recording (recording:=FILE) or the address of a live one (live:=HOST:PORT)")
    return settings
