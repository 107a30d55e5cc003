"""The causal spectral convolution of sequences on a GPU: the sliding DFT, forwards and backwards in time, in Triton.

y_t = Re sum_k v_k X_k(t) with X_k(t) = u_k (X_k(t - 1) + x_t - x_{t - n}), per channel; the spectrum X stays in
registers, in float32. The gradient for x is the same recurrence on the gradient g of y with time reversed. Its state
Y_k(s) gives the gradient for v as well: sum_s x_s Y_k(s). The cost does not depend on the window n.

A sequence is divided into spans that run in parallel; each begins with the spectrum of its window, formed from the
inputs. Rounding would turn the spectrum by a little more in each step, so it is turned back every CORRECTED steps. This
keeps errors near 1e-6 of the output at any length. The interpreter of Triton (TRITON_INTERPRET=1) runs the kernels on a
CPU.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from fcnet_core.policies.fcnet import spectral
from fcnet_core.policies.fcnet.spectral import SPANS, mode_blocks

CHANNELS = 32  # of a program of one warp, one in each thread; 64 and 128 were slower
CORRECTED = tl.constexpr(spectral.CORRECTED)
PROGRAMS = 2048  # so many are enough to fill a GPU; spans are shorter if there would be fewer
GATHERED = 128  # longest window that a span reads itself; a longer one is summed up from sums of whole spans
TURN, CORRECTION, JUMP = tl.constexpr(0), tl.constexpr(2), tl.constexpr(4)  # rows of spectral.sliding_phases


@triton.jit
def _phase(u, row, k, ALL: tl.constexpr):
    """Return the real and imaginary parts in a row of the phases."""
    return tl.load(u + row * ALL + k), tl.load(u + (row + 1) * ALL + k)


@triton.jit
def _turned(cosine, sine, real, imaginary):
    return cosine * real - sine * imaginary, cosine * imaginary + sine * real


@triton.jit
def _row(z, t, rows, c, C, STEP: tl.constexpr):
    """Return row t of z in float32; zeros outside of its rows."""
    return tl.load(z + t * STEP * C + c, mask=(c < C) & (t >= 0) & (t < rows), other=0.0).to(tl.float32)[None, :]


@triton.jit
def _gathered(
    z, t, rows, c, C, u, k, LENGTH: tl.constexpr, STEP: tl.constexpr, M: tl.constexpr, ALL: tl.constexpr,
    BC: tl.constexpr,
):  # fmt: skip
    """Return the spectrum of LENGTH rows from row t on: sum_i z[t + i] u^(LENGTH - i)."""
    cosine, sine = _phase(u, TURN, k, ALL)
    upright, aslant = _phase(u, CORRECTION, k, ALL)
    real, imaginary = tl.zeros((M, BC), tl.float32), tl.zeros((M, BC), tl.float32)
    for block in range(LENGTH // CORRECTED):
        for i in range(CORRECTED):
            row = _row(z, t + block * CORRECTED + i, rows, c, C, STEP)
            real, imaginary = _turned(cosine, sine, real + row, imaginary)
        real, imaginary = _turned(upright, aslant, real, imaginary)
    for i in range(LENGTH // CORRECTED * CORRECTED, LENGTH):
        real, imaginary = _turned(cosine, sine, real + _row(z, t + i, rows, c, C, STEP), imaginary)
    return real, imaginary


@triton.jit
def _window(
    z, t, rows, c, C, u, sums, span, k, WHOLE: tl.constexpr, REST: tl.constexpr, SPAN: tl.constexpr,
    LEVEL: tl.constexpr, STEP: tl.constexpr, M: tl.constexpr, ALL: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Return the spectrum of the window before row t: of REST rows, then of the sums of WHOLE spans before `span`."""
    real, imaginary = _gathered(z, t - WHOLE * SPAN - REST, rows, c, C, u, k, REST, STEP, M, ALL, BC)
    cosine, sine = _phase(u, JUMP + 2 * LEVEL, k, ALL)
    for whole in range(WHOLE):
        place = span - WHOLE + whole
        entry, known = sums + (2 * place * ALL + k) * C + c[None, :], (c < C)[None, :] & (place >= 0)
        real, imaginary = _turned(cosine, sine, real, imaginary)
        real += tl.load(entry, mask=known, other=0.0)
        imaginary += tl.load(entry + ALL * C, mask=known, other=0.0)
    return real, imaginary


