from vllm.layers.oracle import choose

KEY, OTHER_KEY = ("four", "block"), ("eight", "row")


class SmallConfig:
    @classmethod
    def from_config(cls, config):
        return cls()

    @classmethod
    def get_min_capability(cls):
        return 75

    def get_quant_method(self, layer, prefix):
        return SmallMethod(layer.settings)


class SmallMethod:
    def __init__(self, settings):
        self.expert = choose(settings, KEY)

    def process_weights_after_loading(self, layer):
        self.kernel = self.expert(layer)

    def apply(self, layer, x):
        return self.kernel.apply(x)


def get_quantization_config(name):
    return {"small": SmallConfig, "modelopt_fp4": SmallConfig}[name]


def resolve_method(quant_config, layer, prefix):
    return quant_config.get_quant_method(layer, prefix)
