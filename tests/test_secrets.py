"""What looks like a secret never reaches a log, and nothing else is touched."""

from __future__ import annotations

import hashlib
import json
import random
import string
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from memory.canonical import finding_id
from memory.clock import FixedClock
from tools.engines import adapter
from transcripts.events import Called, Noted, Opened, Returned
from transcripts.log import Log, LogError, read, verify
from transcripts.messages import Messages, message_id
from transcripts.redaction.secrets import Redactor, environment_secrets, redacted, shows

OPENED = Opened(investigation="i", program="p", driver="d", question="q", seed=0)
# In parts, so that nothing that looks for keys finds one here.
SK, HF, GH, AKIA, XOX = "s" + "k-", "h" + "f_", "gh" + "p_", "AK" + "IA", "xo" + "xb-"
BODY = "MIIEowIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MaQwQwQwQwQwQwQw"

SECRETS = [
    (f"{SK}proj-Abc123Def456Ghi789Jkl012", "", ""),
    (f"{SK}ant-api03-AbCdEf123456_GhIjKl789012-AAAA", "the key ", " is spent"),
    (f"{SK}abcdefghijklmnopqrstuvwxyz123456", "export OPENAI_API_KEY=", ""),
    (f"{SK}abcdefghijklmnopqrstuvwxyz123456", 'said "\\n', '\\n"'),
    (f"{SK}abcdefghijklmnopqrstuvwxyz123456", "\x1b[31m", "\x1b[0m"),
    (f"{HF}AbCdEfGhIjKlMnOpQrStUvWxYz12345678", "login(", ")"),
    (f"{GH}0123456789abcdefghijABCDEFGHIJ012345", "https://x-access-token:", "@github.com/a/b"),
    ("github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz", "", ""),
    (f"{AKIA}IOSFODNN7EXAMPLE", "id ", ""),
    ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_access_key = ", ""),
    ("AIza" + "SyA1234567890abcdefghijklmnopqrstuv", "key=", "&q=1"),
    (f"{XOX}123456789012-abcdefABCDEF", "slack ", ""),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P", "", ""),
    ("nvapi-" + "a1B2c3D4e5F6g7H8i9J0k1L2", "", ""),
    ("abcdef123456", "Authorization: Bearer ", ""),
    ("mysecrettoken9", 'curl -H "Authorization: Bearer ', '" http://127.0.0.1'),
    ("dXNlcjpwYXNz", '{"Authorization": "Basic ', '"}'),
    (f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----", "a ", " b"),
    (f"-----BEGIN PRIVATE KEY-----\\n{BODY}\\n-----END PRIVATE KEY-----", '"', '"'),
    (f"-----BEGIN OPENSSH PRIVATE KEY-----\n{BODY}\n{BODY}", "cut off: ", ""),
    ("hunter2", "postgres://bob:", "@db.local/x"),
    ("p%40ss", "http://user:", "@proxy:8080"),
    ("s3cr3tvalue", "python -m sglang.launch_server --api-key ", " --port 3"),
    ("abcd1234efgh5678ijkl", "vllm serve --hf-token=", ""),
    ("abcd1234efgh", 'api_key="', '"'),
    ("abcd1234efgh", '{\\"api_key\\": \\"', '\\"}'),
    ("hunter2hunter2", "password: ", ""),
    ("9f8a7b6c5d4e3f2a1b0c9d8e", "token: ", ""),
    ("0123456789abcdef0123456789abcdef", "x-api-key: ", ""),
    ("6f1ed002ab5595859014ebf0951522d9", "MY_SECRET=", ""),
    ("letmein123", "PASSWORD=", ""),
    ("Tr0ub4dor&3", 'DB_PASSWORD="', '"'),
]  # fmt: skip

DIGEST = hashlib.sha256(b"x").hexdigest()
ORDINARY = [
    f"token: {DIGEST}", f"sha256:{DIGEST}", f'"token": "sha256-{DIGEST}"', DIGEST[:40], DIGEST[:16],
    "--tokenizer qwen3-abc123 --max-total-tokens 12345678 --tokenizer-path /models/x1",
    "token=self.tokenizer2.token password=args.password api_key=cfg.api_key2",
    'api_key = os.environ["OPENAI_API_KEY"]', "api_key: str = None",
    'parser.add_argument("--api-key", type=str)',
    'command += ["--api-key", api_key]', '"Authorization": f"Bearer {api_key}"', "Bearer $TOKEN",
    "Authorization: Bearer YOUR_API_KEY", "--api-key EMPTY", "--api-key is needed", "--api-key argument",
    "sm120_xmma_gemm_e4m3_e4m3_f32_tn_n_tilesize128x128x64_cga1x1x1", "flashinfer-python==0.6.7.post2",
    '"token": "gemm1_dense_situ_m256_n256_2cta_zero_fill_secondary_nopdl"',
    "constexpr int BYTES_PER_TOKEN = DSV4NVFP4Cache::DATA_BYTES_PER_TOKEN;",
    "https://github.com/flashinfer-ai/flashinfer@v0.6.5", f"git+https://host/a/b@{DIGEST[:40]}",
    'image_token="<image_pad_3>" pad_token: "[PAD128]" eos_token = 151643151',
    "http://127.0.0.1:30000/v1", "http://{user}:{password}@host", "http://localhost:8000@x",
    'if "-----BEGIN PRIVATE KEY-----" in text: raise ValueError("-----END is missing")',
    '"credentials": "/etc/keys/server1.json"', "--credentials /etc/keys/server1.json",
    "api_key: https://vault.local/v1/key2",
    "risk-2024-abcdefghij", "hf_quantizer_config", "hf_text_config.rope_scaling", "task-0123456789abcdef",
    "/home/me/.cache/huggingface/hub/models--Qwen--Qwen3/snapshots/" + DIGEST[:40],
]  # fmt: skip


@pytest.mark.parametrize(("secret", "before", "after"), SECRETS)
def test_a_secret_goes_and_what_is_around_it_stays(secret: str, before: str, after: str) -> None:
    text = redacted(before + secret + after)
    assert text.startswith(before + "[redacted:"), text
    assert text.endswith("]" + after), text
    assert redacted(text) is text
    assert redacted({"text": [before + secret + after]}) == {"text": [text]}
    assert shows(text, before + secret + after)


@pytest.mark.parametrize("text", ORDINARY)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) is text
    value = {"text": [text, {"more": text}], text: 1}
    assert redacted(value) is value


