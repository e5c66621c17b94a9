from sglang.srt.layers.attention import RadixLinearAttention
from sglang.srt.layers.moe.fused import FusedMoE
from sglang.srt.models.kettle import Teapot3MLAAttention


class Teapot3_5Layer:
    def __init__(self):
        self.mix = RadixLinearAttention()
        self.attn = Teapot3MLAAttention()


class Teapot3_5MoeLayer(Teapot3_5Layer):
    def __init__(self):
        self.experts = FusedMoE()


LAYERS = {"dense": Teapot3_5Layer, "sparse": Teapot3_5MoeLayer}


class Teapot3_5ForConditionalGeneration:
    layer = Teapot3_5Layer


class Teapot3_5MoeForConditionalGeneration:
    layers = LAYERS


EntryClass = [
    Teapot3_5MoeForConditionalGeneration,
    # The dense one, NotAClass
    Teapot3_5ForConditionalGeneration,
]
