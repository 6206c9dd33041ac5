"""A node of an engine for which another node answers: vLLM's own ``vllm serve --headless``.

    python -m omnicfg.engine.headless --model MODEL ...

The ``vllm`` script does the same, but looks up a distribution of that name first, which a CPU build has not.
"""

from __future__ import annotations


def main() -> None:
    """Runs until the node that answers goes away, or a stop signal comes."""
    from vllm.entrypoints.cli.serve import run_headless
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.entrypoints.serve.utils.api_utils import cli_env_setup
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    cli_env_setup()
    arguments = make_arg_parser(FlexibleArgumentParser()).parse_args()
    validate_parsed_serve_args(arguments)
    arguments.api_server_count = 0
    run_headless(arguments)


if __name__ == "__main__":
    main()
