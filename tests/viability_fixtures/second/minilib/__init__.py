from .gemm import mm_plain, mm_small
