"""What load generators print and write → figures with unit and place."""

from __future__ import annotations

import json

from tools.benchmark import benchmark_runs
from tools.benchmark.output import Run

SGLANG = """
============ Serving Benchmark Result ============
Backend:                                 sglang    
Traffic request rate:                    inf       
Max request concurrency:                 64        
Successful requests:                     512       
Benchmark duration (s):                  102.11    
Total input tokens:                      262144    
Total generated tokens:                  286900    
Total generated tokens (retokenized):    26211     
Request throughput (req/s):              5.01      
Input token throughput (tok/s):          2567.27   
Output token throughput (tok/s):         2810.22   
Peak output token throughput (tok/s):    3104.00   
Peak concurrent requests:                77        
Total token throughput (tok/s):          5377.49   
Concurrency:                             61.20     
Accept length:                           2.31      
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   12212.10  
Median E2E Latency (ms):                 12010.55  
---------------Time to First Token----------------
Mean TTFT (ms):                          812.44    
P99 TTFT (ms):                           nan       
-----Time per Output Token (excl. 1st token)------
Median TPOT (ms):                        18.20     
---------------Inter-Token Latency----------------
Max ITL (ms):                            410.07    
==================================================
"""  # noqa: W291
VLLM = """INFO: Starting main benchmark run...
============ Serving Benchmark Result ============
Successful requests:                     100
Failed requests:                         2
Maximum request concurrency:             8
Benchmark duration (s):                  30.50
Total Token throughput (tok/s):          1900.10
---------------Time to First Token----------------
P99.9 TTFT (ms):                         101.25
----------------End-to-end Latency----------------
Median E2EL (ms):                        2210.00
---------------Speculative Decoding---------------
Acceptance rate (%):                     71.20
Acceptance length:                       2.42
==================================================
"""


def figures(run: Run) -> dict[str, tuple[float, str, int]]:
    return {figure.metric: (figure.value, figure.unit, figure.line) for figure in run.figures}


def test_the_table_of_a_serving_benchmark() -> None:
    (run,) = benchmark_runs(SGLANG)
    assert run.settings == {"backend": "sglang", "request_rate": "inf", "max_concurrency": "64"}
    assert figures(run) == {
        "completed": (512, "requests", 6),
        "duration": (102.11, "s", 7),
        "total_input_tokens": (262144, "tokens", 8),
        "total_output_tokens": (286900, "tokens", 9),
        "total_output_tokens_retokenized": (26211, "tokens", 10),
        "request_throughput": (5.01, "req/s", 11),
        "input_throughput": (2567.27, "tok/s", 12),
        "output_throughput": (2810.22, "tok/s", 13),
        "peak_output_throughput": (3104, "tok/s", 14),
        "peak_concurrency": (77, "requests", 15),
        "total_throughput": (5377.49, "tok/s", 16),
        "concurrency": (61.2, "requests", 17),
        "accept_length": (2.31, "tokens", 18),
        "mean_e2e_latency": (12212.10, "ms", 20),
        "median_e2e_latency": (12010.55, "ms", 21),
        "mean_ttft": (812.44, "ms", 23),
        "median_tpot": (18.20, "ms", 26),
        "max_itl": (410.07, "ms", 28),
    }
    lines = SGLANG.split("\n")
    assert all(figure.excerpt == lines[figure.line - 1].strip() for figure in run.figures)


def test_the_same_table_as_another_engine_words_it() -> None:
    one, two = benchmark_runs(VLLM + SGLANG)
    assert one.settings == {"max_concurrency": "8"}
    assert figures(one) == {
        "completed": (100, "requests", 3),
        "failed": (2, "requests", 4),
        "duration": (30.5, "s", 6),
        "total_throughput": (1900.1, "tok/s", 7),
        "p99.9_ttft": (101.25, "ms", 9),
        "median_e2e_latency": (2210, "ms", 11),
        "acceptance_rate": (71.2, "%", 13),
        "accept_length": (2.42, "tokens", 14),
    }
    assert two.value("output_throughput") == 2810.22


def test_lines_that_were_picked_out_of_tables_are_runs_of_their_own() -> None:
    picked = """c=1
Output token throughput (tok/s):         46.10
Median TPOT (ms):                        21.50
c=8
Output token throughput (tok/s):         301.00
Median TPOT (ms):                        24.10
"""
    assert [figures(run) for run in benchmark_runs(picked)] == [
        {"output_throughput": (46.1, "tok/s", 2), "median_tpot": (21.5, "ms", 3)},
        {"output_throughput": (301, "tok/s", 5), "median_tpot": (24.1, "ms", 6)},
    ]
    # Without its unit a label says nothing outside its table.
    assert benchmark_runs("throughput\nConcurrency:   3\nSuccessful requests:   9\n") == []


