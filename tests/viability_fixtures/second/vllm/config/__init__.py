from vllm.config.parts import KeepConfig, PlaceConfig, TopConfig, WeaveConfig
from vllm.config.top import get_current_top_config
