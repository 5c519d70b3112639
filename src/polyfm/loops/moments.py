"""Loops of variational inference, over the columns of X: coordinate descent on means and variances.

All parameters are independent Gaussians, B[j] of a basis with the mean M[j] and the variance V[j]. For one basis and
one sample let a_t be A^t(p, x), a random number, with

    mu_t = E a_t,    K_st = Cov(a_s, a_t),    mu_0 = 1,   K_0t = 0.

A feature with u = x M[j] and v = x^2 V[j] joins by a_t += xi a_(t-1), where xi has the mean u and the variance v:

    mu_t += u mu_(t-1),    K_st += u (K_s,t-1 + K_s-1,t) + (u^2 + v) K_s-1,t-1 + v mu_s-1 mu_t-1

from large s and t to small, and leaves by the inverse, from small to large. With g = A^(m-1) and h = A^m of the other
features, the value is h + p_j x_j g, and with r the expected residual of the sample,

    slope of E[(f - y)^2]/2 by M[j] = x (E g r + Cov(g, h) + u Var g),    curvature = x^2 (E g^2 + Var g).

Letters as in `columns`; what is particular:

    S         (n, 1 + cache)   column 0 the expected residual, then mu_1 .. mu_(m-1) and K_st of the basis at hand
    M, V      (k, d + dummies) means and variances
    W         (2, m + 1, m + 1)  room for one sample without the feature at hand: W[0, 0] its mu, W[1] its K
    changes   (d + dummies,)   by how much each coordinate has changed the expected sum of squares
    tau       precision of the noise
"""

from typing import NamedTuple

import numpy as np

from polyfm.loops.jit import at, compiled, inline, loop


@compiled
class LinearMoments(NamedTuple):
    """<w, x>: E g = 1, and nothing else."""

    degree_slots: tuple[float, ...]

    @property
    def n_cached(self):
        return 0

    def reset(self, S, i):
        pass

    def join(self, S, i, W, u, v):
        pass

    def without(self, S, i, W, u, v):
        return 1.0, 0.0, 0.0

    def put_back(self, S, i, W, u, v, mean, variance, covariance):
        pass


@compiled
class PairMoments(NamedTuple):
    """A^2: S[i] holds mu_1, K_11 and K_12."""

    degree_slots: tuple[float, ...]

    @property
    def n_cached(self):
        return 3

    def reset(self, S, i):
        S[i, 1] = 0.0
        S[i, 2] = 0.0
        S[i, 3] = 0.0

    def join(self, S, i, W, u, v):
        S[i, 3] += u * S[i, 2] + v * S[i, 1]
        S[i, 2] += v
        S[i, 1] += u

    def without(self, S, i, W, u, v):
        mean = S[i, 1] - u
        variance = S[i, 2] - v
        return mean, variance, S[i, 3] - u * variance - v * mean

    def put_back(self, S, i, W, u, v, mean, variance, covariance):
        S[i, 1] = mean + u
        S[i, 2] = variance + v
        S[i, 3] = covariance + u * variance + v * mean


@inline
def _place(m, s, t):
    """Where S[i] holds K_st, 1 <= s <= t <= m, but for s = t = m; mu_t stands at t."""
    return m + (s - 1) * m - (s - 1) * (s - 2) // 2 + (t - s)


