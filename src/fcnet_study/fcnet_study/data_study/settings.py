"""What defines a study: one YAML file of config/study/, checked with the training settings that it names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from fcnet_core.errors import StudyError
from fcnet_core.files import Count, Positive, Seed, read_settings
from fcnet_core.learning.config import Precision, TrainConfig, load_train_config, with_settings

Part = Annotated[float, Meta(gt=0, le=1)]
Name = Annotated[str, Meta(pattern="^[a-z0-9_.-]+$", max_length=40)]


class Variant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of what is compared.

    train: settings of `fcnet train`, a path from the study's file; config: sizes in place of theirs; learning_rates:
    where there are several, the best on the smallest share of the data is taken, for the first seed.
    """

    train: str
    config: dict[str, Any] = {}
    learning_rates: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=20)]


class Further(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """More seeds on the smallest share of the data, for the variants whose policies returned most there."""

    leading: Count
    seeds: Annotated[tuple[Seed, ...], Meta(min_length=1, max_length=100)]


class StudyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file: every variant is trained on every share of the data with every seed.

    steps: of the optimiser, and precision, of every job, in place of those in a variant's settings; episodes: of a
    scenario, see `fcnet evaluate`; scenarios: their names, or all; teacher: with whose returns those of policies are
    compared, a path from the study's file, or none for the trot.
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

    def __post_init__(self) -> None:
        for name in ("shares", "seeds"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"{name} is {list(values)}, expected every value once")
        if self.further and set(self.further.seeds) & set(self.seeds):
            raise ValueError(f"further.seeds is {list(self.further.seeds)}, expected others than {list(self.seeds)}")


@dataclass(frozen=True)
class Plan:
    """A study's settings, and the training settings of every variant, with its sizes and length."""

    config: StudyConfig
    train: dict[str, TrainConfig]
    teacher: Path | None


def load_plan(path: Path) -> Plan:
    """Read a study's file. Raises FcnetError that names the file and the entry that cannot be used."""
    config = read_settings(path, StudyConfig, "study")
    train = {}
    for name, variant in config.variants.items():
        settings = load_train_config(path.parent / variant.train)
        try:
            sizes = settings.config | variant.config
            changes = {"steps": config.steps, "epochs": None, "precision": config.precision, "held_out_share": 0.0}
            train[name] = with_settings(settings, config=sizes, **changes)
        except ValueError as error:
            raise StudyError(f"study {path} cannot be used: variants.{name}: {error}") from error
    return Plan(config, train, path.parent / config.teacher if config.teacher else None)
