"""The front of a plan that speaks: one OpenAI server before vLLM's and the stages that make speech.

``python -m omnicfg.engine.front FILE`` starts vLLM's server on a socket, a worker for each later stage, and answers at
the address that the file (:class:`omnicfg.engine.front.setup.Setup`) names:

* ``setup``: what is to be started, as data;
* ``processes``: the processes, watched and started again; ``pulse``: whether vLLM's still gets on;
* ``desk``: open speeches, and what the stages say of them;
* ``turn``: one request, its text and its audio as one sequence of events;
* ``chat``: OpenAI's shape of answers; ``formats``: what audio is packed in;
* ``app``: HTTP; ``metrics``: counters of what is ours.
"""
