"""Multi-head attention with its projections, and a transformer's encoder layer: the fused operators of inference."""

import math

import numpy

from golden import Case, Operator, Out, conditioned
from golden import numpy_ad as np

EPS = 2.0**-17
SQUARE, PADDING, FULL = 0, 1, 2  # mask_type: (T, T), (B, T), (B, H, T, T); True is left out
WHY = "docs/numerics.md#transformer"


def fused(schema):
    """No gradient: ATen refuses to differentiate these."""
    return Operator(f"aten::{schema}", tolerance=conditioned(tf32=32800, why=WHY), modes=("layouts", "math", "deterministic", "threads"), differentiable=())


def linear(x, weight, bias):
    return np.einsum("...i,oi->...o", x, weight) + bias


def split(x, heads):
    """(B, T, D) to (B, H, T, D / H)."""
    return np.swapaxes(np.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads)), 1, 2)


def left_out(mask, mask_type, batch, heads, length):
    """Who may not be looked at, (B, H, T, T)."""
    if mask is None:
        return numpy.zeros((batch, heads, length, length), dtype=bool)
    shape = {SQUARE: (1, 1, length, length), PADDING: (batch, 1, 1, length), FULL: (batch, heads, length, length)}[mask_type]
    return numpy.broadcast_to(mask.reshape(shape), (batch, heads, length, length))


def attend(query, key, value, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type):
    """(output, weights of each head)."""
    q, k, v = (split(linear(x, w, b), heads) for x, w, b in zip((query, key, value), np.split(qkv_weight, 3), np.split(qkv_bias, 3), strict=True))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(np.balls(float(q.shape[-1])))
    away = left_out(mask, mask_type, query.shape[0], heads, query.shape[1])
    weights = np.where(away, 0 * scores, np.exp(scores))
    weights = weights / np.sum(weights, axis=-1, keepdims=True)
    mixed = np.reshape(np.swapaxes(np.einsum("bhqk,bhkd->bhqd", weights, v), 1, 2), query.shape)
    return linear(mixed, proj_weight, proj_bias), weights


def attend_rows(query, key, value, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type):
    """The second formula: one sample, head and query at a time."""
    (batch, length, size), step = query.shape, query.shape[2] // heads
    away = left_out(mask, mask_type, batch, heads, length)
    mixed, weights = numpy.zeros(query.shape), numpy.zeros((batch, heads, length, length))
    for b, h in numpy.ndindex(batch, heads):
        rows = [slice(part * size + h * step, part * size + (h + 1) * step) for part in range(3)]
        q, k, v = (x[b] @ qkv_weight[r].T + qkv_bias[r] for x, r in zip((query, key, value), rows, strict=True))
        for t in range(length):
            s = numpy.where(away[b, h, t], -numpy.inf, k @ q[t] / math.sqrt(step))
            w = numpy.exp(s - s.max())
            weights[b, h, t] = w / w.sum()
            mixed[b, t, h * step : (h + 1) * step] = weights[b, h, t] @ v
    return mixed @ proj_weight.T + proj_bias, weights


def projections(draw, size):
    """Weights of about 1 / sqrt(size), in 64ths."""
    def weight(*shape):
        return numpy.rint(draw.normal(*shape) * 64 / math.sqrt(shape[-1])) / 64

    return {"qkv_weight": weight(3 * size, size), "qkv_bias": draw.normal(3 * size), "proj_weight": weight(size, size), "proj_bias": draw.normal(size)}


def masks(draw, batch, heads, length):
    """(name, mask, mask_type): a query always has itself, or the first key, to look at."""
    causal = numpy.triu(numpy.ones((length, length), dtype=bool), 1)
    padding = numpy.arange(length) >= numpy.arange(length, length - batch, -1)[:, None]
    full = draw.integers(0, 2, batch, heads, length, length).astype(bool) & ~numpy.eye(length, dtype=bool)
    yield from (("causal", causal, SQUARE), ("padding", padding, PADDING), ("full", full, FULL))


attention = fused("_native_multi_head_attention")


def outputs(found, need_weights, average_attn_weights):
    """The heads' weights, their mean, or nothing."""
    out, weights = found
    if not need_weights:
        return out, Out(unchecked="the weights were not asked for: what stands there, if anything, is the backend's")
    return out, weights.sum(1) / weights.shape[1] if average_attn_weights else weights


@attention.reference
def attention_reference(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None, need_weights=True, average_attn_weights=True, mask_type=None):
    return outputs(attend(query, key, value, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type), need_weights, average_attn_weights)


@attention.second
def attention_second(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None, need_weights=True, average_attn_weights=True, mask_type=None):
    return outputs(attend_rows(query, key, value, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type), need_weights, average_attn_weights)


@attention.cases
def attention_cases(draw):
    def given(batch, length, size, heads):
        return {n: draw.normal(batch, length, size) for n in ("query", "key", "value")} | {"embed_dim": size, "num_head": heads} | projections(draw, size)

    yield Case("b1_t3_h2_d8", **given(1, 3, 8, 2))
    yield Case("one_token", **given(1, 1, 4, 1))
    yield Case("heads_apart", **given(1, 3, 8, 2), average_attn_weights=False)
    yield Case("no_weights", **given(2, 2, 8, 1), need_weights=False)
    yield Case("head_of_3", **given(1, 3, 6, 2), need_weights=False, source="pytorch#110505", note="a head's size that no vector register divides")
    yield Case("head_of_1", **given(1, 2, 3, 3))
    for need in (True, False):
        for name, mask, kind in masks(draw, 2, 2, 3):
            yield Case(f"{name}_weights{int(need)}", **given(2, 3, 4, 2), mask=mask, mask_type=kind, need_weights=need, source="pytorch#107084")
    yield Case("heads_that_do_not_divide", **given(1, 2, 8, 3), expect="error")


