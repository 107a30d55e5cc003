"""The Body Transformer is the published one, on any body's graph, and every form steps what was trained."""

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from golden import check_gradients, named, read_arrays
from msgspec import structs
from policy_forms import check_refused, every_form, forms_of, loaded, model_of, noise, parallel, untrained

from fcnet_core.arrays import ArraySpec
from fcnet_core.errors import FcnetError
from fcnet_core.files import converted
from fcnet_core.learning.config import EXAMPLE, EXAMPLE_LEGS, example_config
from fcnet_core.model_file import PolicyModel, check_robot, load_model, save_model
from fcnet_core.observation import vector_interface
from fcnet_core.policies.body_transformer import BodyTransformerConfig
from fcnet_core.policies.body_transformer.graph import BodyGraph, Node, body_graph
from fcnet_core.policies.body_transformer.network import BodyTransformer
from fcnet_core.robot import load_robot

DATA = Path(__file__).parents[1] / "data"
SINGLE = 3e-6  # of outputs
MASKS = ("hard", "mix", "mix_unmasked_first", "soft", "dense", "random")
TASKS = yaml.safe_load((DATA / "body_graphs.yaml").read_text())
DRAWN_WITH_SEED_0 = [27, 30, 40, 45, 48, 49, 57, 62, 63, 69, 73, 75]
BODY = body_graph(EXAMPLE, EXAMPLE_LEGS)


def published_config(arrays: dict[str, np.ndarray], mask: str) -> BodyTransformerConfig:
    names = ("", "observation", "action", "hidden", "ffn_width", "heads", "layers", "", "positions", "")
    sizes = dict(zip(names, arrays["cfg"].tolist(), strict=True))
    sizes |= {"window": 1, "positions": bool(sizes["positions"]), "mask": mask}
    return example_config(BodyTransformerConfig, **{name: size for name, size in sizes.items() if name})


def random_model(**sizes: object) -> PolicyModel:
    """Small, without an exported step."""
    small = {"layers": 3, "hidden": 15, "heads": 3, "ffn_width": 21, "window": 3}
    return untrained(example_config(BodyTransformerConfig, **small | sizes), export=False)


PUBLISHED = [path for path in sorted(DATA.glob("bot_*_a.xz")) if "a1code" not in path.stem]
every_published = pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)


def mask_of(path: Path) -> str:
    return path.stem.removeprefix("bot_").removesuffix("_a").replace("_pe", "").partition("_")[2]


@every_published
def test_outputs_gradients_mask_and_paths_are_those_of_the_published_network(path) -> None:
    arrays, mask = read_arrays(path), mask_of(path)
    config = published_config(arrays, mask)
    network = loaded(BodyTransformer(config), named(arrays, "w/"))
    output = network.act(torch.from_numpy(arrays["x"]))
    np.testing.assert_allclose(output.detach(), arrays["out"], atol=SINGLE, rtol=0)
    loss = (output - torch.from_numpy(arrays["target"])).square().mean()
    assert loss.item() == pytest.approx(float(arrays["loss"]), abs=SINGLE)
    loss.backward()
    check_gradients(network, named(arrays, "grad/"))
    np.testing.assert_array_equal(BODY.mask, arrays.get("mask_allowed", BODY.mask))
    np.testing.assert_array_equal(BODY.paths, arrays.get("shortest_path", BODY.paths))


@every_form("body_transformer")
@every_published
def test_every_form_steps_the_published_network(path, form) -> None:
    arrays, mask = read_arrays(path), mask_of(path)
    model = model_of(published_config(arrays, mask), named(arrays, "w/"))
    np.testing.assert_allclose(form(model, arrays["x"]), arrays["out"], atol=SINGLE, rtol=0)


