"""mm, bmm, addmm, linear: products of matrices."""

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np

MODES = ("layouts", "math", "deterministic", "threads")
TOLERANCE = conditioned(tf32=32800)

mm = Operator("aten::mm", tolerance=TOLERANCE, modes=MODES, scale="multilinear")
bmm = Operator("aten::bmm", tolerance=TOLERANCE, modes=MODES, scale="multilinear")
addmm = Operator("aten::addmm", tolerance=TOLERANCE, modes=MODES, scale="multilinear")
linear = Operator("aten::linear", tolerance=TOLERANCE, modes=MODES, scale="multilinear")
operators = [mm, bmm, addmm, linear]

mm.reference(np.matmul)
mm.second(lambda self, mat2: numpy.einsum("ij,jk->ik", self, mat2))
bmm.reference(np.matmul)
bmm.second(lambda self, mat2: numpy.stack([numpy.einsum("ij,jk->ik", a, b) for a, b in zip(self, mat2, strict=True)]))


@addmm.reference
def addmm_reference(self, mat1, mat2, *, beta=1, alpha=1):
    return beta * self + alpha * np.matmul(mat1, mat2)


addmm.second(lambda self, mat1, mat2, beta=1, alpha=1: self * beta + numpy.einsum("ij,jk->ik", mat1, mat2) * alpha)


@linear.reference
def linear_reference(input, weight, bias=None):
    product = np.einsum("...k,nk->...n", input, weight)
    return product if bias is None else product + bias


linear.second(lambda input, weight, bias=None: input @ weight.T + (0 if bias is None else bias))


def reference_mm(self, mat2):
    return np.matmul(self, mat2)


mm.reference(reference_mm)
bmm.reference(reference_mm)


@mm.cases
def mm_cases(draw):
    for m, k, n in ((5, 7, 3), (1, 120, 84), (16, 16, 16), (17, 120, 33), (1, 1, 1), (31, 64, 32), (3, 257, 5)):
        yield Case(f"m{m}_k{k}_n{n}", self=draw.normal(m, k), mat2=draw.normal(k, n))
    yield Case("integers", self=draw.integers(1024, 4096, 8, 32).astype(float), mat2=draw.integers(0, 2, 32, 8).astype(float),
               source="pytorch#75778", note="integers to 4095 come back exact in IEEE; TF32 drops their last bits")
    yield Case("ten_to_the_minus_four", self=numpy.ones((1, 1)), mat2=numpy.full((1, 1), float(numpy.float32(1.0001))),
               source="pytorch#55355", note="TF32 gives 1.0")


@bmm.cases
def bmm_cases(draw):
    for b, m, k, n in ((3, 4, 5, 6), (1, 8, 120, 8), (7, 1, 16, 1), (2, 17, 33, 9)):
        yield Case(f"b{b}_m{m}_k{k}_n{n}", self=draw.normal(b, m, k), mat2=draw.normal(b, k, n))


@addmm.cases
def addmm_cases(draw):
    for m, k, n in ((4, 120, 9), (1, 16, 33), (32, 32, 32)):
        yield Case(f"m{m}_k{k}_n{n}", self=draw.normal(m, n), mat1=draw.normal(m, k), mat2=draw.normal(k, n))
    yield Case("bias_row", self=draw.normal(7), mat1=draw.normal(5, 16), mat2=draw.normal(16, 7))
    yield Case("alpha_beta", self=draw.normal(6, 7), mat1=draw.normal(6, 20), mat2=draw.normal(20, 7), beta=0.5, alpha=2.0)


@linear.cases
def linear_cases(draw):
    yield Case("lenet_fc2", input=draw.normal(1, 120), weight=draw.normal(84, 120), bias=draw.normal(84),
               source="paddle#64591", note="the layer that ran in TF32 in the report of the mutated LeNet")
    yield Case("no_bias", input=draw.normal(3, 4, 17), weight=draw.normal(9, 17))
    yield Case("k_16", input=draw.normal(33, 16), weight=draw.normal(31, 16), bias=draw.normal(31))