@compiled
class AnovaMoments(NamedTuple):
    """A^m of any degree."""

    degree_slots: tuple[float, ...]

    @property
    def n_cached(self):
        m = len(self.degree_slots)
        return m - 1 + m * (m + 1) // 2 - 1

    def reset(self, S, i):
        m = len(self.degree_slots)
        for c in range(1, _place(m, m, m)):
            S[i, c] = 0.0

    def join(self, S, i, W, u, v):
        self.load(S, i, W)
        self.put(S, i, W, u, v)

    def load(self, S, i, W):
        """W from S as it is."""
        m = len(self.degree_slots)
        W[0, 0, 0] = 1.0
        for t in range(1, m):
            W[0, 0, t] = S[i, t]
        for t in range(m + 1):
            W[1, 0, t] = 0.0
            W[1, t, 0] = 0.0
        for s in range(1, m + 1):
            for t in range(s, m + 1):
                if s < m:
                    W[1, s, t] = S[i, _place(m, s, t)]
                    W[1, t, s] = W[1, s, t]

    def without(self, S, i, W, u, v):
        m = len(self.degree_slots)
        q = u * u + v
        W[0, 0, 0] = 1.0
        for t in range(1, m):
            W[0, 0, t] = S[i, t] - u * W[0, 0, t - 1]
        for t in range(m + 1):
            W[1, 0, t] = 0.0
            W[1, t, 0] = 0.0
        for s in range(1, m):
            for t in range(s, m + 1):
                K = S[i, _place(m, s, t)] - u * (W[1, s, t - 1] + W[1, s - 1, t])
                K -= q * W[1, s - 1, t - 1] + v * W[0, 0, s - 1] * W[0, 0, t - 1]
                W[1, s, t] = K
                W[1, t, s] = K
        return W[0, 0, m - 1], W[1, m - 1, m - 1], W[1, m - 1, m]

    def put(self, S, i, W, u, v):
        """S from W and one feature more."""
        m = len(self.degree_slots)
        q = u * u + v
        for t in range(1, m):
            S[i, t] = W[0, 0, t] + u * W[0, 0, t - 1]
        for s in range(1, m):
            for t in range(s, m + 1):
                K = W[1, s, t] + u * (W[1, s, t - 1] + W[1, s - 1, t]) + q * W[1, s - 1, t - 1]
                S[i, _place(m, s, t)] = K + v * W[0, 0, s - 1] * W[0, 0, t - 1]

    def put_back(self, S, i, W, u, v, mean, variance, covariance):
        self.put(S, i, W, u, v)


def moments_of(degree: int):
    """The moments that a degree needs; 1 stands for the linear weights."""
    if degree == 1:
        return LinearMoments((0.0,))
    return PairMoments((0.0, 0.0)) if degree == 2 else AnovaMoments((0.0,) * degree)


@inline
def _sweep(
    form, weight, prior, tau, indptr, rows, data, order, start, stop, S, M, V, s, first, W, changes
):  # fmt: skip
    """The best Gaussian of one coordinate after the other, given all others."""
    for c in range(start, stop):
        column = at(order, c, c)
        j = first + column
        lo = indptr[column]
        hi = indptr[column + 1]
        mean = M[s, j]
        variance = V[s, j]
        slope = 0.0
        curvature = 0.0
        for e in range(lo, hi):
            i = at(rows, e, e - lo)
            x = at(data, e, 1.0)
            w = at(weight, i, 1.0)
            g, var_g, cov = form.without(S, i, W, x * mean, x * x * variance)
            slope += w * x * (g * S[i, 0] + cov + x * mean * var_g)
            curvature += w * x * x * (g * g + var_g)
        strength = prior.strength_of(s, j)
        eta = tau * curvature + strength
        delta = -(tau * slope + strength * (mean - prior.mean_of(s, j))) / eta
        new = 1.0 / eta
        for e in range(lo, hi):
            i = at(rows, e, e - lo)
            x = at(data, e, 1.0)
            g, var_g, cov = form.without(S, i, W, x * mean, x * x * variance)
            form.put_back(S, i, W, x * (mean + delta), x * x * new, g, var_g, cov)
            S[i, 0] += delta * x * g
        M[s, j] = mean + delta
        V[s, j] = new
        changes[j] = curvature * (delta * delta + new - variance) + 2.0 * slope * delta


