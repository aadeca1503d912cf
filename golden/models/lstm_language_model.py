"""An LSTM language model of two layers: embedding, LSTM, head; loss and gradients through time."""

from __future__ import annotations

import math
from typing import Any

import numpy

from golden.draw import Draw
from golden.models import _layers as nn
from golden.models._layers import Scope, Weights
from golden.models._observe import observed
from golden.models._tape import Node, gradients, join, node, parameter, reshape, take

VOCABULARY, LENGTH, WIDTH, HIDDEN, LAYERS, BATCH = 30, 8, 12, 16, 2, 3


def weights() -> Weights:
    w = Weights("lstm_language_model")
    w.uniform("word.weight", 1.0, VOCABULARY, WIDTH)
    for k in range(LAYERS):
        inputs = WIDTH if k == 0 else HIDDEN
        for name, columns in (("weight_ih", inputs), ("weight_hh", HIDDEN)):
            w.uniform(f"lstm.{name}_l{k}", math.sqrt(1.5 / columns), 4 * HIDDEN, columns)
        for name in ("bias_ih", "bias_hh"):
            w.uniform(f"lstm.{name}_l{k}", 0.3, 4 * HIDDEN)
    w.linear("head", HIDDEN, VOCABULARY)
    return w


def run(w: Weights, tokens: numpy.ndarray) -> dict[str, Any]:
    leaves = {n: parameter(v) for n, v in w.values.items()}
    results: dict[str, Any] = {}
    s = Scope(leaves, results)
    embedded = nn.embedding(s, "word", tokens[:, :-1])
    states: list[Node] = [take(embedded, (slice(None), t)) for t in range(LENGTH)]
    for k in range(LAYERS):
        h = c = node(numpy.zeros((BATCH, HIDDEN)))
        for t in range(LENGTH):
            h, c = nn.lstm_step(s.under("lstm"), k, states[t], h, c)
            states[t] = h
        s.note(f"last_hidden{k}", h)
        s.note(f"last_cell{k}", c)
    hidden = s.note("lstm", join([reshape(h, BATCH, 1, HIDDEN) for h in states], 1))
    logits = nn.linear(s, "head", hidden)
    loss = nn.cross_entropy(reshape(logits, BATCH * LENGTH, VOCABULARY), tokens[:, 1:].reshape(-1))
    found = gradients([(loss, node(1.0))], list(leaves.values()))
    return {**results, "loss": loss.value, **{f"gradient/{n}": found[leaf.serial].value for n, leaf in leaves.items()}}


def build(store: Any) -> dict[str, Any]:
    w, tokens = weights(), Draw("lstm_language_model/inputs").integers(0, VOCABULARY, BATCH, LENGTH + 1)
    config = {"vocabulary": VOCABULARY, "width": WIDTH, "hidden": HIDDEN, "layers": LAYERS}
    return observed(store, "lstm_language_model", lambda: run(w, tokens), w, {"tokens": tokens}, config, source="", note="loss and gradients through time")
