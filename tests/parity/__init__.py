"""omnicfg against vllm-omni: the same values for every shipped deploy file, every overlay chain and every platform.

``oracle.py`` runs vllm-omni and writes what it says as data; ``test_parity.py`` compares, without vllm-omni.
"""
