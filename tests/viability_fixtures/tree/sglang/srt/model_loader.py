from sglang.srt.platform import get_device_capability


def get_quant_config(model_config, load_config):
    raise NotImplementedError("reads the checkpoint")


def _get_quantization_config(model_config, load_config):
    if model_config.quantization is None:
        return None
    quant_config = get_quant_config(model_config, load_config)
    major, minor = get_device_capability()
    if major is not None and minor is not None:
        capability = major * 10 + minor
        if capability < quant_config.get_min_capability():
            raise ValueError(f"{model_config.quantization} needs {quant_config.get_min_capability()}")
    return quant_config
