"""The tree that travels through the passes: values with their origin."""

from __future__ import annotations

import pytest

from omnicfg.tree import (
    Layer,
    LayerKind,
    Mapping,
    Mark,
    Node,
    Sequence,
    deep_merge,
    dotted,
    find,
    grow,
    leaves,
    over,
    plain,
    relabel,
)

LOW = Layer(LayerKind.BASE, "base.yaml")
HIGH = Layer(LayerKind.PROFILE, "profile.yaml")


def low(value: object) -> Node:
    return grow(value, LOW, Mark("base.yaml", 1, 1))


def high(value: object) -> Node:
    return grow(value, HIGH, Mark("profile.yaml", 2, 2))


def mapping(node: Node | None) -> Mapping:
    assert isinstance(node, Mapping)
    return node


def lost(node: Node | None) -> list[tuple[object, str]]:
    assert node is not None
    return [(plain(one.node), one.reason) for one in node.beaten]


# ------------------------------------------------------------------------------------------------------- words
@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (Mark("a.yaml", 3, 5, 3, 9), "a.yaml:3:5"),
        (Mark("a.yaml", 3), "a.yaml:3"),
        (Mark("a.yaml"), "a.yaml"),
    ],
)
def test_a_place_in_words(mark: Mark, text: str) -> None:
    assert str(mark) == text


def test_a_layer_in_words() -> None:
    assert str(Layer(LayerKind.PLATFORM, "npu")) == "platform npu"
    assert str(Layer(LayerKind.OVERRIDE)) == "--set"


def test_layers_are_in_the_order_in_which_they_are_applied() -> None:
    assert [kind.value for kind in LayerKind] == [
        "vllm default",
        "topology",
        "default",
        "base",
        "profile",
        "overlay",
        "platform",
        "--set",
    ]


def test_a_route_in_words() -> None:
    assert dotted(("stages", 0, "max_num_seqs")) == "stages.0.max_num_seqs"


# --------------------------------------------------------------------------------------------- growing and plain
@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [1, [2]], {"a": {"b": [1, {"c": None}]}, 5: True}])
def test_growing_a_value_and_making_it_plain_again(value: object) -> None:
    assert plain(high(value)) == value


def test_tuples_become_lists() -> None:
    assert plain(high((1, (2,)))) == [1, [2]]


def test_every_node_of_a_grown_tree_has_its_origin() -> None:
    for _, node in leaves(high({"a": [1, {"b": 2}], "c": {}})):
        assert (node.layer, node.mark) == (HIGH, Mark("profile.yaml", 2, 2))


def test_what_is_no_node_is_no_tree() -> None:
    with pytest.raises(TypeError):
        plain({"a": 1})  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------------- mappings
def test_the_value_of_a_key() -> None:
    node = mapping(high({"a": {"b": 1}, "c": None}))
    assert (node.value("a"), node.value("c"), node.value("d"), node.value("d", 5)) == ({"b": 1}, None, None, 5)


def test_the_place_of_a_key_is_that_of_its_value_where_no_key_was_written() -> None:
    node = mapping(high({"a": 1}))
    assert node.key_mark("a") == Mark("profile.yaml", 2, 2)
    node.put("b", high(1), Mark("profile.yaml", 9, 9))
    assert node.key_mark("b") == Mark("profile.yaml", 9, 9)


def test_a_copy_without_keys() -> None:
    node = mapping(high({"a": 1, "b": 2}))
    assert (plain(node.without("a", "x")), plain(node)) == ({"b": 2}, {"a": 1, "b": 2})


def test_entries_of_a_kind_or_an_error_of_ours() -> None:
    node = mapping(high({"a": {}, "b": []}))
    assert (plain(node.mapping("a")), plain(node.sequence("b"))) == ({}, [])
    for wrong in (lambda: node.mapping("b"), lambda: node.sequence("a")):
        with pytest.raises(TypeError):
            wrong()