def test_a_field_or_the_option_before_tells_a_secret() -> None:
    argv = ["serve", "--api-key", "zz99zz99", "--port", "3", "--hf-token", "tokenizer"]
    assert redacted(argv) == ["serve", "--api-key", "[redacted:secret]", *argv[3:]]
    assert redacted({"api_key": "abc def 12", "token": DIGEST, "max_token": "12345678"}) == {
        "api_key": "[redacted:secret]", "token": DIGEST, "max_token": "12345678",
    }  # fmt: skip
    assert redacted({"Authorization": "Bearer abc123"}) == {
        "Authorization": "Bearer [redacted:authorization]"
    }


def test_an_aws_secret_beside_its_id_goes_with_it() -> None:
    text = redacted(f"{AKIA}IOSFODNN7ABCDEFG, wJalrXUtnFEMI/K7MDENG/bPxRfiCYABCDEFGHIJ")
    assert text == "[redacted:aws-key], [redacted:aws-secret]"


def test_exact_secrets_go_in_every_spelling() -> None:
    redact = Redactor(['pa"ss wörd', "plain", "plainer"])
    value = {
        "plain": 'it is pa"ss wörd',
        "n": [json.dumps('pa"ss wörd'), "http://x/?q=pa%22ss%20w%C3%B6rd", "plainer"],
    }
    new = redact(value)
    known = "[redacted:known]"
    assert new == {known: f"it is {known}", "n": [f'"{known}"', f"http://x/?q={known}", known]}
    assert redact(new) is new
    with pytest.raises(ValueError, match="less than 4"):
        Redactor(["abc"])
    assert Redactor(["redacted", "known"])(known) == known