def test_numbers_and_files_before_lines_are_passed_over() -> None:
    for before in ("12:", "runs/c8.log-", "runs/c8.log:12:", "   12→", "12\t", "12| "):
        (run,) = benchmark_runs(f"{before}Output token throughput (tok/s):         301.00\n")
        (figure,) = run.figures
        assert (figure.value, figure.excerpt[:6]) == (301, "Output")


def test_single_batches_and_offline_runs() -> None:
    (batch,) = benchmark_runs(
        "Prefill. latency: 0.12345 s, throughput:   8294.12 token/s\n"
        "Decode 0. Batch size: 1, latency: 0.00612 s, throughput:    163.40 token/s\n"
        "Decode.  median latency: 0.00512 s, median throughput:    195.12 token/s\n"
        "Total. latency:  1.234 s, throughput:    123.45 token/s\n"
    )
    assert figures(batch) == {
        "prefill_latency": (0.12345, "s", 1),
        "prefill_throughput": (8294.12, "tok/s", 1),
        "median_decode_latency": (0.00512, "s", 3),
        "median_decode_throughput": (195.12, "tok/s", 3),
        "total_latency": (1.234, "s", 4),
        "total_throughput": (123.45, "tok/s", 4),
    }
    first, second = benchmark_runs(
        "Throughput: 12.34 requests/s, 1234.50 total tokens/s, 567.80 output tokens/s\n" * 2
    )
    assert figures(first) == {
        "request_throughput": (12.34, "req/s", 1),
        "total_throughput": (1234.5, "tok/s", 1),
        "output_throughput": (567.8, "tok/s", 1),
    }
    assert figures(second).keys() == figures(first).keys()
    (latency,) = benchmark_runs("Avg latency: 1.2 seconds\n10% percentile latency: 1.1 seconds\n")
    assert figures(latency) == {"mean_latency": (1.2, "s", 1), "p10_latency": (1.1, "s", 2)}
    (server,) = benchmark_runs(
        "batch size: 16\nlatency: 1.23 s\ninput throughput: 900.00 tok/s\noutput throughput: 64.20 tok/s\n"
        "last_ttft: 0.31 s\nlast generation throughput: 70.10 tok/s\n"
    )
    assert [figure.metric for figure in server.figures] == [
        "input_throughput",
        "output_throughput",
        "ttft",
        "last_generation_throughput",
    ]


def test_documents_are_pointed_into() -> None:
    line = {
        "tag": None,
        "backend": "sglang",
        "max_concurrency": 8,
        "duration": 10.5,
        "completed": 64,
        "request_throughput": 6.1,
        "output_throughput": 800.25,
        "total_throughput": 1600.5,
        "median_e2e_latency_ms": 80.5,
        "p99_itl_ms": 22.0,
        "accept_length": None,
        "ttfts": [1.0],
    }
    (run,) = benchmark_runs(f"#Input tokens: 1\n{json.dumps(line)}\n")
    assert (run.tool, run.settings) == ("sglang.bench_serving", {"backend": "sglang", "max_concurrency": "8"})
    assert [(figure.line, figure.pointer) for figure in run.figures[-2:]] == [
        (2, "/median_e2e_latency_ms"),
        (2, "/p99_itl_ms"),
    ]
    assert figures(run)["median_e2e_latency"] == (80.5, "ms", 2)
    assert run.figures[-1].excerpt == '"p99_itl_ms": 22.0'
    vllm = {"request_throughput": 1, "total_token_throughput": 2.5, "duration": 3, "mean_e2el_ms": 4.0}
    first, second = benchmark_runs(json.dumps([vllm, vllm], indent=1))
    assert (first.tool, first.value("total_throughput")) == ("vllm bench serve", 2.5)
    assert second.figures[-1].pointer == "/1/mean_e2el_ms"
    (latency,) = benchmark_runs('{"avg_latency": 1.5, "latencies": [1.5], "percentiles": {"99": 1.9}}')
    assert [(figure.metric, figure.pointer) for figure in latency.figures] == [
        ("mean_latency", "/avg_latency"),
        ("p99_latency", "/percentiles/99"),
    ]


def test_what_is_no_figure_gives_none() -> None:
    for text in (
        "",
        "throughput of 5 tok/s was hoped for",
        "Mean TTFT (ms):                          inf",
        '{"throughput": 3}',
        '{"request_throughput": true, "total_token_throughput": "2", "duration": 1e999}',
        '{"request_throughput": ' + "[" * 100_000,
        "Output token throughput (tok/s):         " + "9" * 500,
        "[2026-03-07 19:24:01 TP0] Decode batch. gen throughput (token/s): 2810.22, #queue-req: 0,",
    ):
        assert [run.figures for run in benchmark_runs(text) if run.figures] == [], text[:80]