def test_the_critic_is_that_of_the_published_walk() -> None:
    arrays = read_arrays(DATA / "bot_a1code_mix_a.xz")
    actor = example_config(BodyTransformerConfig, mask="mix", window=1)
    critic = critic_of(actor)
    with torch.no_grad():
        value = loaded(BodyTransformer(critic), named(arrays, "critic/")).act(torch.from_numpy(arrays["x"]))
    np.testing.assert_allclose(value.mean(-1, keepdim=True), arrays["critic_out"], atol=SINGLE, rtol=0)
    assert (actor.parameters, critic.parameters) == (274_700, 274_765)


def critic_of(actor: BodyTransformerConfig) -> BodyTransformerConfig:
    """One joint a node."""
    nodes = [structs.replace(node, action=(index,)) for index, node in enumerate(actor.graph.nodes)]
    graph = BodyGraph(tuple(nodes), actor.graph.edges)
    return structs.replace(actor, graph=graph, action=len(nodes))


def task_config(name: str, **sizes: object) -> BodyTransformerConfig:
    return converted(TASKS[name] | {"mask": "hard", "window": 1} | sizes, BodyTransformerConfig)


IMITATION = {"hidden": 320, "heads": 5, "ffn_width": 1024, "layers": 16, "positions": False}


@pytest.mark.parametrize(("name", "parameters"), [("mocapact", 17_544_120), ("adroit_door", 17_131_292)])
def test_networks_of_the_paper_have_the_published_number_of_parameters(name, parameters) -> None:
    config, actor = task_config(name, **IMITATION), task_config("isaac_humanoid", layers=10)
    assert config.parameters == parameters
    assert sum(parameter.numel() for parameter in BodyTransformer(config).parameters()) == parameters
    assert actor.parameters + critic_of(actor).parameters + actor.action == 688_762  # with the deviations


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "sparsity", "diameter"),
    [("mocapact", 32, 31, 0.908, 14), ("isaac_humanoid", 16, 15, 0.820, 8), ("aliengo", 13, 12, 0.781, 6)],
)
def test_graphs_are_those_of_the_paper(name, nodes, edges, sparsity, diameter) -> None:
    graph = BODY if name == "aliengo" else converted(TASKS[name]["graph"], BodyGraph)
    assert (len(graph.nodes), len(graph.edges), int(graph.paths.max())) == (nodes, edges, diameter)
    assert 1 - graph.mask.mean() == pytest.approx(sparsity, abs=6e-4)


def test_every_number_of_the_robots_observation_is_seen_by_the_node_it_is_measured_at() -> None:
    trunk, *joints = BODY.nodes
    assert trunk.observation == (0, 1, 2, 39, 40, 41, *range(54, 70))
    assert [node.observation for node in joints] == [(3 + j, 15 + j, 27 + j, 42 + j) for j in range(12)]
    assert [f"{node.name}_joint" for node in joints] == list(load_robot("aliengo").joint_names)
    assert [node.action for node in joints] == [(j,) for j in range(12)]


def test_joints_of_no_leg_are_at_the_trunk_also_in_an_order_of_their_own() -> None:
    joints = ("tail", *EXAMPLE.joints[::-1])
    graph = body_graph(structs.replace(EXAMPLE, joints=joints, default_pose=0.0, kp=0.0, kd=0.0), EXAMPLE_LEGS)
    assert [node.name for node in graph.nodes[:3]] == ["trunk", "tail", "RL_calf"]
    assert {("trunk", "tail"), ("RL_thigh", "RL_calf"), ("trunk", "RL_hip")} <= {*graph.edges}
    assert graph.nodes[1] == Node("tail", (3, 16, 29, 45), (0,))
    star = body_graph(structs.replace(EXAMPLE, joints=("left", "right"), default_pose=0.0, kp=0.0, kd=0.0), {})
    assert star.edges == (("trunk", "left"), ("trunk", "right"))
    plain = body_graph(vector_interface({"observation": ArraySpec((3,))}, 1), {})
    assert [node.observation for node in plain.nodes] == [(0, 1, 2), ()]


