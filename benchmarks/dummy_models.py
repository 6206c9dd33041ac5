"""Model directories without weights, at the dimensions of real decoders, for measuring where no checkpoint can be had.

    python -m benchmarks.dummy_models DIR [--site SITE]

writes ``DIR/qwen3-omni`` (the Thinker of Qwen3-Omni-30B-A3B) and ``DIR/minicpm-o-4-5`` (the 8B decoder of MiniCPM-o
4.5, Qwen3-8B's dimensions: https://huggingface.co/Qwen/Qwen3-8B, ``config.json``). Serve them with
``--set stages.0.load_format=dummy``. ``--site`` writes a folder that stands in for an installed omnicfg: with it and
the checkout on ``PYTHONPATH``, vLLM finds the engine's plugin.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.engine.cost import THINKER, write_model
from benchmarks.engine.support import write_entry_point

_MIXTURE = ("moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers")
MINICPM_O = {
    **{name: value for name, value in THINKER.items() if "expert" not in name and name not in _MIXTURE},
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
}
MODELS = {"qwen3-omni": THINKER, "minicpm-o-4-5": MINICPM_O}


def main() -> int:
    """Write them, where they are not there yet."""
    parser = argparse.ArgumentParser(description="Write model directories without weights.")
    parser.add_argument("dir", type=Path)
    parser.add_argument("--site", type=Path, help="a folder for PYTHONPATH that has the engine's entry point")
    options = parser.parse_args()
    for name, config in MODELS.items():
        print(write_model(options.dir / name, config))
    if options.site:
        print(write_entry_point(options.site))
    return 0


if __name__ == "__main__":
    sys.exit(main())
