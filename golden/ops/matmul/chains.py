"""Products of several tensors: Einstein's sums, chains, bilinear forms."""

import numpy

from golden import Case, conditioned
from golden import numpy_ad as np
from golden.table import Table

table = Table(tolerance=conditioned(tf32=32800), modes=("layouts", "math", "deterministic", "threads"), scale="multilinear")
add, operators = table.add, table.operators
EQUATIONS = (("ij,jk->ik", (4, 7), (7, 3)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("ij,j->i", (4, 33), (33,)), ("i,j->ij", (5,), (3,)), ("ij->ji", (3, 4)), ("ij->i", (3, 17)), ("ii->i", (4, 4)),
             ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)), ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 2)), ("ij,ij->ij", (3, 5), (3, 5)), ("ij,kj->ik", (3, 16), (2, 16)), ("bn,anm,bm->ba", (2, 3), (4, 3, 2), (2, 2)),
             ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 2)), ("ijk,jil->kl", (2, 3, 4), (3, 2, 5)))


def letters(equation):
    return equation.replace(",", "_").replace("->", "_to_").replace("...", "x")


def by_loops(equation, tensors):
    """The definition: over every value of every letter."""
    left, right = equation.replace("...", "Z").split("->")
    terms = left.split(",")
    size = {c: n for term, t in zip(terms, tensors, strict=True) for c, n in zip(term, t.shape, strict=True)}
    out = numpy.zeros([size[c] for c in right])
    names = sorted(size)
    for place in numpy.ndindex(*(size[c] for c in names)):
        at = dict(zip(names, place, strict=True))
        value = 1.0
        for term, t in zip(terms, tensors, strict=True):
            value *= t[tuple(at[c] for c in term)]
        out[tuple(at[c] for c in right)] += value
    return out


def einsum(equation, tensors):
    """One product after the other from the left, each with the letters that are still needed (autograd's gradient knows no repeated letter)."""
    if equation == "ii->i":
        k = numpy.arange(tensors[0].shape[0])
        return tensors[0][k, k]
    left, right = equation.replace("...", "Z").split("->")
    terms = left.split(",")
    out, have = tensors[0], terms[0]
    for n, t in enumerate(tensors[1:], 1):
        needed = set(right) | set("".join(terms[n + 1 :]))
        keep = "".join(dict.fromkeys(c for c in have + terms[n] if c in needed))
        wide = "".join(dict.fromkeys(have + terms[n]))
        out = np.sum(spread(out, have, wide) * spread(t, terms[n], wide), axis=tuple(k for k, c in enumerate(wide) if c not in keep))
        have = keep
    gone = tuple(k for k, c in enumerate(have) if c not in right)
    out, have = np.sum(out, axis=gone) if gone else out, "".join(c for c in have if c in right)
    return np.transpose(out, tuple(have.index(c) for c in right))


def spread(x, have, wide):
    """An axis for each letter of `wide`, of length 1 where x has none."""
    order = sorted(range(len(have)), key=lambda k: wide.index(have[k]))
    x = np.transpose(x, tuple(order))
    sizes = iter(x.shape)
    return np.reshape(x, tuple(next(sizes) if c in have else 1 for c in wide))


add("einsum", lambda equation, tensors: einsum(equation, tensors), by_loops, lambda draw: [Case(letters(e), equation=e, tensors=[draw.normal(*s) for s in shapes]) for e, *shapes in EQUATIONS])


def chain(tensors):
    """From the left; a vector at an end loses its axis."""
    first, last = tensors[0].ndim == 1, tensors[-1].ndim == 1
    out = np.reshape(tensors[0], (1, -1)) if first else tensors[0]
    for t in tensors[1:]:
        out = np.matmul(out, np.reshape(t, (-1, 1)) if t.ndim == 1 else t)
    return np.reshape(out, tuple(n for k, n in enumerate(out.shape) if not (first and k == 0 or last and k == 1)))


def chain_second(tensors):
    return numpy.linalg.multi_dot(tensors)


SHAPES = (((3, 4), (4, 5)), ((2, 7), (7, 3), (3, 5)), ((10, 2), (2, 9), (9, 3), (3, 4)), ((1, 17), (17, 1), (1, 6)))
add("linalg_multi_dot", chain, chain_second, lambda draw: [Case(f"c{k}", tensors=[draw.normal(*s) for s in shapes]) for k, shapes in enumerate((*SHAPES, ((5,), (5, 3), (3, 4)), ((2, 3), (3, 4), (4,))))])
add("chain_matmul", lambda matrices: chain(matrices), lambda matrices: chain_second(matrices), lambda draw: [Case(f"c{k}", matrices=[draw.normal(*s) for s in shapes]) for k, shapes in enumerate(SHAPES)])


def bilinear(input1, input2, weight, bias=None):
    """sum over i, j of x_i W_kij y_j, plus the bias."""
    left = np.reshape(input1, (-1, 1, 1, input1.shape[-1]))
    right = np.reshape(input2, (-1, 1, input2.shape[-1], 1))
    out = np.matmul(np.matmul(left, weight[None]), right)[..., 0, 0]
    out = np.reshape(out, (*input1.shape[:-1], weight.shape[0]))
    return out if bias is None else out + bias


add("bilinear", bilinear, lambda input1, input2, weight, bias=None: numpy.einsum("...i,kij,...j->...k", input1, weight, input2) + (0 if bias is None else bias),
    lambda draw: [Case(f"{'x'.join(map(str, s))}_bias{int(b)}", input1=draw.normal(*s, 3), input2=draw.normal(*s, 4), weight=draw.normal(k, 3, 4), bias=draw.normal(k) if b else None)
                  for s, k in (((1,), 1), ((5,), 2), ((2, 3), 2), ((17,), 1)) for b in (False, True)])
