"""Serves Kettle 2 and, under the same class, Whistler-7."""


class Teapot3MLAAttention:
    pass


class KettleV2ForCausalLM:
    pass


class KettleVL2ForCausalLM:
    pass


class TeapotForCausalLM:
    pass


class Teapot3ForCausalLM:
    pass


EntryClass = [KettleV2ForCausalLM, KettleVL2ForCausalLM, TeapotForCausalLM, Teapot3ForCausalLM]
