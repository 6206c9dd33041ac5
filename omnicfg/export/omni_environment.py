"""Makes vllm-omni importable on a machine without a GPU.

PyPI's torchvision is linked against the CUDA build of torch. Beside a CPU torch its compiled part does not
load, so its operators are never defined and ``import torchvision`` fails while registering shapes for them.
Declaring the operators' signatures first is enough for the import; none of them is ever run here.
"""

from __future__ import annotations

import importlib
import sys

# torchvision 0.28: every operator that its Python part names when it is imported.
_ROI = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_POOLED = "Tensor grad, Tensor rois, {} float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SHAPE = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_SAMPLED = "int sampling_ratio, bool aligned"
_DEFORM = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w,"
    " SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups,"
    " bool use_mask"
)
_MAPPED = _POOLED.format("Tensor channel_mapping,")
OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align({_ROI}, {_SAMPLED}) -> Tensor",
    f"qroi_align({_ROI}, {_SAMPLED}) -> Tensor",
    f"roi_pool({_ROI}) -> (Tensor, Tensor)",
    f"ps_roi_align({_ROI}, int sampling_ratio) -> (Tensor, Tensor)",
    f"ps_roi_pool({_ROI}) -> (Tensor, Tensor)",
    f"deform_conv2d({_DEFORM}) -> Tensor",
    f"_roi_align_backward({_POOLED.format('')}, {_SHAPE}, {_SAMPLED}) -> Tensor",
    f"_roi_pool_backward({_POOLED.format('Tensor argmax,')}, {_SHAPE}) -> Tensor",
    f"_ps_roi_align_backward({_MAPPED}, int sampling_ratio, {_SHAPE}) -> Tensor",
    f"_ps_roi_pool_backward({_MAPPED}, {_SHAPE}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {_DEFORM}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)

_kept_alive: list[object] = []


def prepare() -> None:
    """Import torchvision, declaring its operators first where its compiled part does not load."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        declare_operators()
        importlib.import_module("torchvision")
    except ImportError:  # not installed: vllm-omni says itself what it misses
        return


def declare_operators() -> None:
    """Declare the signatures; once a process, before torchvision is imported."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for signature in OPERATORS:
        library.define(signature)
    _kept_alive.append(library)  # the declarations live as long as this object
