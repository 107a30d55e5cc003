"""Settings of a study: a YAML file next to the scripts, checked with the training settings that it names."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from fcnet_core.errors import FcnetError
from fcnet_core.files import Count, Positive, Seed, read_settings
from fcnet_core.learning.config import Precision, TrainConfig, load_train_config, with_settings

WHITE = {"projected_gravity": 0.02, "joint_velocity": 0.3, "sin_joint_position": 0.01, "cos_joint_position": 0.01}
WHITE["angular_velocity"] = 0.1  # as in the recorded results
Part = Annotated[float, Meta(gt=0, le=1)]
Name = Annotated[str, Meta(pattern="^[a-z0-9_.-]+$", max_length=40)]


class Variant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the compared policies.

    train: settings of `fcnet train`, a path relative to the study's file; config: sizes that replace theirs;
    learning_rates: of several, the best on the smallest share of the data with the first seed is used.
    """

    train: str
    config: dict[str, Any] = {}
    learning_rates: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=20)]


class Further(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """More seeds on the smallest share of the data, for the variants with the highest return there."""

    leading: Count
    seeds: Annotated[tuple[Seed, ...], Meta(min_length=1, max_length=100)]


class StudyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file: every variant is trained on every share of the data with every seed.

    steps, precision: of every job, instead of a variant's; episodes: a scenario, see `fcnet evaluate`; scenarios: their
    names, or all; teacher: the reference of returns, a path relative to the study's file (default: the trot).
    """

    variants: Annotated[dict[Name, Variant], Meta(min_length=1, max_length=100)]
    shares: Annotated[tuple[Part, ...], Meta(min_length=1, max_length=20)]
    seeds: Annotated[tuple[Seed, ...], Meta(min_length=1, max_length=100)]
    further: Further | None = None
    steps: Count
    precision: Precision = "float32"
    episodes: Count = 100
    scenarios: tuple[str, ...] = ()
    teacher: str = ""


@dataclass(frozen=True)
class Plan:
    """The settings of a study, and the training settings of every variant with its sizes and length."""

    config: StudyConfig
    train: dict[str, TrainConfig]
    teacher: Path | None


def load_plan(path: Path) -> Plan:
    """Read a study's file. Raises FcnetError that names the file and the entry that cannot be used."""
    config = read_settings(path, StudyConfig, "study")
    train = {}
    for name, variant in config.variants.items():
        settings = load_train_config(path.parent / variant.train)
        settings = with_settings(settings, observation_noise=WHITE)
        try:
            sizes = settings.config | variant.config
            changes = {"steps": config.steps, "epochs": None, "precision": config.precision, "held_out_share": 0.0}
            train[name] = with_settings(settings, config=sizes, **changes)
        except ValueError as error:
            raise FcnetError(f"study {path} cannot be used: variants.{name}: {error}") from error
    return Plan(config, train, path.parent / config.teacher if config.teacher else None)
