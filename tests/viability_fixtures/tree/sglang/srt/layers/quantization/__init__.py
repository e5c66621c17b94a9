from sglang.srt.layers.quantization.small import SmallConfig

QUANTIZATION_METHODS = {"nvfp4": SmallConfig}


def get_quantization_config(quantization: str):
    if quantization not in QUANTIZATION_METHODS:
        raise ValueError(f"Invalid quantization method: {quantization}")
    return QUANTIZATION_METHODS[quantization]
