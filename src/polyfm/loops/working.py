"""Working responses: one parabola for each sample's loss, around its prediction of the moment.

    w l(y, f + d)  ~  w l(y, f) + h/2 ((d + r)^2 - r^2),     h = w max(l'', floor mu),     r = w l' / h

A solver that minimises the sum of the parabolas keeps the residual d + r in place of the prediction, under the squared
loss and with the weights h. With floor = 1 a parabola lies above its loss everywhere, since mu bounds l''.
"""

from polyfm.loops.derivatives import second_derivative
from polyfm.loops.jit import at, loop


@loop
def to_residuals(response, floor, f, h, rest):
    """f[i] becomes the residual r_i, rest[i] is what was taken from it, h[i] the parabola's weight."""
    least = floor * response.loss.curvature
    for i in range(f.shape[0]):
        y = at(response.y, i, 0.0)
        bend = max(second_derivative(response.loss, y, f[i]), least)
        r = response.derivative(i, f[i]) / bend
        h[i] = response.weight_of(i) * bend
        rest[i] = f[i] - r
        f[i] = r