def test_a_random_mask_has_the_diagonal_the_density_and_the_symmetry_of_the_graphs() -> None:
    masks = [BODY.random_mask(seed) for seed in range(20)]
    for mask in masks:
        assert mask.diagonal().all() and (mask == mask.T).all() and mask.sum() == BODY.mask.sum()
    assert len({mask.tobytes() for mask in masks}) == 20
    drawn = np.flatnonzero(masks[0][np.triu_indices(13, 1)])  # a model file holds the seed alone
    assert drawn.tolist() == DRAWN_WITH_SEED_0


@pytest.mark.parametrize("mask", MASKS)
def test_a_joint_moves_by_what_is_seen_where_a_chain_of_the_layers_masks_leads(mask) -> None:
    """Three hard layers reach three edges: another leg's calf, six edges away, changes nothing."""
    model = random_model(mask=mask, window=1)
    config, seen = model.card.config, noise(model, 1)
    reached = np.eye(13, dtype=bool)
    for layer in range(config.layers):
        reached = config.admitted(layer) @ reached
    assert reached.all() == (mask not in ("hard", "random"))
    for node, parts in enumerate(config.graph.nodes):
        changed = seen.copy()
        changed[0, list(parts.observation)] += 3.0
        moved = parallel(model, changed)[0] != parallel(model, seen)[0]
        np.testing.assert_array_equal(moved, reached[1:, node])


def test_nodes_may_have_any_number_of_joints_or_none() -> None:
    model = untrained(task_config("isaac_humanoid", layers=2, hidden=16, heads=4, ffn_width=24, window=2))
    seen = noise(model, 20)
    for form in forms_of("body_transformer").values():
        np.testing.assert_allclose(form(model, seen), parallel(model, seen), atol=2e-6, rtol=0)


def test_a_model_stands_alone_and_belongs_to_the_robots_graph(tmp_path) -> None:
    save_model(random_model(), tmp_path / "own.safetensors")
    own = load_model(tmp_path / "own.safetensors")
    assert own.card.config.graph == BODY
    check_robot(own, load_robot("aliengo"))
    joined = BodyGraph(BODY.nodes, (*BODY.edges, ("FR_hip", "FL_hip")))
    with pytest.raises(FcnetError, match=r"13 nodes and 13 edges .* aliengo"):
        check_robot(random_model(graph=joined), load_robot("aliengo"))


def nodes(*given: tuple[str, list[int], list[int]]) -> list[dict[str, object]]:
    return [{"name": name, "observation": seen, "action": moved} for name, seen, moved in given]


@pytest.mark.parametrize(
    ("graph", "named"),
    [
        ({"nodes": nodes(("a", [0], [0]), ("b", [1], [2])), "edges": [["a", "b"]]}, "node b has the unknown joint 2"),
        ({"nodes": nodes(("a", [0], [0]), ("b", [9], [1])), "edges": [["a", "b"]]}, "unknown entry .* 9"),
        ({"nodes": nodes(("a", [0], [0, 1]), ("b", [1], [1])), "edges": [["a", "b"]]}, "joint 1 .* two nodes, a and b"),
        ({"nodes": nodes(("a", [0], [0]), ("b", [1], [])), "edges": [["a", "b"]]}, "joint 1 .* in no node"),
        ({"nodes": nodes(("a", [0], [0]), ("b", [1], [1])), "edges": []}, "no path leads from node a to node b"),
        ({"nodes": nodes(("a", [0], [0, 1])), "edges": [["a", "c"]]}, "an edge leads to c, but there is no such node"),
        ({"nodes": nodes(("a", [0], [0]), ("a", [1], [1]))}, "two nodes a"),
        ({"nodes": nodes(("a", [0, 0], [0, 1]))}, "node a sees entry 0 of the observation twice"),
        ({"nodes": []}, "nodes is"),
        ({"edges": []}, "nodes"),
    ],
)
def test_a_graph_that_cannot_be_is_refused_in_a_sentence(graph, named) -> None:
    check_refused("body_transformer", {"observation": 3, "action": 2, "graph": graph}, named)
