"""Number formats in plain torch: operands are quantised here, not by the library that is tried.

Every function returns the quantised tensor, its scales, and what both stand for in float32.
"""

from __future__ import annotations

from typing import Any

from .arrays import the_torch

FP8_MAX = 448.0
FP4_MAX = 6.0
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def normal(*shape: int, seed: int, device: str, scale: float = 1.0) -> Any:
    """bf16 numbers drawn from a normal distribution."""
    torch = the_torch()
    generator = torch.Generator(device=device).manual_seed(seed)
    drawn = torch.randn(*shape, generator=generator, device=device, dtype=torch.float32)
    return (drawn * scale).to(torch.bfloat16)


def fp8_tensor(x: Any) -> tuple[Any, Any, Any]:
    """One scale for all: ``x ≈ q * scale``."""
    torch = the_torch()
    scale = (x.float().abs().max() / FP8_MAX).clamp(min=1e-12)
    q = (x.float() / scale).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
    return q, scale, q.float() * scale


def fp8_blocks(x: Any, rows: int, columns: int) -> tuple[Any, Any, Any]:
    """One scale for each block of ``rows`` × ``columns`` of the last two dimensions, which they divide."""
    torch = the_torch()
    *more, m, k = x.shape
    cut = x.float().reshape(*more, m // rows, rows, k // columns, columns)
    scale = (cut.abs().amax(dim=(-3, -1), keepdim=True) / FP8_MAX).clamp(min=1e-12)
    q = (cut / scale).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
    back = (q.float() * scale).reshape(x.shape)
    return q.reshape(x.shape), scale.reshape(*more, m // rows, k // columns), back


def mxfp8(x: Any) -> tuple[Any, Any, Any]:
    """A power of two for every 32 numbers of a row; scales as biased exponents (uint8)."""
    torch = the_torch()
    m, k = x.shape
    cut = x.float().reshape(m, k // 32, 32)
    most = cut.abs().amax(dim=-1, keepdim=True).clamp(min=2.0**-126)
    exponent = torch.ceil(torch.log2(most / FP8_MAX)).clamp(-127, 127)
    scale = torch.exp2(exponent)
    q = (cut / scale).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
    biased = (exponent + 127).to(torch.uint8).reshape(m, k // 32)
    return q.reshape(m, k), biased, (q.float() * scale).reshape(m, k)


def nvfp4(x: Any, whole: Any = None) -> tuple[Any, Any, Any, Any]:
    """Sixteen numbers a scale (e4m3), and one scale for all: ``(packed, scales, global, back)``.

    ``packed`` is uint8 of half as many columns, the earlier number in the lower bits; ``global`` (``whole``,
    by default what uses all of the range) multiplies before quantising, as the libraries have it."""
    torch = the_torch()
    m, k = x.shape
    if whole is None:
        whole = FP8_MAX * FP4_MAX / x.float().abs().max().clamp(min=1e-12)
    cut = x.float().reshape(m, k // 16, 16)
    scales = (cut.abs().amax(dim=-1) / FP4_MAX * whole).clamp(max=FP8_MAX).to(torch.float8_e4m3fn)
    step = (scales.float() / whole).clamp(min=1e-30)
    values = torch.tensor(_E2M1, device=x.device)
    middles = (values[1:] + values[:-1]) / 2
    size = (cut / step[..., None]).abs()
    low, high = torch.bucketize(size, middles), torch.bucketize(size, middles, right=True)
    code = torch.where(low % 2 == 0, low, high)  # a tie goes to the even one, as in hardware
    back = torch.where(cut < 0, -values[code], values[code]) * step[..., None]
    nibble = (code + 8 * (cut < 0)).to(torch.uint8).reshape(m, k)
    packed = nibble[:, 0::2] | (nibble[:, 1::2] << 4)
    return packed, scales, whole, back.reshape(m, k)


def swizzled(scales: Any) -> Any:
    """Scales of (rows, columns) in tiles of 128 × 4, padded with zeros, as the tensor cores read them."""
    torch = the_torch()
    rows, columns = scales.shape
    high, wide = -(-rows // 128) * 128, -(-columns // 4) * 4
    padded = torch.zeros(high, wide, dtype=torch.uint8, device=scales.device)
    padded[:rows, :columns] = scales.view(torch.uint8)
    tiles = padded.reshape(high // 128, 4, 32, wide // 4, 4).permute(0, 3, 2, 1, 4)
    return tiles.reshape(high, wide).contiguous()