def test_the_mappings_of_a_list() -> None:
    node = high([{"a": 1}, 5, {"b": 2}])
    assert isinstance(node, Sequence)
    assert [plain(item) for item in node.mappings()] == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("value", [{"a": [1]}, [1, 2], 5])
def test_a_copy_is_shallow_and_alike(value: object) -> None:
    node = high(value)
    assert plain(node.copy()) == value
    assert node.copy().mark == node.mark


def test_nodes_show_what_they_are() -> None:
    assert repr(high(5)) == "Scalar(5 @ profile.yaml:2:2, profile profile.yaml)"
    assert repr(high({"a": 1})) == "Mapping(['a'] @ profile.yaml:2:2, profile profile.yaml)"
    assert repr(high([1])) == "Sequence(len 1 @ profile.yaml:2:2, profile profile.yaml)"


# ----------------------------------------------------------------------------------------------------- history
def test_a_winner_remembers_what_it_beat() -> None:
    top = over(high(1), low(2), "profile over base")
    assert (plain(top), top.layer, lost(top)) == (1, HIGH, [(2, "profile over base")])


def test_nothing_beaten_is_no_history() -> None:
    node = high(1)
    assert over(node, None, "why") is node


def test_history_is_a_chain_told_once() -> None:
    top = over(high(1), over(high(2), over(low(3), low(4), "c"), "b"), "a")
    assert lost(top) == [(2, "a"), (3, "b"), (4, "c")]
    assert all(one.node.beaten == () for one in top.beaten)


def test_entries_of_a_replaced_block_know_their_predecessors() -> None:
    top = mapping(over(high({"a": 1, "b": {"c": 1}}), low({"a": 2, "b": {"c": 2}, "d": 2}), "why"))
    assert plain(top) == {"a": 1, "b": {"c": 1}}
    assert lost(top.get("a")) == [(2, "why")]
    assert lost(find(top, ("b", "c"))) == [(2, "why")]


def test_neither_side_is_changed() -> None:
    winner, loser = high({"a": 1}), low({"a": 2})
    over(winner, loser, "why")
    assert lost(mapping(winner).get("a")) == []
    assert plain(loser) == {"a": 2}


def test_deep_merging() -> None:
    merged = deep_merge(
        mapping(low({"a": 1, "b": {"c": 1, "d": [1]}})), mapping(high({"b": {"d": [2]}, "e": 2})), "why"
    )
    assert plain(merged) == {"a": 1, "b": {"c": 1, "d": [2]}, "e": 2}
    assert lost(find(merged, ("b", "d"))) == [([1], "why")]
    assert find(merged, ("a",)) is not None
    assert {path: node.layer.kind.value for path, node in leaves(merged)} == {
        ("a",): "base",
        ("b", "c"): "base",
        ("b", "d", 0): "profile",
        ("e",): "profile",
    }


def test_a_relabelled_tree_and_its_history_belong_to_the_new_layer() -> None:
    layer = Layer(LayerKind.PLATFORM, "npu")
    tree = relabel(over(high({"a": [1]}), low({"a": [2]}), "why"), layer)
    assert {node.layer for _, node in leaves(tree)} == {layer}
    assert tree.beaten[0].node.layer == layer


# ---------------------------------------------------------------------------------------------- walking a tree
def test_leaves_in_document_order_with_empty_blocks() -> None:
    tree = high({"a": {"b": 1, "c": []}, "d": [2, {"e": {}}], "f": None})
    assert [(path, plain(node)) for path, node in leaves(tree)] == [
        (("a", "b"), 1),
        (("a", "c"), []),
        (("d", 0), 2),
        (("d", 1, "e"), {}),
        (("f",), None),
    ]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), {"a": [{"b": 1}]}),
        (("a", 0, "b"), 1),
        (("a", 1), None),
        (("a", "0"), None),
        (("a", -1), None),
        (("x", "y"), None),
    ],
)
def test_finding_a_node(path: tuple[str | int, ...], value: object) -> None:
    found = find(high({"a": [{"b": 1}]}), path)
    assert (None if found is None else plain(found)) == value
