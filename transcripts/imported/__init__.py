"""Sessions of other agents: what is kept of them, and how it is found again.

An importer (:mod:`transcripts.importers`) reads a foreign format and tells a
:class:`~transcripts.imported.recording.Recording` what it sees. One file a session is written, events one a
line as :mod:`transcripts.imported.model` describes them; ``imported.db`` is an index folded from these files,
which may be deleted at any time. Nothing here is an investigation of ours: no finding is made of it, and no
event of it stands in a transcript.
"""
