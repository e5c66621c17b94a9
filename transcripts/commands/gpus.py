"""Programs that tell how the GPUs are. What sets something is ``other``, and changes it."""

from __future__ import annotations

from memory.terms import CallKind
from transcripts.commands.call import Call
from transcripts.commands.effects import is_harmless
from transcripts.commands.model import Fields, Step
from transcripts.commands.options import parse_options


def gpu(call: Call) -> list[Step]:
    """A status query, or a change of clocks, power or modes."""
    program = call.program
    assert program is not None
    facts = program.facts
    if call.args and (inner := program.subcommands.get(call.args[0])) is not None:
        rest = parse_options(call.args[1:], inner.grammar)
        if not is_harmless(rest, inner):
            return call.other(changes=True, note=f"{call.name} {call.args[0]}")
        fields: Fields = {"tool": call.name, "subcommand": " ".join(call.args)}
        return [call.step(CallKind.GPU_STATUS, fields, safe=call.trusted)]
    options = parse_options(call.args, program.grammar)
    changing = set(facts.get("changing", "").split())
    words = [str(one) for one in options.arguments]
    if any(name in changing for name, _ in options.given) or any(word in changing for word in words):
        return call.other(changes=True, note=f"{call.name} sets something")
    if options.has("--help", "-h", "--help-query-gpu"):
        return call.other(safe=call.trusted)
    fields = {"tool": call.name}
    query = next((value for name, value in options.given if name.startswith("--query-") and value), None)
    if query is not None:
        fields["query"] = [part.strip() for part in query.split(",")]
    elif call.args and call.args[0] in facts.get("tells", "").split():
        fields["subcommand"] = " ".join(call.args)
    safe = call.trusted and is_harmless(options, program)
    file = options.value("-f", "--filename")
    if file is not None:
        fields["output_file"] = str(file)
        safe = False
    return [call.step(CallKind.GPU_STATUS, fields, safe=safe)]