@triton.jit
def _sum_spans(
    z, sums, u, rows, first, count, C, SPAN: tl.constexpr, STEP: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
    BC: tl.constexpr,
):  # fmt: skip
    """Write the spectra of `count` spans from row `first` on, each of its own rows alone."""
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    z += (tl.program_id(0) // count).to(tl.int64) * rows * C
    if STEP < 0:
        z += (rows - 1) * C
    t = first + tl.program_id(0) % count * SPAN
    sums += tl.program_id(0).to(tl.int64) * 2 * (A + B) * C + c[None, :]
    inside = (c < C)[None, :]
    k, k2 = tl.arange(0, A)[:, None], A + tl.arange(0, B)[:, None]
    real, imaginary = _gathered(z, t, rows, c, C, u, k, SPAN, STEP, A, A + B, BC)
    tl.store(sums + k * C, real, mask=inside)
    tl.store(sums + (A + B + k) * C, imaginary, mask=inside)
    real, imaginary = _gathered(z, t, rows, c, C, u, k2, SPAN, STEP, B, A + B, BC)
    tl.store(sums + k2 * C, real, mask=inside)
    tl.store(sums + (A + B + k2) * C, imaginary, mask=inside)


@triton.jit
def _slide(
    z, y, x, dv, v, u, sums, rows, first, count, lead, summed, window, C, WHOLE: tl.constexpr, REST: tl.constexpr,
    SPAN: tl.constexpr, LEVEL: tl.constexpr, SLIDES: tl.constexpr, GRADIENT: tl.constexpr, STEP: tl.constexpr,
    MODES: tl.constexpr, A: tl.constexpr, B: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Write a span of the `count` outputs y from row `first` of z on, and its part of the gradient for v."""
    ALL: tl.constexpr = A + B
    spans = tl.cdiv(count, SPAN)
    batch, span = (tl.program_id(0) // spans).to(tl.int64), tl.program_id(0) % spans
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    z += batch * rows * C
    y += batch * count * C
    x += batch * count * C
    sums += batch * summed * 2 * ALL * C
    if STEP < 0:
        z += (rows - 1) * C
        y += (count - 1) * C
        x += (count - 1) * C
    k, k2 = tl.arange(0, A)[:, None], A + tl.arange(0, B)[:, None]
    weights, inside, inside2 = v + c[None, :], (c < C)[None, :] & (k < MODES), (c < C)[None, :] & (k2 < MODES)
    vr, vi = tl.load(weights + k * C, inside, 0.0), tl.load(weights + (MODES + k) * C, inside, 0.0)
    vr2, vi2 = tl.load(weights + k2 * C, inside2, 0.0), tl.load(weights + (MODES + k2) * C, inside2, 0.0)
    t, index = first + span * SPAN, lead + span
    ar, ai = _window(z, t, rows, c, C, u, sums, index, k, WHOLE, REST, SPAN, LEVEL, STEP, A, ALL, BC)
    br, bi = _window(z, t, rows, c, C, u, sums, index, k2, WHOLE, REST, SPAN, LEVEL, STEP, B, ALL, BC)
    cosine, sine = _phase(u, TURN, k, ALL)
    cosine2, sine2 = _phase(u, TURN, k2, ALL)
    pr, pi = tl.zeros((A, BC), tl.float32), tl.zeros((A, BC), tl.float32)
    pr2, pi2 = tl.zeros((B, BC), tl.float32), tl.zeros((B, BC), tl.float32)
    new = _row(z, t, rows, c, C, STEP)
    for block in range(SPAN // CORRECTED):
        for i in range(CORRECTED):
            place = span * SPAN + block * CORRECTED + i
            following = _row(z, first + place + 1, rows, c, C, STEP)  # one step ahead of its use
            if SLIDES:
                new -= _row(z, first + place - window, rows, c, C, STEP)
            ar, ai = _turned(cosine, sine, ar + new, ai)
            br, bi = _turned(cosine2, sine2, br + new, bi)
            out = tl.sum(vr * ar - vi * ai, 0) + tl.sum(vr2 * br - vi2 * bi, 0)
            tl.store(y + place * STEP * C + c, out.to(y.dtype.element_ty), mask=(c < C) & (place < count))
            if GRADIENT:
                seen = _row(x, place, count, c, C, STEP)
                pr += seen * ar
                pi -= seen * ai
                pr2 += seen * br
                pi2 -= seen * bi
            new = following
        ar, ai = _turned(*_phase(u, CORRECTION, k, ALL), ar, ai)
        br, bi = _turned(*_phase(u, CORRECTION, k2, ALL), br, bi)
    if GRADIENT:
        dv += tl.program_id(0).to(tl.int64) * 2 * MODES * C + c[None, :]
        tl.store(dv + k * C, pr, mask=inside)
        tl.store(dv + (MODES + k) * C, pi, mask=inside)
        tl.store(dv + k2 * C, pr2, mask=inside2)
        tl.store(dv + (MODES + k2) * C, pi2, mask=inside2)


def _filtered(
    z: Tensor, v: Tensor, u: Tensor, window: int, first: int, count: int, x: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return y (B, count, C), filtered from row `first` of z (B, rows, C) on, and the gradient for v, empty without x.

    x (B, count, C): makes time run backwards; the gradient is that of a forward pass with inputs x.
    """
    batch, rows, channels = z.shape
    modes = v.shape[1]
    columns, (a, b) = triton.cdiv(channels, CHANNELS), mode_blocks(modes)
    full = [batch * columns * triton.cdiv(count, span) >= PROGRAMS for span in SPANS]
    level = max((i for i, enough in enumerate(full) if enough and SPANS[i] < 2 * count), default=0)
    span = SPANS[level]
    spans = triton.cdiv(count, span)
    before = first + (spans - 1) * span  # rows before the last span
    if before <= window:
        whole, rest = triton.cdiv(before, span), 0
    elif window <= GATHERED:
        whole, rest = 0, window
    else:
        whole, rest = divmod(window, span)
    lead = min(whole, triton.cdiv(first, span))  # spans before the first output
    summed = lead + spans - 1 if whole else 0
    sums = torch.empty(batch, summed, 2, a + b, channels, dtype=torch.float32, device=z.device)
    step = 1 if x is None else -1
    if summed:
        torch.library.wrap_triton(_sum_spans)[(batch * summed, columns)](
            z, sums, u, rows, first - lead * span, summed, channels, span, step, a, b, CHANNELS, num_warps=1
        )
    y = z.new_empty(batch, count, channels)
    dv = torch.empty(0 if x is None else batch * spans, 2, modes, channels, dtype=torch.float32, device=z.device)
    torch.library.wrap_triton(_slide)[(batch * spans, columns)](
        z, y, z if x is None else x, dv, v, u, sums, rows, first, count, lead, summed, window, channels, whole, rest,
        span, level, before + span > window, x is not None, step, modes, a, b, CHANNELS, num_warps=1,
    )  # fmt: skip
    return y, dv.sum(0)


@torch.library.triton_op("fcnet::slide", mutates_args={})
def slide(x: Tensor, v: Tensor, u: Tensor, window: int, past: int) -> Tensor:
    """Return x (B, past + T, C), float32 or bfloat16, filtered causally from row `past` on: (B, T, C) of its type.

    v (2, m, C): folded weights, real and imaginary parts, float32. u: sliding_phases(window, m) on the device of x.
    Rows before `past` are what was seen before. Gradients are for x and v.
    """
    return _filtered(x.contiguous(), v.contiguous(), u, window, past, x.shape[1] - past)[0]


@torch.library.triton_op("fcnet::slide_back", mutates_args={})
def slide_back(x: Tensor, gradient: Tensor, v: Tensor, u: Tensor, window: int) -> tuple[Tensor, Tensor]:
    """Return the gradients for x and v of `slide`, for that of its output (B, T, C)."""
    x = x.contiguous()
    return _filtered(gradient.contiguous(), v.contiguous(), u, window, 0, x.shape[1], x)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, int, int], output: Tensor) -> None:
    x, v, u, ctx.window, _ = inputs
    ctx.save_for_backward(x, v, u)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    x, v, u = ctx.saved_tensors
    return *slide_back(x, gradient.to(x.dtype), v, u, ctx.window), None, None, None


slide.register_autograd(_backward, setup_context=_save)
