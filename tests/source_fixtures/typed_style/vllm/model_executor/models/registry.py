_MODELS = {
    # [Decoder-only]
    "Teapot3_5ForCausalLM": ("teapot", "Teapot35"),
    "TeapotRemoteForCausalLM": (
        "vllm.models.remote",
        "Remote",
    ),
}
_DRAFTS = {"Teapot3_5MTP": ("teapot", "Teapot35MTP")}
_REMOVED = {"OldPotForCausalLM": "0.1.0"}
