"""A finding as a sentence, rendered from its fields: nobody types it in."""

from __future__ import annotations

from memory.vocabulary import Because, Claim, Condition, Measurement, Verdict

_SCENARIO_SHOWN = 4


def render(claim: Claim) -> str:
    """One line: what, where, under which versions, what was found, and the place that decides.

    ``moe_runner flashinfer_trtllm on sm120 (sglang 0.5.9, flashinfer-python 0.6.5): blocked because of
    architecture; flashinfer/jit/fused_moe.py:251``
    """
    subject = f"{claim.component} {claim.backend} on {claim.arch}"
    parts = [f"{subject} ({', '.join(_versions(claim)) or claim.engine}): {_says(claim)}"]
    parts += [f"if {_condition(condition)}" for condition in claim.conditions]
    parts += [_measured(measurement) for measurement in claim.measurements]
    if claim.report is not None:
        said = (f"by a {claim.report.by}", claim.report.date)
        parts += filter(None, (", ".join(filter(None, said)), claim.report.url))
    else:
        parts += _place(claim)
    return "; ".join(parts)


def _versions(claim: Claim) -> list[str]:
    """The engine first, then the others by name; then what the scenario fixes."""
    names = sorted(claim.packages, key=lambda name: (name != claim.engine, name))
    versions = [f"{name} {claim.packages[name]}" for name in names]
    settings = [f"{key}={value}" for key, value in sorted(claim.scenario.items())]
    more = [f"{len(settings) - _SCENARIO_SHOWN} more settings"] if len(settings) > _SCENARIO_SHOWN else []
    return versions + _scoped(claim) + settings[:_SCENARIO_SHOWN] + more


def _scoped(claim: Claim) -> list[str]:
    scope = claim.scope
    if scope is None:
        return []
    ranges = [f"{name} {versions}" for name, versions in sorted(scope.ranges.items())]
    gpus = [f"{scope.gpu_count} × {scope.gpu or 'GPU'}"] if scope.gpu_count else [scope.gpu]
    driver = f"driver {scope.driver}" if scope.driver else None
    rest = [*scope.archs, scope.model, scope.quantisation, *gpus, driver]
    return [*ranges, *(str(one) for one in rest if one)]


def _says(claim: Claim) -> str:
    said: list[str] = []
    if claim.verdict is not None:
        words = claim.verdict.value.replace("_", " ")
        if claim.verdict is Verdict.REROUTED and claim.runs_instead:
            words += f" to {claim.runs_instead}"
        said.append(words)
    if claim.outcome is not None:
        words = f"{claim.level.value} {claim.outcome.value.replace('_', ' ')}"
        if claim.verdict is None and claim.runs_instead:
            words += f", {claim.runs_instead} ran instead"
        said.append(words)
    text = ", ".join(said) or "reported"
    return f"{text} because of {_because(claim.because)}" if claim.because is not None else text


def _because(because: Because) -> str:
    return because.value


def _condition(condition: Condition) -> str:
    return f"{condition.fact} {condition.op} {condition.value}"


def _measured(measurement: Measurement) -> str:
    return f"{measurement.metric} {measurement.value:g} {measurement.unit}".rstrip()


def _place(claim: Claim) -> list[str]:
    if claim.source_evidence:
        # What decides comes first; the way that leads to it stands behind.
        first = claim.source_evidence[0]
        return [f"{first.file}:{first.line}"]
    if claim.event_evidence:
        return [f"{claim.event_evidence[-1].transcript} event {claim.event_evidence[-1].event}"]
    return []