def test_names_that_become_the_same_stay_apart() -> None:
    assert Redactor(["aaaa", "bbbb"])({"aaaa": 1, "bbbb": 2, "c": 3}) == {
        "[redacted:known]": 1, "[redacted:known]'": 2, "c": 3,
    }  # fmt: skip


def test_hashes_over_words_that_went_follow() -> None:
    excerpt = f"key {SK}abcdefghijklmnopqrstuvwxyz123456"
    cited = {"excerpt": excerpt, "sha256": hashlib.sha256(excerpt.encode()).hexdigest()}
    claim = {"scenario": {"url": "http://u:hunter2@h"}, "event_evidence": [cited], "source_evidence": []}
    new = redacted({"id": finding_id(claim), "claim": claim, "more": 1})
    (kept,) = new["claim"]["event_evidence"]
    assert kept["excerpt"] == "key [redacted:api-key]"
    assert kept["sha256"] == hashlib.sha256(kept["excerpt"].encode()).hexdigest()
    assert new["id"] == finding_id(new["claim"])


def test_secrets_of_the_environment_are_told_by_their_names() -> None:
    environ = {
        "OPENAI_API_KEY": "not-like-a-key", "HF_TOKEN": "abcdefgh1", "AWS_ACCESS_KEY_ID": "abcdefgh2",
        "DB_PASSWORD": "correcthorse", "MY_SECRET": "abcdefgh3", "SHORT_KEY": "abc", "SORT_KEY": "timestamp",
        "KEY_FILE": "/home/me/key", "TOKEN_PATH": "/home/me/token", "SIGNING_KEY": "/home/me/key.pem",
        "MAX_TOKEN": "10000000", "TOKENIZERS_PARALLELISM": "disabled", "MONKEY": "abcdefgh4",
    }  # fmt: skip
    assert environment_secrets(environ) == [
        "abcdefgh1",
        "abcdefgh2",
        "abcdefgh3",
        "abcdefgh4",
        "correcthorse",
        "not-like-a-key",
    ]


def test_redacting_twice_changes_nothing_more() -> None:
    chance = random.Random(5)
    pieces = [secret for secret, *_ in SECRETS] + [before for _, before, _ in SECRETS] + ORDINARY
    pieces += [" ", ",", '"', "[redacted:secret]", "=", ":", "@", "\n", "\\n", "key", "token", "--"]
    for _ in range(1500):
        text = "".join(chance.choices(pieces, k=chance.randrange(1, 7)))
        once = redacted(text)
        assert redacted(once) == once, text
        assert shows(once, text)


def test_redacting_fields_twice_changes_nothing_more() -> None:
    chance = random.Random(1)
    texts = [secret for secret, *_ in SECRETS] + [a + secret + b for secret, a, b in SECRETS] + ORDINARY
    texts += ["--api-key", "x/api_key", "password", "Authorization", "token", "a password:", "see token="]

    def some(depth: int = 0) -> Any:
        kind = chance.random()
        if depth > 3 or kind < 0.4:
            return chance.choice([*texts, 1, None, True])
        if kind < 0.7:
            return [some(depth + 1) for _ in range(chance.randrange(4))]
        return {chance.choice(texts): some(depth + 1) for _ in range(chance.randrange(4))}

    for _ in range(2000):
        value = some()
        once = redacted(value)
        assert redacted(once) == once, value


def test_source_and_names_come_through_whole() -> None:
    """The words of this project: source, paths, versions, hashes, names of kernels."""
    root = Path(adapter.__file__).parents[2]
    files = [path for folder in ("memory", "tools", "agent") for path in (root / folder).rglob("*.*")]
    lines = [
        line for path in files if path.suffix in {".py", ".toml"} for line in path.read_text().splitlines()
    ]
    assert len(lines) > 10_000
    changed = [line for line in lines if redacted(line) is not line]
    assert changed == []
    chance = random.Random(3)
    for size in (16, 32, 40, 64, 128):
        for _ in range(300):
            digest = "".join(chance.choices("0123456789abcdef", k=size))
            for text in (
                digest,
                f"token: {digest}",
                f"sha256={digest}",
                f"commit {digest}",
                f"/a/{digest}/b",
            ):
                if size != 16:
                    assert redacted(text) is text


