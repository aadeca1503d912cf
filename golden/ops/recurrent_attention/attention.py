"""softmax(Q K^T scale + mask) V."""

import math

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np

operator = Operator("aten::scaled_dot_product_attention", tolerance=conditioned(tf32=32800), modes=("layouts", "math", "deterministic", "threads"),
                    differentiable=("query", "key", "value"), zero_gradient="the softmax over one key is 1, whatever query and key are",
                    # the memory-efficient kernel's backward accumulates with atomics (docs of torch.use_deterministic_algorithms)
                    nondeterministic=("cuda.backward",))


def allowed(query, key, attn_mask, is_causal):
    """Additive float mask and bool mask (True: take part), either or None."""
    keep = None
    if is_causal:
        keep = numpy.tril(numpy.ones((query.shape[-2], key.shape[-2]), dtype=bool))
    if attn_mask is not None and numpy.asarray(np.value(attn_mask)).dtype == bool:
        keep, attn_mask = attn_mask, None
    return keep, attn_mask


@operator.reference
def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """A row without any allowed key is 0."""
    if enable_gqa:
        heads = numpy.arange(query.shape[-3]) // (query.shape[-3] // key.shape[-3])
        key, value = key[:, heads], value[:, heads]
    factor = 1 / np.sqrt(np.balls(float(query.shape[-1]))) if scale is None else scale
    keep, mask = allowed(query, key, attn_mask, is_causal)
    scores = np.einsum("...lk,...sk->...ls", query, key) * factor
    if mask is not None:
        scores = scores + mask
    weights = np.exp(scores)
    if keep is not None:
        weights = np.where(numpy.broadcast_to(keep, scores.shape), weights, 0 * weights)
    total = np.sum(weights, axis=-1, keepdims=True)
    empty = np.floats(total) == 0
    return np.einsum("...ls,...sv->...lv", weights / np.where(empty, 1, total), value)


@operator.second
def attention_rows(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """One query at a time, over the keys that it may see."""
    q, k, v = (a.reshape(-1, *a.shape[-2:]) for a in (query, key, value))
    times = q.shape[0] // k.shape[0]
    keep, mask = allowed(query, key, attn_mask, is_causal)
    full = (*query.shape[:-1], key.shape[-2])
    keep = numpy.broadcast_to(True if keep is None else keep, full).reshape(-1, *full[-2:])
    mask = numpy.broadcast_to(0.0 if mask is None else mask, full).reshape(-1, *full[-2:])
    out = numpy.zeros((q.shape[0], q.shape[1], v.shape[2]))
    for b, row in numpy.ndindex(q.shape[:2]):
        seen = numpy.flatnonzero(keep[b, row])
        if seen.size == 0:
            continue
        s = k[b // times][seen] @ q[b, row] * (scale or 1 / math.sqrt(q.shape[2])) + mask[b, row, seen]
        w = numpy.exp(s - s.max())
        out[b, row] = w @ v[b // times][seen] / w.sum()
    return out.reshape(*query.shape[:-1], value.shape[-1])


@operator.backward_scale
def backward_scale(gradients, upstream, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """P errs by its score's error; dS = P (dP - sum P dP) by u of the two terms that cancel, which the Jacobian does not show where one key takes all."""
    heads = numpy.arange(query.shape[-3]) // (query.shape[-3] // key.shape[-3])
    k, v, g = key[:, heads], value[:, heads], numpy.abs(upstream[0])
    factor = scale or 1 / math.sqrt(query.shape[-1])
    keep, mask = allowed(query, key, attn_mask, is_causal)
    scores = numpy.einsum("...lk,...sk->...ls", query, k) * factor + (0 if mask is None else mask)
    scores = numpy.where(True if keep is None else keep, scores, -numpy.inf)
    top = scores.max(-1, keepdims=True)
    p = numpy.exp(scores - numpy.where(numpy.isfinite(top), top, 0))
    p = p / numpy.maximum(p.sum(-1, keepdims=True), 1e-300)
    error = 1 + numpy.einsum("...lk,...sk->...ls", numpy.abs(query), numpy.abs(k)) * factor
    p = p * (1 + error + (p * error).sum(-1, keepdims=True))
    d = numpy.einsum("...lv,...sv->...ls", g, numpy.abs(v))
    d = p * (d + (p * d).sum(-1, keepdims=True)) * factor
    q_scale = numpy.einsum("...ls,...sk->...lk", d, numpy.abs(k))
    k_scale, v_scale = numpy.einsum("...ls,...lk->...sk", d, numpy.abs(query)), numpy.einsum("...ls,...lv->...sv", p, g)
    if enable_gqa:
        k_scale, v_scale = (numpy.stack([x[:, heads == h].sum(1) for h in range(key.shape[-3])], axis=1) for x in (k_scale, v_scale))
    return {"query": q_scale, "key": k_scale, "value": v_scale}


@operator.cases
def cases(draw):
    def qkv(b, h, length, s, e, ev=None):
        return {"query": draw.normal(b, h, length, e), "key": draw.normal(b, h, s, e), "value": draw.normal(b, h, s, ev or e)}

    yield Case("l3_s5_e4", **qkv(1, 2, 3, 5, 4))
    yield Case("l1_s1_e1", **qkv(1, 1, 1, 1, 1))
    yield Case("causal", **qkv(1, 1, 4, 4, 3), is_causal=True)
    yield Case("causal_wide", **qkv(1, 1, 3, 5, 4), is_causal=True, note="L != S: the mask's diagonal starts top left")
    yield Case("scale", **qkv(1, 1, 3, 4, 4), scale=0.25)
    yield Case("values_wider", **qkv(1, 1, 2, 3, 4, 7))
    mask = numpy.array([[True, False, True, True], [False, True, True, False], [True, True, True, True]])
    yield Case("bool_mask", **qkv(1, 2, 3, 4, 4), attn_mask=mask)
    yield Case("float_mask", **qkv(1, 1, 3, 4, 4), attn_mask=draw.normal(3, 4))
    yield Case("grouped", query=draw.normal(1, 4, 2, 4), key=draw.normal(1, 2, 3, 4), value=draw.normal(1, 2, 3, 4), enable_gqa=True)
    empty = mask.copy()
    empty[1] = False
    yield Case("row_without_keys", **qkv(1, 1, 3, 4, 4), attn_mask=empty, smooth=False, source="pytorch#103749",
               note="a query that may see no key gets 0, and gives no gradient")
    for s in (16, 33, 65, 129):
        yield Case(f"s{s}_e16", **qkv(1, 1, 2, s, 16), backward=s < 65, source="pytorch#109517" if s > 64 else None)
    far = {**qkv(1, 1, 2, 5, 4), "attn_mask": numpy.array([[0.0, -1000.0, 0.0, -1000.0, 0.0]] * 2)}
    yield Case("far_mask", **far, note="weights of exp(-1000) are 0")
