"""Joystick, keyboard and planner all speak to one controller process; the most important one is obeyed alone."""

import threading

import numpy as np
import pytest
from geometry_msgs.msg import Twist

PERIOD = 0.05  # [s]
TOPICS = {"joystick": "joystick/cmd_vel", "keyboard": "keyboard/cmd_vel", "cmd_vel": "cmd_vel"}


class Speakers:
    """Each source says a forward speed over and over; None is silence."""

    def __init__(self, bench):
        self.speeds = dict.fromkeys(TOPICS)
        self._publishers = {name: bench.node.create_publisher(Twist, topic, 1) for name, topic in TOPICS.items()}
        self._end = threading.Event()
        threading.Thread(target=self._speak, daemon=True).start()

    def _speak(self):
        while not self._end.wait(PERIOD):
            for name, speed in self.speeds.items():
                if speed is not None:
                    message = Twist()
                    message.linear.x = speed
                    self._publishers[name].publish(message)

    def close(self):
        self._end.set()


@pytest.fixture
def speakers(bench):
    speakers = Speakers(bench)
    yield speakers
    speakers.close()


@pytest.fixture
def controller(start, bench, model_path):
    program = start(policy=model_path, runtime="numpy", stand_up_time=0.5, auto_start=True)
    bench.until_mode("walking")
    return program


def moves(bench):
    newest = bench.positions()[-25:]
    return len(newest) == 25 and np.ptp(newest, axis=0).max() > 1e-4


def rests(bench):
    newest = bench.positions()[-25:]
    return len(newest) == 25 and np.ptp(newest, axis=0).max() < 1e-6


def test_a_person_takes_the_robot_from_a_planner_and_gives_it_back_by_silence(bench, controller, speakers):
    def say(name, speed, result, what):
        speakers.speeds[name] = speed
        bench.targets.clear()
        bench.until(lambda: result(bench), what)

    bench.until(lambda: rests(bench), "standing at the beginning")
    say("cmd_vel", 0.5, moves, "a planner's walk")
    say("keyboard", 0.0, rests, "standing, as the keyboard says, though the planner goes on")
    say("joystick", 0.3, moves, "a walk, as the joystick says, though the keyboard goes on")
    say("joystick", None, rests, "standing, as the keyboard says, once the joystick is silent")
    say("keyboard", None, moves, "the planner's walk, once both are silent")
    say("cmd_vel", None, rests, "standing, once nobody speaks")

    code, output = controller.end()
    assert code == 0, output
    told = [line.rpartition("]: ")[2] for line in output.splitlines() if "takes over" in line or "in control" in line]
    assert told == [
        "cmd_vel is in control",
        "keyboard takes over from cmd_vel",
        "joystick takes over from keyboard",
        "keyboard takes over from joystick",
        "cmd_vel takes over from keyboard",
    ]