@inline
def _refresh(form, by_row, dummies, start, stop, S, M, V, s, W):
    """The moments of samples anew, row by row: rounding never accumulates."""
    indptr, indices, data = by_row
    d = M.shape[1] - dummies
    for i in range(start, stop):
        form.reset(S, i)
        lo = indptr[i]
        for e in range(lo, indptr[i + 1]):
            j = at(indices, e, e - lo)
            x = at(data, e, 1.0)
            form.join(S, i, W, x * M[s, j], x * x * V[s, j])
        for q in range(d, d + dummies):
            form.join(S, i, W, M[s, q], V[s, q])


@loop
def epoch(form, weight, prior, tau, by_column, by_row, order, plan, whole, me, barrier, S, M, V, changes):
    """One thread's part of a pass over all coordinates, basis by basis; see `columns.epoch_sparse`. The changes of the
    sum of squares are added up by basis in changes[:, -1], in the order of the features, by whoever is thread 0."""
    indptr, rows, data = by_column
    d = indptr.shape[0] - 1
    pieces, columns, shares = plan
    W = np.empty((2, len(form.degree_slots) + 1, len(form.degree_slots) + 1))
    drawn = 0
    for s in range(M.shape[0]):
        p = barrier.draw() - drawn
        while p < len(pieces) - 1:
            _refresh(form, by_row, M.shape[1] - d, pieces[p], pieces[p + 1], S, M, V, s, W)
            _sweep(
                form, weight, prior, tau, indptr, rows, data, order, columns[p], columns[p + 1], S, M, V, s, 0, W,
                changes[s],
            )  # fmt: skip
            p = barrier.draw() - drawn
        drawn += len(pieces) - 1 + barrier.n_threads
        for g in range(1 if columns[-1] > 0 else 0, shares.shape[0]):
            if not barrier.wait():
                return
            c = barrier.draw() - drawn
            while c < shares.shape[1] - 1:
                _sweep(
                    form, weight, prior, tau, indptr, rows, data, order, shares[g, c], shares[g, c + 1], S, M, V, s, 0,
                    W, changes[s],
                )  # fmt: skip
                c = barrier.draw() - drawn
            drawn += shares.shape[1] - 1 + barrier.n_threads
        if not barrier.wait():
            return
        if me == 0:
            for j in range(d, M.shape[1]):
                _sweep(form, weight, prior, tau, whole, None, None, None, 0, 1, S, M, V, s, j, W, changes[s])
        if M.shape[1] > d and not barrier.wait():
            return


@loop
def add_variances(degree_slots, dummies, by_row, M, V, lo, hi, out):
    """out[i - lo] += Var sum_s A^m(p_s, x_i) for the rows lo .. hi (exclusive)."""
    indptr, indices, data = by_row
    m = len(degree_slots)
    d = M.shape[0] - dummies
    k = M.shape[1]
    mu = np.empty((m + 1, k))
    K = np.empty((m + 1, m + 1, k))
    for i in range(lo, hi):
        mu[:] = 0.0
        mu[0] = 1.0
        K[:] = 0.0
        first = indptr[i]
        for e in range(np.int64(indptr[i + 1] - first) + dummies):
            inside = e < np.int64(indptr[i + 1] - first)
            j = np.int64(at(indices, first + np.uint64(e), e)) if inside else d + e - np.int64(indptr[i + 1] - first)
            x = np.float64(at(data, first + np.uint64(e), 1.0)) if inside else 1.0
            for s in range(k):
                u = x * M[j, s]
                v = x * x * V[j, s]
                q = u * u + v
                for a in range(m, 0, -1):
                    for b in range(m, a - 1, -1):
                        more = u * (K[min(a, b - 1), max(a, b - 1), s] + K[a - 1, b, s]) + q * K[a - 1, b - 1, s]
                        K[a, b, s] += more + v * mu[a - 1, s] * mu[b - 1, s]
                for a in range(m, 0, -1):
                    mu[a, s] += u * mu[a - 1, s]
        total = 0.0
        for s in range(k):
            total += K[m, m, s]
        out[i - lo] += total
