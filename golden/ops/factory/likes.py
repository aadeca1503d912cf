"""Constants of another tensor's shape, dtype and device; its values do not count."""

import numpy

from golden import Case, Operator, exact

operators = []


def like(schema, value, sized=False, **more):
    operator = Operator(f"aten::{schema}", tolerance=exact(), modes=("layouts",), plain=True, differentiable=())
    operator.reference(lambda self, size=None, fill_value=None: numpy.array([float(value)] * int(numpy.prod(size or self.shape))).reshape(size or self.shape))
    operator.second(lambda self, size=None, fill_value=None: numpy.full(size or self.shape, value))

    @operator.cases
    def cases(draw):
        zero = {"trivial": "zeros are asked for; the allocator is filled with NaN"} if value == 0 else {}
        for n, shape in enumerate(((1,), (7, 3), (2, 3, 4), (33,))):
            yield Case(f"c{n}", self=draw.normal(*shape), args={**({"size": shape[::-1]} if sized else {}), **more}, **zero)

    operators.append(operator)


for kind, value, given in (("zeros", 0.0, {}), ("ones", 1.0, {}), ("full", 2.5, {"fill_value": 2.5})):
    like(f"{kind}_like", value, **given)
    like(f"new_{kind}", value, sized=True, **given)

zero = Operator("aten::zero_", tolerance=exact(), modes=("layouts",), plain=True, mutates=("self",), differentiable=())
zero.reference(lambda self: (self * 0.0 + 0.0, numpy.zeros(self.shape)))
zero.second(lambda self: (numpy.zeros(self.shape), numpy.zeros(self.shape)))
zero.cases(lambda draw: [Case(f"s{'x'.join(map(str, s))}", self=numpy.abs(draw.normal(*s)) + 1, trivial="zeros are asked for; the argument held other numbers") for s in ((1,), (7, 3), (67,))])
operators.append(zero)
