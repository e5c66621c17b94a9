from dataclasses import dataclass

import torch

from vllm.config.top import get_current_top_config
from vllm.layers.quantization import resolve_method
from vllm.layers.registry import direct_register_custom_op, get_context


@dataclass
class Settings:
    weave_backend: str
    width: int


class Experts(torch.nn.Module):
    def __init__(self, layer_name, quant_config, settings):
        super().__init__()
        self.settings = settings
        self.quant_method = self._method(quant_config, layer_name)

    def _method(self, quant_config, prefix):
        return resolve_method(quant_config, self, prefix)


class Runner(torch.nn.Module):
    def __init__(self, experts, layer_name):
        super().__init__()
        self.experts = experts
        self.layer_name = layer_name

    def forward(self, x):
        return torch.ops.vllm.run_experts(x, self.layer_name)

    def inner(self, x):
        return self.experts.quant_method.apply(self.experts, x)


def run_experts(x: torch.Tensor, layer_name: str) -> torch.Tensor:
    return get_context().no_compile_layers[layer_name].inner(x)


def run_experts_fake(x: torch.Tensor, layer_name: str) -> torch.Tensor:
    return torch.empty_like(x)


direct_register_custom_op(op_name="run_experts", op_func=run_experts, fake_impl=run_experts_fake)


def MakeExperts(hidden_size: int, quant_config=None, prefix="", experts_cls=None):
    top_config = get_current_top_config()
    if top_config.extra_config is not None:
        raise ValueError("never set")
    settings = Settings(weave_backend=top_config.weave_config.weave_backend, width=hidden_size)
    if experts_cls is None:
        experts_cls = Experts
    return Runner(experts_cls(prefix, quant_config, settings), prefix)