def test_no_text_takes_long() -> None:
    """What repeats must not make a pattern go back and forth."""
    bits = [
        "-",
        "a.",
        "a-",
        "11.",
        "eyJ-",
        "eyJ",
        "key ",
        "token=",
        SK,
        "://",
        "a://",
        "a:",
        "-----BEGIN PRIVATE KEY-----",
    ]
    bits += [
        "--a-",
        "--a_",
        "secret_",
        "bearer ",
        "authorization: ",
        AKIA,
        "\\n",
        "x@",
        "api key",
        "passw",
        '"token": "',
    ]
    for bit in bits:
        text = (bit * 100_000)[:100_000]
        started = time.process_time()
        redacted(text + "!")
        redacted(f"password: {text}!")
        assert time.process_time() - started < 3, bit


def test_shows_tells_a_quotation_from_another_text() -> None:
    assert shows("a [redacted:x] b [redacted:y]", "a 1 b 2")
    assert shows("[redacted:x]", "")
    assert not shows("a [redacted:x] b", "a 1 c")
    assert not shows("a [redacted:x] ab", "a b")
    assert not shows("a", "b")


# In the log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "one.jsonl"


def test_no_secret_is_written(path: Path) -> None:
    key = f"{SK}abcdefghijklmnopqrstuvwxyz123456"
    redact = Redactor(["known-to-the-program"])
    opened = OPENED.model_copy(update={"question": f"why does {key} fail"})
    with Log.create(path, opened, FixedClock(), redact=redact) as log:
        event = log.append(
            Returned(call="c1", status="ok", output={key: ["known-to-the-program", {"x": key}]})
        )
        assert isinstance(event.data, Returned)
        assert event.data.output == {"[redacted:api-key]": ["[redacted:known]", {"x": "[redacted:api-key]"}]}
    with Log.open(path, FixedClock(), redact) as log:
        log.append(Noted(text=f"see known-to-the-program and {key}"))
    written = path.read_bytes()
    assert key.encode() not in written
    assert b"known-to-the-program" not in written
    assert verify(path) == []
    assert len(list(read(path))) == 3


def test_a_secret_that_is_a_word_of_the_format_is_refused_in_one_line(path: Path) -> None:
    with Log.create(path, OPENED, FixedClock(), redact=Redactor(["noted"])) as log:
        with pytest.raises(LogError, match="secret that is a word of the format") as caught:
            log.append(Noted(text="x"))
        assert "\n" not in str(caught.value)
        log.append(Called(call="c1", tool="t", effect="reads", input={}))  # type: ignore[arg-type]
    assert verify(path) == []


def test_a_message_is_named_by_what_is_kept_of_it(path: Path) -> None:
    said: list[Any] = []
    messages = Messages(said.append, lambda _: "", lambda _: b"")
    name = messages.say({"role": "user", "content": "password: hunter2hunter2"}, None)
    assert said[0].message == {"role": "user", "content": "password: [redacted:secret]"}
    assert name == said[0].id == message_id(said[0].message, None)


def test_looking_for_secrets_costs_little(path: Path) -> None:
    """Of what an event of ordinary size costs. Generous, since other processes work beside this one."""
    words = string.ascii_lowercase
    rows = [
        {"file": f"lib/{n}.py", "sha256": hashlib.sha256(bytes([n])).hexdigest(), "text": f"{words} == {n}"}
        for n in range(20)
    ]  # fmt: skip
    body = Returned(call="c1", status="ok", output=rows)
    data = body.model_dump(mode="json")
    redact = Redactor(["known-to-the-program"])
    with Log.create(path, OPENED, FixedClock(), redact=redact) as log:
        log.append(body)
        started = time.process_time()
        for _ in range(300):
            log.append(body)
        whole = time.process_time() - started
    started = time.process_time()
    for _ in range(300):
        redact(data)
    assert time.process_time() - started < whole / 5, sys.version
