"""Package managers: what is installed or removed, and from which indexes."""

from __future__ import annotations

import re
from dataclasses import replace

from memory.terms import CallKind
from transcripts.commands.call import Call
from transcripts.commands.effects import is_harmless
from transcripts.commands.model import Fields, Step
from transcripts.commands.options import Grammar, Options, parse_options
from transcripts.commands.words import Arg

_NOT_DONE = {"--dry-run", "--help", "-h"}
"""With these, nothing is installed."""
_LISTS = {
    "extra_index_urls": ("--extra-index-url", "--index"),
    "requirements": ("-r", "--requirement", "--requirements"),
    "constraints": ("-c", "--constraint", "--constraints", "--channel"),
    "find_links": ("-f", "--find-links"),
    "editable": ("-e", "--editable"),
    "extras": ("--extra", "--group"),
}
_ONE = {"index_url": ("-i", "--index-url", "--default-index"), "target": ("-t", "--target", "--prefix")}


def install(call: Call) -> list[Step]:
    """A call of a package manager."""
    program = call.program
    assert program is not None
    facts = program.facts
    args = list(call.args)
    before: list[Arg] = []
    while args and args[0].startswith("-"):  # pip -q install
        option = args.pop(0)
        before.append(option)
        if option in facts.get("before", "").split() and args:
            before.append(args.pop(0))
    if not args:
        return call.other(safe=call.trusted and bool({"--version", "-V"} & set(before)))
    word, rest = str(args[0]), args[1:]
    if word in facts.get("prefixes", "").split() and rest:  # uv pip install
        word, rest = f"{word} {rest[0]}", rest[1:]
    if word == facts.get("activates"):
        call.shell.venv = str(rest[-1]) if rest else "base"
        return []
    if word in facts.get("runs", "").split():
        return _run(call, rest)
    if word in facts.get("harmless", "").split(","):
        inner = program.subcommands.get(word)
        options = parse_options(rest, inner.grammar if inner else Grammar(any=True))
        safe = call.trusted and (inner is None or is_harmless(options, inner))
        refused = tuple(facts.get("refused", "").split())
        safe &= not (refused and any(word.startswith(refused) for word in [*before, *rest]))
        return call.other(safe=safe, note=f"{call.name} {word}")
    verbs: dict[str, str] = facts["verbs"]
    if word not in verbs or _NOT_DONE & set(rest):
        return call.other(note=f"{call.name} {word}", changes=word in facts.get("changes", "").split(","))
    return [_step(call, verbs[word], parse_options(rest, program.grammar))]


def _step(call: Call, verb: str, options: Options) -> Step:
    """``verb``: install, upgrade, remove or sync."""
    packages = [str(one) for one in options.arguments]
    manager = "pip" if re.fullmatch(r"pip[\d.]*", call.name) else call.name
    fields: Fields = {"packages": packages, "manager": manager}
    if verb == "remove":
        fields["packages"], fields["removed"] = [], packages
    if verb == "sync":
        fields["sync"] = True
    if verb == "upgrade" or options.has("-U", "--upgrade", "--upgrade-package", "--update-all"):
        fields["upgrade"] = True
    if options.has("--pre") or options.value("--prerelease") == "allow":
        fields["pre"] = True
    for name, names in _LISTS.items():
        values = [str(one) for one in options.values(*names)]
        if values:
            fields[name] = values
    fields["packages"] = [*fields["packages"], *fields.get("editable", [])]
    if "constraints" in fields and call.program is not None:
        fields[call.program.facts.get("short_c", "constraints")] = fields.pop("constraints")
    for name, names in _ONE.items():
        if (value := options.value(*names)) is not None:
            fields[name] = str(value)
    return call.step(CallKind.UPGRADE_ENVIRONMENT, fields, safe=False)


_RUN = Grammar(
    values=frozenset(
        {"-n", "-p", "--name", "--prefix", "--with", "--python", "--project", "--directory", "-e"}
    )
    | {"--env-file", "--extra", "--group", "--package", "--with-requirements", "--with-editable", "--from"}
    | {"--index", "--cwd"},
    bare=frozenset({"--no-sync", "--frozen", "--locked", "--isolated", "--no-project", "-q", "--quiet", "-v"})
    | {"--no-capture-output", "--live-stream", "--no-dev", "--active", "-m", "--module", "-s"},
    stop=True,
)


def _run(call: Call, args: list[Arg]) -> list[Step]:
    """``uv run``, ``conda run``, ``poetry run``: a wrapper. It may bring the environment up to date first."""
    options = parse_options(args, _RUN)
    inner = call.shell.copy()
    if (
        call.name not in {"uv", "uvx"}
        and (name := options.value("-n", "--name", "-p", "--prefix")) is not None
    ):
        inner.where["conda_env"] = str(name)
    if (folder := options.value("--directory", "--cwd")) is not None:
        inner.enter(str(folder))
    call.trusted &= not options.unknown and (call.name != "uv" or options.has("--no-sync"))
    rest = options.arguments
    if options.has("-m", "--module"):
        rest = [Arg("python"), Arg("-m"), *rest]
    elif rest and rest[0].endswith(".py"):
        rest = [Arg("python"), *rest]
    return call.again(rest, inner) if rest else call.other()


def runner(call: Call) -> list[Step]:
    """``uvx COMMAND``, ``pipx run COMMAND``."""
    return _run(replace(call, trusted=False), call.args)