layer = fused("_transformer_encoder_layer_fwd")


def norm(x, weight, bias, eps):
    centred = x - np.sum(x, axis=-1, keepdims=True) / x.shape[-1]
    return centred / np.sqrt(np.sum(centred * centred, axis=-1, keepdims=True) / x.shape[-1] + np.balls(eps)) * weight + bias


def gelu(x):
    return x * (1 + np.erf(x / np.sqrt(np.balls(2.0)))) / 2


def relu(x):
    return x * (np.floats(x) > 0)


def encoder(src, norm_first, first, second, attention_of, feed_forward):
    """Around each of the two parts a sum with its input; normalized before the part, or after the sum."""
    if norm_first:
        x = src + attention_of(first(src))
        return x + feed_forward(second(x))
    x = first(src + attention_of(src))
    return second(x + feed_forward(x))


@layer.reference
def layer_reference(src, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1,
                    ffn_weight_2, ffn_bias_2, embed_dim=None, mask=None, mask_type=None):
    return encoder(src, norm_first, lambda x: norm(x, norm_weight_1, norm_bias_1, eps), lambda x: norm(x, norm_weight_2, norm_bias_2, eps),
                   lambda x: attend(x, x, x, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type)[0],
                   lambda x: linear((gelu if use_gelu else relu)(linear(x, ffn_weight_1, ffn_bias_1)), ffn_weight_2, ffn_bias_2))


def by_statistics(weight, bias, eps):
    return lambda x: (x - x.mean(-1, keepdims=True)) / numpy.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias


@layer.second
def layer_second(src, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1,
                 ffn_weight_2, ffn_bias_2, embed_dim=None, mask=None, mask_type=None):
    act = numpy.vectorize((lambda v: v * 0.5 * math.erfc(-v / math.sqrt(2))) if use_gelu else (lambda v: max(v, 0.0)))
    return encoder(src, norm_first, by_statistics(norm_weight_1, norm_bias_1, eps), by_statistics(norm_weight_2, norm_bias_2, eps),
                   lambda x: attend_rows(x, x, x, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type)[0],
                   lambda x: act(x @ ffn_weight_1.T + ffn_bias_1) @ ffn_weight_2.T + ffn_bias_2)


@layer.cases
def layer_cases(draw):
    def given(batch, length, size, heads, wide, use_gelu, norm_first):
        norms = {f"norm_weight_{k}": draw.uniform(0.5, 2, size) for k in (1, 2)} | {f"norm_bias_{k}": draw.normal(size) for k in (1, 2)}
        ffn = {"ffn_weight_1": draw.normal(wide, size), "ffn_bias_1": draw.normal(wide), "ffn_weight_2": draw.normal(size, wide), "ffn_bias_2": draw.normal(size)}
        return {"src": draw.normal(batch, length, size), "embed_dim": size, "num_heads": heads, **projections(draw, size), "use_gelu": use_gelu, "norm_first": norm_first, "eps": EPS, **norms, **ffn}

    for use_gelu in (False, True):
        for norm_first in (False, True):
            yield Case(f"gelu{int(use_gelu)}_norm_first{int(norm_first)}", **given(1, 3, 8, 2, 6, use_gelu, norm_first))
    for name, mask, kind in masks(draw, 2, 2, 3):
        if kind != FULL:
            yield Case(name, **given(2, 3, 4, 2, 5, name == "causal", False), mask=mask, mask_type=kind)
    yield Case("one_token", **given(1, 1, 4, 1, 3, True, True))
    yield Case("head_of_3", **given(1, 2, 6, 2, 7, True, False), source="pytorch#110505", note="a head's size that no vector register divides")


pieces = Operator("aten::_transform_bias_rescale_qkv", tolerance=conditioned(), modes=("layouts", "threads"), differentiable=())


@pieces.reference
def pieces_reference(qkv, qkv_bias, num_heads):
    """Query, key and value of each head; the query over the root of a head's size."""
    q, k, v = (split(part, num_heads) for part in np.split(qkv + qkv_bias, 3, axis=-1))
    return q / np.sqrt(np.balls(float(q.shape[-1]))), k, v


@pieces.second
def pieces_second(qkv, qkv_bias, num_heads):
    batch, length, wide = qkv.shape
    parts = (qkv + qkv_bias).reshape(batch, length, 3, num_heads, wide // 3 // num_heads).transpose(2, 0, 3, 1, 4)
    return parts[0] / math.sqrt(parts.shape[-1]), parts[1], parts[2]


@pieces.cases
def pieces_cases(draw):
    for batch, length, heads, step in ((1, 1, 1, 1), (2, 3, 2, 4), (1, 5, 3, 3), (1, 2, 1, 17), (2, 1, 2, 8)):
        yield Case(f"b{batch}_t{length}_h{heads}_d{step}", qkv=draw.normal(batch, length, 3 * heads * step), qkv_bias=draw.normal(3 * heads * step), num_heads=heads)


operators = [attention, layer, pieces]
