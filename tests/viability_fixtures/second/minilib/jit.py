import torch


class CompilationContext:
    def __init__(self):
        self.TARGET_CUDA_ARCHS = set()
        if torch.cuda.is_available():
            major, minor = torch.cuda.get_device_capability()
            self.TARGET_CUDA_ARCHS.add((int(major), str(minor)))

    def get_nvcc_flags_list(self, supported_major_versions=None):
        if supported_major_versions:
            archs = [pair for pair in self.TARGET_CUDA_ARCHS if pair[0] in supported_major_versions]
        else:
            archs = self.TARGET_CUDA_ARCHS
        if len(archs) == 0:
            raise RuntimeError(f"No supported CUDA architectures found for {supported_major_versions}.")
        return [f"-gencode=arch=compute_{major}{minor}" for major, minor in archs]


current_compilation_context = CompilationContext()


class JitSpec:
    def __init__(self, name, sources, flags):
        self.name = name
        self.sources = sources
        self.flags = flags

    def build_and_load(self):
        return torch.ops.load_library(self.name)


def gen_cedar_module():
    flags = current_compilation_context.get_nvcc_flags_list(
        supported_major_versions=[10]
    )
    return JitSpec("cedar", ["cedar.cu"], flags)


def gen_common_module():
    flags = current_compilation_context.get_nvcc_flags_list()
    return JitSpec("common", ["common.cu"], flags)
