"""What a crash log says: versions, GPU and arguments, the first failure, and what the source says of it.

``facts`` reads what the log tells of its launch, ``causes`` says why it failed, with ``kinds`` where no
signature does, ``gate`` finds the line that raised in the sources of these versions, ``diagnose`` puts them
together.
"""
