"""A model, for who builds what."""

from vllm.layers.moe import MakeExperts
from vllm.layers.spin import DeepLayer, FlatLayer


class Model:
    def __init__(self, config, quant_config):
        self.flat = FlatLayer(config.hidden_size, quant_config=quant_config)
        self.other = FlatLayer(config.hidden_size, quant_config=quant_config)
        self.deep = DeepLayer(config.hidden_size, quant_config=quant_config)
        self.one = MakeExperts(config.hidden_size, quant_config=quant_config)
        self.two = MakeExperts(config.hidden_size, quant_config=quant_config)
        self.three = MakeExperts(config.hidden_size, quant_config=quant_config)
