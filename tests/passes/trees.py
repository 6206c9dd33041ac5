"""Small trees for the tests of the passes."""

from __future__ import annotations

from omnicfg.passes.read import read_text
from omnicfg.tree import Layer, LayerKind, Mapping

PROFILE = Layer(LayerKind.PROFILE, "profile.yaml")
BASE = Layer(LayerKind.BASE, "base.yaml")
OVERLAY = Layer(LayerKind.OVERLAY, "overlay.yaml")


def tree_of(text: str, layer: Layer = PROFILE) -> Mapping:
    """The tree of a text, as if it were a file of the layer."""
    return read_text(text, layer, layer.name)
