import torch


class LinearBase(torch.nn.Module):
    def __init__(self, input_size: int, output_size: int, quant_config=None, prefix: str = ""):
        super().__init__()
        self.input_size = input_size
        self.output_size = output_size
        self.quant_method = quant_config.get_quant_method(self, prefix)
        self.quant_method.create_weights(self, input_size, output_size)

    def forward(self, x):
        return self.quant_method.apply(self, x)


class ColumnLinear(LinearBase):
    pass


def build(config, quant_config):
    return ColumnLinear(config.hidden, config.hidden, quant_config=quant_config, prefix="a")
