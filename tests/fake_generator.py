"""A FAKE load generator: it takes an engine's options and writes its file; nothing in it was measured.

:func:`add_generator` puts it into a folder of packages, with a fault if one is wanted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_PROGRAM = """\
import argparse, json, os, random, sys, time
from pathlib import Path

FAULT = json.loads({fault!r})


def add_cli_args(parser):
{declared}

def main():
    parser = argparse.ArgumentParser()
    add_cli_args(parser)
    args = parser.parse_args({words})
    fault = FAULT.get("fault") if args.max_concurrency >= FAULT.get("at", 1) else None
    if fault == "crash":
        sys.exit("RuntimeError: planted")
    if fault == "hang":
        while True:
            time.sleep(60)
    if FAULT.get("removes"):
        Path(FAULT["removes"]).unlink()
    n = args.num_prompts
    source = random.Random(f"{{args.seed}} {{FAULT.get('launch', '')}}")
    speed = FAULT.get("speed", 1.0) * source.uniform(0.98, 1.02)
    tpot = (5 + args.max_concurrency / 8) / speed
    ttfts = [source.uniform(0.02, 0.06) / speed for _ in range(n)]
    done = n - 2 if fault == "failed" else n
    seconds = n / args.max_concurrency * args.random_output_len * tpot / 1000
    output = args.random_output_len * done // (2 if fault == "short" else 1)
    if fault == "silent":
        ttfts[0] = 0.0
    found = {{
        "duration": seconds, "completed": done, "max_concurrency": args.max_concurrency,
        "total_input_tokens": args.random_input_len * done, "total_output_tokens": output,
        "request_throughput": done / seconds, "output_throughput": output / seconds,
        {total!r}: (output + args.random_input_len * done) / seconds,
        "mean_ttft_ms": 1000 * sum(ttfts) / n, "median_ttft_ms": 1000 * sorted(ttfts)[n // 2],
        "p99_ttft_ms": 1000 * max(ttfts), "mean_tpot_ms": tpot, "median_tpot_ms": tpot,
        "median_itl_ms": tpot, "p99_itl_ms": 2 * tpot,
        "median_{e2e}_ms": 1000 * sorted(ttfts)[n // 2] + tpot * args.random_output_len,
    }}
    if FAULT.get("accepted"):
        found["accept_length"] = FAULT["accepted"]
    if fault == "missing":
        del found["median_tpot_ms"]
    if fault == "nothing":
        return
    found |= {{"ttfts": ttfts, "errors": ["", "refused: planted"] if fault == "failed" else [""] * n,
              "server_info": {{"api_key": os.environ.get("OPENAI_API_KEY")}}}}
    {write}
    print("done")


if __name__ == "__main__":
    main()
"""
_SGLANG = (
    "--backend --dataset-name --random-range-ratio --base-url --model --served-model-name --tokenizer "
    "--num-prompts --max-concurrency --random-input-len --random-output-len --seed --output-file"
)
_VLLM = (
    "--backend --endpoint --dataset-name --random-range-ratio --temperature --percentile-metrics "
    "--metric-percentiles --base-url --model --served-model-name --tokenizer --num-prompts --max-concurrency "
    "--random-input-len --random-output-len --seed --result-dir --result-filename"
)
_NUMBERS = {"--num-prompts", "--max-concurrency", "--random-input-len", "--random-output-len"}
_FILES = {
    "sglang": ("sglang/bench_serving.py", _SGLANG, "--output-details --tokenize-prompt --disable-tqdm",
               "sys.argv[1:]", "total_throughput", "e2e_latency",
               "Path(args.output_file).open('a').write(json.dumps(found) + chr(10))"),
    "vllm": ("vllm/benchmarks/serve.py", _VLLM, "--save-result --save-detailed --ignore-eos --disable-tqdm",
             "sys.argv[3:]", "total_token_throughput", "e2el",
             "(Path(args.result_dir) / args.result_filename).write_text(json.dumps(found))"),
}  # fmt: skip


def add_generator(site: Path, engine: str = "sglang", *, without: str = "", **fault: Any) -> Path:
    """Put the generator of ``engine`` into ``site``. ``fault``: its name, and from which concurrency ``at``;
    ``speed``, ``accepted`` and ``launch`` change what it claims to have seen; ``removes``: a file.
    ``without``: an option."""
    file, options, switches, words, total, e2e, write = _FILES[engine]
    declared = [
        f"    parser.add_argument({name!r}{', type=int' if name in _NUMBERS else ''})"
        for name in options.split()
        if name != without
    ]
    declared += [f"    parser.add_argument({name!r}, action='store_true')" for name in switches.split()]
    text = _PROGRAM.format(
        fault=json.dumps(fault), declared="\n".join(declared), words=words, total=total, e2e=e2e, write=write
    )
    place = site / file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    for folder in place.relative_to(site).parents:
        if folder.name:
            (site / folder / "__init__.py").touch()
    if engine == "vllm":
        main = site / "vllm/entrypoints/cli/main.py"
        main.parent.mkdir(parents=True, exist_ok=True)
        main.write_text("from vllm.benchmarks.serve import main\nmain()\n", encoding="utf-8")
        for folder in ("vllm/entrypoints", "vllm/entrypoints/cli"):
            (site / folder / "__init__.py").touch()
    info = site / f"{engine}-0.0.1.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {engine}\nVersion: 0.0.1\n", "utf-8")
    if not (info / "RECORD").exists():
        (info / "RECORD").write_text(f"{file},,\n", "utf-8")
    return site
