"""Mixed-effects models: fixed effects and crossed random intercepts, fitted by REML.

    y = X b + Z_1 u_1 + ... + Z_m u_m + e,   u_k ~ N(0, s_k^2 I),   e ~ N(0, s^2 I)

The profiled restricted likelihood is maximised over the ratios s_k^2 / s^2 (Bates et al. 2015).
The factor with the most levels has a diagonal block and is eliminated first, so that only the
others need a dense factorisation.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.stats.intervals import Floats, codes

_LARGEST_LOG, _SMALLEST_LOG = 12.0, -16.0


@dataclass(frozen=True, slots=True)
class MixedModel:
    """Estimates of the fixed effects, their covariance, and the variance of every factor."""

    coefficients: Floats
    covariance: Floats
    variances: Mapping[str, float]
    residual: float
    deviance: float


def fit_mixed(
    values: npt.ArrayLike, design: npt.ArrayLike, factors: Mapping[str, Sequence[Hashable]]
) -> MixedModel:
    """Fit by REML; without factors this is ordinary least squares.

    `values` are `(n,)`, `design` is `(n, p)`; each random factor has the level of every value.

    >>> found = fit_mixed([1, 2, 3, 4, 6, 5], [[1]] * 6, {"group": list("aabbcc")})
    >>> round(float(found.coefficients[0]), 3), round(found.variances["group"], 3)
    (3.5, 3.75)
    """
    y, x = np.asarray(values, dtype=float), np.asarray(design, dtype=float)
    if x.shape[0] != y.size or y.size <= x.shape[1]:
        raise BadInput(f"{y.size} values cannot be fitted with {x.shape[1]} fixed effects")
    names = sorted(factors, key=lambda name: -len(set(factors[name])))
    problem = _Problem(y, x, [factors[name] for name in names])
    logs = _search(problem, len(names)) if names else np.zeros(0)
    deviance, beta, covariance, residual = problem.profile(logs)
    ratios = np.where(logs <= _SMALLEST_LOG + 1, 0.0, np.exp(logs))
    variances = {name: float(r * residual) for name, r in zip(names, ratios, strict=True)}
    return MixedModel(beta, covariance, variances, residual, deviance)


def _search(problem: _Problem, many: int) -> Floats:
    """Logarithms of the best ratios: by gradients, then polished without."""
    from scipy import optimize

    def deviance(logs: Floats) -> float:
        return problem.profile(np.clip(logs, _SMALLEST_LOG, _LARGEST_LOG))[0]

    start: Floats = np.full(many, -1.0)
    rough = optimize.minimize(
        deviance,
        start,
        method="L-BFGS-B",
        bounds=[(_SMALLEST_LOG, _LARGEST_LOG)] * many,
        options={"ftol": 1e-10, "gtol": 1e-6},
    )
    fine = optimize.minimize(
        deviance,
        np.asarray(rough.x, dtype=float),
        method="Nelder-Mead",
        options={"xatol": 1e-5, "fatol": 1e-9, "maxiter": 400 * many},
    )
    return np.asarray(np.clip(fine.x, _SMALLEST_LOG, _LARGEST_LOG), dtype=float)


class _Problem:
    """The data in the form in which the likelihood needs them."""

    def __init__(self, y: Floats, x: Floats, factors: Sequence[Sequence[Hashable]]) -> None:
        self.n, self.p = x.shape
        xy = np.column_stack([x, y])
        self.cross = xy.T @ xy
        self.codes = [codes(levels) for levels in factors]
        self.sizes = [int(code.max()) + 1 for code in self.codes]
        if not self.codes:
            return
        self.first = np.bincount(self.codes[0]).astype(float)
        self.first_xy = _sums(self.codes[0], self.sizes[0], xy)
        starts = np.concatenate([[0], np.cumsum(self.sizes[1:])]).astype(int)
        rest = int(starts[-1])
        self.rest = np.zeros((rest, rest))
        self.rest_xy = np.zeros((rest, self.p + 1))
        self.joint = np.zeros((self.sizes[0], rest))
        self.owner = np.repeat(np.arange(len(self.sizes) - 1), self.sizes[1:])
        for i, code in enumerate(self.codes[1:]):
            rows = slice(starts[i], starts[i + 1])
            self.rest_xy[rows] = _sums(code, self.sizes[i + 1], xy)
            np.add.at(self.joint, (self.codes[0], starts[i] + code), 1.0)
            for j, other in enumerate(self.codes[1:]):
                np.add.at(self.rest, (starts[i] + code, starts[j] + other), 1.0)

    def profile(self, logs: Floats) -> tuple[float, Floats, Floats, float]:
        """Twice the negative restricted log-likelihood at these ratios, and its estimates."""
        log_det, cross = 0.0, self.cross
        if self.codes:
            root = np.exp(logs / 2)
            diagonal = 1 + root[0] ** 2 * self.first
            log_det += float(np.log(diagonal).sum())
            scaled = self.first_xy * (root[0] ** 2 / diagonal)[:, None]
            cross = cross - self.first_xy.T @ scaled
            if self.rest.size:
                spread = root[1:][self.owner]
                inner = self.rest - self.joint.T @ (self.joint * (root[0] ** 2 / diagonal)[:, None])
                inner = spread[:, None] * inner * spread + np.eye(spread.size)
                side = spread[:, None] * (self.rest_xy - self.joint.T @ scaled)
                lower = np.linalg.cholesky(inner)
                solved = np.linalg.solve(lower, side)
                log_det += 2 * float(np.log(np.diag(lower)).sum())
                cross = cross - solved.T @ solved
        information, moment = cross[:-1, :-1], cross[:-1, -1]
        beta = np.asarray(np.linalg.solve(information, moment), dtype=float)
        squares = max(float(cross[-1, -1] - moment @ beta), 1e-12)
        freedom = self.n - self.p
        residual = squares / freedom
        sign = np.linalg.slogdet(information)[1]
        deviance = freedom * (1 + np.log(2 * np.pi * residual)) + log_det + float(sign)
        covariance = np.asarray(residual * np.linalg.inv(information), dtype=float)
        return float(deviance), beta, covariance, float(residual)


def _sums(places: npt.NDArray[np.intp], many: int, columns: Floats) -> Floats:
    found = np.zeros((many, columns.shape[1]))
    np.add.at(found, places, columns)
    return found
