"""What an engine's sources say of one backend on one architecture, without running any of them.

A question is a *cell*: component, backend, architecture, scenario. It becomes a row in four steps:

1. Discovery (``analysis``, ``discover``, ``readers``, ``facts``). In the version at hand, the options object
   and its defaults are found, the checks made of it at start-up, the layers whose life reads the option, or
   the table that holds its values. ``profiles/`` holds the few names that no source tells; none a backend's.
2. A run (``runs``; ``settle``, ``life`` and ``table`` say what is called, ``nominal`` with which arguments).
   ``interpreter/`` executes the sources abstractly: a value that is known is Python's own, one that is not is
   ``Unknown``, and each carries its *taint*, the facts of the scenario that it was computed from. Every test
   on the path is a condition with its taint. What leaves the sources goes through ``facts`` to ``library``
   and ``tensors``. The run's ``Machine`` notes raises, gates passed and library calls.
3. Contrasts (``judge``, then ``refused`` or ``passed``). A refusal counts if the guard before it looks at a
   fact and nothing on the way is unknown, *and* another architecture or another value gets past it: then that
   fact is the cause. Values whose runs agree in every step are one way under several names.
4. The row (``cell``, ``evidence``, ``undecided``): a verdict with the lines that prove it, the deciding one
   first, or ``unknown`` with the reason. A wrong ``blocked`` is the worst error, so doubt is unknown.

``trace`` is the tool: cells in, traces out, remembered in ``cache``, spread over the cores by ``batch``.

To follow more: a kind of node goes into ``interpreter/expressions`` or ``statements``, a library's function
into ``library.CALLS``, an engine into ``profiles/``.
"""
