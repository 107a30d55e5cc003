"""fcnet teach: a teacher, by imitation of the trot and PPO."""

import argparse
import shlex
import sys
from pathlib import Path

import msgspec

from fcnet_core.files import Positive, Workers, option, read_settings
from quadruped_sim.collection import CollectionPlan, Part, load_plan
from quadruped_sim.tasks.task import load_task
from quadruped_sim.teacher.groups import TeacherConfig

SUMMARY = "make a teacher, the expert of `fcnet collect`: imitate the built-in trot, then improve by PPO"
EPILOG = """
The folder receives teacher.safetensors, log.jsonl and a checkpoint, from which the same command resumes.

examples:
  fcnet teach --config config/collect/aliengo.yaml --out runs/aliengo-teacher --minutes 180
  fcnet teach --config config/collect/a1.yaml --init models/teachers/aliengo.safetensors --out runs/a1-teacher
  fcnet teach --task my_task.yaml --out runs/my-teacher --minutes 60
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    task = "a task file, or the name of one in config/tasks/ (default: velocity)"
    parser.add_argument("--task", default="velocity", metavar="YAML", help=task)
    plan = "robot, terrains and commands: a file, or the name of one in config/collect/ (default: the task's)"
    parser.add_argument("--config", type=Path, metavar="YAML", help=plan)
    parser.add_argument("-o", "--out", required=True, type=Path, metavar="DIR", help="folder to write or continue")
    parser.add_argument("--init", type=Path, metavar="FILE", help="teacher to start from, possibly of another robot")
    parser.add_argument("--settings", type=Path, metavar="YAML", help="settings of imitation and PPO (TeacherConfig)")
    minutes = "duration of PPO [minutes] (default: 180)"
    parser.add_argument("--minutes", type=option(Positive), default=180.0, metavar="T", help=minutes)
    parser.add_argument("--processes", type=option(Workers), default=2, metavar="N", help="workers (default: 2)")


def run(args: argparse.Namespace) -> int:
    """Teach; return 0 if the time is over, 130 if interrupted."""
    task = load_task(args.task)
    if args.config:
        plan = load_plan(args.config)
    else:  # the task's own robot, terrains and commands
        part = Part(1.0, task.terrains, task.commands, task.randomization, task.push)
        rate = task.interface.rate if task.interface else task.rate
        plan = CollectionPlan(task.robot, 1, 1, task.episode, {task.name: part}, rate)
    task = msgspec.structs.replace(task, rate=plan.rate)
    config = read_settings(args.settings, TeacherConfig, "teacher's settings") if args.settings else TeacherConfig()
    from quadruped_sim.teacher.training import teach  # PyTorch takes a second to import

    facts = {"task": args.task, "command_line": shlex.join(sys.argv), "plan": msgspec.to_builtins(plan)}
    try:
        teach(task, plan, config, args.out, args.processes, args.minutes, facts, args.init)
    except KeyboardInterrupt:
        print("fcnet: stopped; run the same command again to resume from the last checkpoint", file=sys.stderr)
        return 130
    print(f"{args.out} holds the teacher")
    return 0
