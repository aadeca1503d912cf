"""A causal decoder with a cache of keys and values: the prefill of a whole sequence, the same sequence token by token, loss and gradients."""

from __future__ import annotations

from typing import Any

import numpy

from golden.draw import Draw
from golden.models import _layers as nn
from golden.models._layers import Scope, Weights
from golden.models._observe import observed
from golden.models._tape import Node, add, gradients, join, node, parameter, reshape, take

VOCABULARY, LENGTH, PREFIX, WIDTH, HEADS, INNER, LAYERS, BATCH = 40, 10, 4, 16, 2, 32, 2, 2
LAYER_NORM_EPS = 1e-5


def weights() -> Weights:
    w = Weights("causal_decoder")
    w.uniform("word.weight", 1.0, VOCABULARY, WIDTH)
    w.uniform("position.weight", 1.0, LENGTH, WIDTH)
    for k in range(LAYERS):
        w.norm(f"layer{k}.attention_norm", WIDTH)
        for name in ("query", "key", "value", "attention_output"):
            w.linear(f"layer{k}.{name}", WIDTH, WIDTH)
        w.norm(f"layer{k}.inner_norm", WIDTH)
        w.linear(f"layer{k}.intermediate", WIDTH, INNER)
        w.linear(f"layer{k}.output", INNER, WIDTH)
    w.norm("norm", WIDTH)
    w.linear("head", WIDTH, VOCABULARY, bias=False)
    return w


Cache = dict[int, tuple[Node, Node]]  # layer → keys and values so far, (B, heads, T, D / heads)


def forward(s: Scope, tokens: numpy.ndarray, cache: Cache) -> Node:
    """Logits of `tokens`, which stand behind what the cache holds; the cache grows."""
    begin = cache[0][0].shape[2] if cache else 0
    count = tokens.shape[1]
    place = numpy.broadcast_to(numpy.arange(begin, begin + count), tokens.shape)
    x = add(nn.embedding(s, "word", tokens), nn.embedding(s, "position", place))
    seen = numpy.arange(begin + count) <= numpy.arange(begin, begin + count)[:, None]
    for k in range(LAYERS):
        one = s.under(f"layer{k}")
        before = nn.layer_norm(one, "attention_norm", x, LAYER_NORM_EPS)
        q, key, value = (nn.heads_of(nn.linear(one, n, before), HEADS) for n in ("query", "key", "value"))
        if k in cache:
            key, value = (join([old, new], 2) for old, new in zip(cache[k], (key, value), strict=True))
        cache[k] = key, value
        x = add(x, nn.linear(one, "attention_output", nn.attend(one, q, key, value, seen[None, None])))
        inner = one.note("gelu", nn.gelu(nn.linear(one, "intermediate", nn.layer_norm(one, "inner_norm", x, LAYER_NORM_EPS))))
        x = add(x, nn.linear(one, "output", inner))
    return nn.linear(s, "head", nn.layer_norm(s, "norm", x, LAYER_NORM_EPS))


def run(w: Weights, tokens: numpy.ndarray) -> dict[str, Any]:
    """tokens (B, T + 1): each predicts the next one."""
    leaves = {n: parameter(v) for n, v in w.values.items()}
    notes: dict[str, Any] = {}
    logits = forward(Scope(leaves, notes), tokens[:, :-1], {})
    loss = nn.cross_entropy(reshape(logits, BATCH * LENGTH, VOCABULARY), tokens[:, 1:].reshape(-1))
    found = gradients([(loss, node(1.0))], list(leaves.values()))
    results = {**notes, "loss": loss.value, **{f"gradient/{n}": found[leaf.serial].value for n, leaf in leaves.items()}}
    cache: Cache = {}
    steps = [tokens[:, :PREFIX], *(tokens[:, k : k + 1] for k in range(PREFIX, LENGTH))]
    for k, part in enumerate(steps):
        decoded = forward(Scope(leaves), part, cache)
        results[f"decode{k}/head"] = take(decoded, (slice(None), -1)).value
    return results


def build(store: Any) -> dict[str, Any]:
    w, tokens = weights(), Draw("causal_decoder/inputs").integers(0, VOCABULARY, BATCH, LENGTH + 1)
    config = {"vocabulary": VOCABULARY, "length": LENGTH, "prefix": PREFIX, "width": WIDTH, "heads": HEADS, "inner": INNER, "layers": LAYERS, "layer_norm_eps": LAYER_NORM_EPS}
    return observed(store, "causal_decoder", lambda: run(w, tokens), w, {"tokens": tokens}, config, source="", note="prefill, decoding with a cache, loss, gradients")
