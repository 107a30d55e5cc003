"""The body as a graph: nodes with their entries of observation and action, and edges between them."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from fcnet_core.arrays import Mask
from fcnet_core.observation import PolicyInterface
from fcnet_core.observation.terms import AnyTerm, JointPosition, JointVelocity, LastAction
from fcnet_core.policies import Legs
from fcnet_core.robot import LEG_JOINTS

Entries = tuple[Annotated[int, Meta(ge=0, lt=2**16)], ...]
Item = TypeVar("Item", str, int)
MOST_NODES = 256
FAR = 2**15  # path length between two nodes without a path


class Node(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A link of the body: its entries of the observation, and its joints as entries of the action."""

    name: str
    observation: Entries = ()
    action: Entries = ()


class BodyGraph(Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes in the order of the network's tokens, and edges as pairs of node names.

    An entry of the observation may belong to any number of nodes; every joint belongs to one node. Raises ValueError
    for a joint of two nodes, for an edge of an unknown node, and for a node without a path to it.
    """

    nodes: Annotated[tuple[Node, ...], Meta(min_length=1, max_length=MOST_NODES)]
    edges: Annotated[tuple[tuple[str, str], ...], Meta(max_length=MOST_NODES**2)] = ()

    def __post_init__(self) -> None:
        names = [node.name for node in self.nodes]
        if twice := _repeated(names):
            raise ValueError(f"the graph has two nodes {twice}; give each node a name of its own")
        for node in self.nodes:
            if (entry := _repeated(node.observation)) is not None:
                raise ValueError(f"node {node.name} sees entry {entry} of the observation twice; name it once")
        moved = [entry for node in self.nodes for entry in node.action]
        if (joint := _repeated(moved)) is not None:
            both = [node.name for node in self.nodes if joint in node.action]
            raise ValueError(f"joint {joint} of the action is in two nodes, {both[0]} and {both[-1]}; choose one")
        if unknown := {name for edge in self.edges for name in edge} - set(names):
            raise ValueError(f"an edge leads to {min(unknown)}, but there is no such node; add it or correct the edge")
        if (alone := self.paths[0] == FAR).any():
            lost = names[int(alone.argmax())]
            raise ValueError(f"no path leads from node {names[0]} to node {lost}; join it by an edge")

    def __str__(self) -> str:
        return f"of {len(self.nodes)} nodes and {len(self.edges)} edges"

    @property
    def observation_entries(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The observation entries of all nodes in turn, and the node of each entry."""
        return _entries([node.observation for node in self.nodes])

    @property
    def action_nodes(self) -> npt.NDArray[np.intp]:
        """The node of every joint, in the order of the action."""
        joints, nodes = _entries([node.action for node in self.nodes])
        return nodes[np.argsort(joints)]

    @property
    def paths(self) -> npt.NDArray[np.intp]:
        """Numbers of edges (n, n) on the shortest paths between nodes."""
        place = {node.name: index for index, node in enumerate(self.nodes)}
        paths = np.full((len(place), len(place)), FAR, dtype=np.intp)
        for one, other in self.edges:
            paths[place[one], place[other]] = paths[place[other], place[one]] = 1
        np.fill_diagonal(paths, 0)
        for through in range(len(place)):
            paths = np.minimum(paths, paths[:, through, None] + paths[through])
        return paths

    @property
    def mask(self) -> Mask:
        """Mask (n, n) of attention: each node attends to itself and to its neighbours."""
        return self.paths < 2

    def random_mask(self, seed: int) -> Mask:
        """Return a mask with the diagonal and as many other entries as `mask`, for random pairs of nodes.

        RandomState's numbers are the same in every version of NumPy; a model file has only the seed.
        """
        rows, columns = np.triu_indices(len(self.nodes), 1)
        count = (int(self.mask.sum()) - len(self.nodes)) // 2
        drawn = np.random.RandomState(seed).permutation(len(rows))[:count]
        mask = np.eye(len(self.nodes), dtype=np.bool_)
        mask[rows[drawn], columns[drawn]] = mask[columns[drawn], rows[drawn]] = True
        return mask


def body_graph(interface: PolicyInterface, legs: Legs) -> BodyGraph:
    """Return the graph of a robot: the trunk and a node for each of the interface's joints, or values of its action.

    A joint's node has the joint's entries of the observation and of the action; the trunk has all other entries. The
    joints of a leg follow each other from the trunk outwards; every other joint is a neighbour of the trunk.
    """
    names = list(interface.joints) or [f"action_{entry}" for entry in range(interface.values)]
    inward = {outer: inner for leg in legs.values() for inner, outer in pairwise(leg)}
    parts = [(leg, *pair) for leg, joints in legs.items() for pair in zip(LEG_JOINTS, joints, strict=True)]
    short = {joint: f"{leg}_{part}" for leg, part, joint in parts}
    trunk: list[int] = []
    of_joints: list[list[int]] = [[] for _ in names]
    for term, entries in interface.placed_terms:
        if is_per_joint(term):
            for seen, entry in zip(of_joints, entries, strict=True):
                seen.append(entry)
        else:
            trunk += entries
    nodes, edges = [Node("trunk", tuple(trunk))], []
    for place, (name, seen) in enumerate(zip(names, of_joints, strict=True)):
        nodes.append(Node(short.get(name, name), tuple(seen), (place,)))
        inner = inward.get(name, "trunk")
        edges.append((short.get(inner, inner), nodes[-1].name))
    return BodyGraph(tuple(nodes), tuple(edges))


def is_per_joint(term: AnyTerm) -> bool:
    """Return whether a term has an entry for each joint or value of the action."""
    return isinstance(term, JointPosition | JointVelocity) or (isinstance(term, LastAction) and term.of != "index")


def _entries(of_nodes: Sequence[Entries]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    entries = np.array([entry for entries in of_nodes for entry in entries], dtype=np.intp)
    return entries, np.repeat(np.arange(len(of_nodes)), [len(entries) for entries in of_nodes])


def _repeated(items: Sequence[Item]) -> Item | None:
    """Return an item that occurs twice, or None."""
    return next((item for item, count in Counter(items).items() if count > 1), None)
