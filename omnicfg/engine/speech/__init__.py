"""A Talker as a vLLM engine (Model Runner V2): what its model, requests and scheduler need beside vLLM's own.

:mod:`decoder` extends vLLM's decoder class by the code predictor, :mod:`state` feeds text and codes back into it from
one frame to the next, :mod:`scheduler` holds requests that have nothing to read yet, :mod:`predictor` is the code
predictor, :mod:`utterance` what a request is conditioned on. All of them live in one process with the engine.
"""
