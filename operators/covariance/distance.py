"""The distance of Förstner and Moonen between covariances, for one pair and for all pairs of a pool."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.linalg import eigh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Matrices = NDArray[np.float64]

FLOOR: Final = 1e-9
"""The least variance of a member in any direction, as a share of the mean of the pool. A spread that is 30,000 times
smaller than the others' counts as 0."""

NULL: Final = 1e-12
"""A direction with less than this share of the variance of the pool's metrics is dropped."""

ILL: Final = 1e8
"""Eigenvalues with a larger ratio are computed as squares of singular values, which keep more digits."""

ALIKE: Final = 1e-6
"""A shorter distance is 0: it is rounding, or variances agree to a millionth."""

CHUNK: Final = 2**19
"""The most entries of matrices that are compared at once, to bound memory."""

STEPS: Final = 200
CLOSE: Final = 1e-10
"""The search for the center ends when the mean of the logarithms is this short, or after this number of steps."""


def foerstner_moonen(a: Matrices, b: Matrices) -> float:
    """Return the distance of two covariances, shape (p, p), both positive definite.

        d(A, B) = sqrt(sum_i ln^2 lambda_i),  lambda_i the solutions of det(A - lambda B) = 0

    It is a metric, and invariant under affine maps of the metrics' values. So units do not matter. A single metric with
    k times the spread adds 2 ln k.

    Reference: Förstner, Moonen (1999), "A metric for covariance matrices", section 2.

    Raises:
        ValueError: a matrix is not positive definite; see `pairwise` for these.

    Example:
        >>> round(foerstner_moonen(np.diag([1.0, 4.0]), np.eye(2)), 6) == round(math.log(4.0), 6)
        True

    """
    try:
        found = eigh(a, b, eigvals_only=True)
    except np.linalg.LinAlgError as error:
        raise ValueError("expected positive definite covariances, the second is not") from error
    if not found[0] > 0.0:
        raise ValueError("expected positive definite covariances, the first is not")
    return math.sqrt(float((np.log(found) ** 2).sum()))


def whiten(covariances: Matrices, *, noise: Matrices | None = None, floor: float = FLOOR) -> Matrices:
    """Return a pool's covariances, shape (n, p, p), in coordinates in which their mean is the identity, (n, r, r).

    Distances do not depend on coordinates. So they do not change if all covariances are positive definite, and none has
    less than `floor` of the mean's variance in any direction. Distances from singular ones would be infinite, so:

    - Directions in which no member varies, of metrics that are constant or follow from others, are dropped: r <= p of
      them remain.
    - In a direction in which only some members vary, the variance of the others counts as the share `floor` of the
      pool's mean. So each such direction adds at most about |ln floor|.

    Neither depends on coordinates, so distances remain invariant under affine maps of the metrics.

    Parameters:
        covariances: symmetric, finite.
        noise: the covariance of measurement errors, shape (p, p), which is added to all. With q^2 / 12 on the diagonal
            for a metric in steps of q, a member whose metric stays within one step deviates no more than steps allow.
        floor: a share, above 0 and below 1.

    Raises:
        ValueError: a covariance is not finite, of another shape, or a parameter out of range.

    """
    covariances = np.asarray(covariances, np.float64)
    if covariances.ndim != 3 or covariances.shape[1] != covariances.shape[2]:
        raise ValueError(f"expected covariances of shape (members, metrics, metrics), got {covariances.shape}")
    if not 0.0 < floor < 1.0:
        raise ValueError(f"expected a floor between 0 and 1, got {floor}")
    finite = np.isfinite(covariances).all(axis=(1, 2))
    if not finite.all():
        raise ValueError(f"expected finite covariances, that of member {int(np.flatnonzero(~finite)[0])} is not")
    if noise is not None:
        covariances = covariances + noise
    if not len(covariances):
        return covariances
    mean = covariances.mean(axis=0)
    # First to one scale: units are bytes and ratios, and the null space is found by shares.
    scale = np.sqrt(np.maximum(np.diagonal(mean), 0.0))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
    values, vectors = np.linalg.eigh(inverse[:, None] * mean * inverse)
    varies = values > NULL * len(values)
    basis = (inverse[:, None] * vectors[:, varies]) / np.sqrt(values[varies])
    whitened = basis.T @ covariances @ basis
    values, vectors = np.linalg.eigh(whitened)
    low = (values < floor).any(axis=1)
    if low.any():
        whitened[low] = _composed(np.maximum(values[low], floor), vectors[low])
    symmetric: Matrices = (whitened + whitened.transpose(0, 2, 1)) / 2.0
    return symmetric


def pairwise(covariances: Matrices, *, noise: Matrices | None = None, floor: float = FLOOR) -> NDArray[np.float64]:
    """Return the distances between all members of a pool, shape (n, n), symmetric, 0 on the diagonal.

    Parameters and errors are those of `whiten`, also for singular covariances. O(n^2 p^3) time and O(n^2) memory: for
    pools of many thousands, see `tangent`.

    With A = F F^T the eigenvalues for A, B are those of G G^T, where G = A^(-1/2) B^(1/2).

    Example:
        >>> covariances = np.array([np.diag([1.0, 4.0]), np.diag([4.0, 4.0]), np.diag([4.0, 1.0])])
        >>> (pairwise(covariances) / math.log(4.0)).round(3).tolist()
        [[0.0, 1.0, 1.414], [1.0, 0.0, 1.0], [1.414, 1.0, 0.0]]

    """
    whitened = whiten(covariances, noise=noise, floor=floor)
    count, r = len(whitened), whitened.shape[1]
    distances = np.zeros((count, count))
    if r == 0:
        return distances
    values, vectors = np.linalg.eigh(whitened)
    roots = np.sqrt(np.maximum(values, floor))[:, None, :]
    halves, inverses = vectors * roots, np.ascontiguousarray((vectors / roots).transpose(0, 2, 1))
    for i, j in _pairs(count, CHUNK // r**2):
        ratios = inverses[i] @ halves[j]
        found = np.linalg.eigvalsh(ratios @ ratios.transpose(0, 2, 1))
        ill = found[:, -1] > ILL * found[:, 0]
        if ill.any():
            found[ill] = np.linalg.svd(ratios[ill], compute_uv=False) ** 2
        distances[i, j] = distances[j, i] = np.sqrt((np.log(found) ** 2).sum(axis=1))
    distances[distances < ALIKE] = 0.0
    return distances


def _pairs(count: int, size: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield all i < j in parts of about this size, but all of one i together."""
    begin = 0
    while begin < count - 1:
        end = min(begin + max(size // (count - begin), 1), count - 1)
        i, j = np.nonzero(np.arange(begin, end)[:, None] < np.arange(begin, count))
        yield i + begin, j + begin
        begin = end


def centre(covariances: Matrices) -> Matrices:
    """Return the Fréchet mean of positive definite covariances by this distance, shape (p, p): the center of a pool.

    From it the logarithms sum to 0. It is found by gradient descent from the arithmetic mean, with the step that the
    curvature allows. Affine maps of the metrics map it like the covariances. A member with k times the variance of the
    n - 1 others moves it only by k^(1/n).

    Reference: Bini, Iannazzo (2013), "Computing the Karcher mean of symmetric positive definite matrices", Linear
    Algebra and its Applications.
    """
    middle: Matrices = covariances.mean(axis=0)
    for _ in range(STEPS):
        values, vectors = np.linalg.eigh(middle)
        half = vectors * np.sqrt(values)
        logarithms, axes = _seen(covariances, middle)
        mean = _composed(logarithms, axes).mean(axis=0)
        # The second derivatives of d^2 / 2 are between 1 and x coth x, x half the range of the logarithms.
        spread = np.maximum(logarithms[:, -1] - logarithms[:, 0], 1e-6) / 2.0
        rate = 2.0 / (1.0 + float((spread / np.tanh(spread)).mean()))
        lengths, axes = np.linalg.eigh(rate * mean)
        middle = half @ _composed(np.exp(lengths), axes) @ half.T
        if np.abs(mean).max() < CLOSE:
            break
    return middle


def tangent(covariances: Matrices, at: Matrices | None = None) -> NDArray[np.float64]:
    """Return members as vectors, shape (n, p (p + 1) / 2), with Euclidean distances close to those of `pairwise`.

    They are the logarithms of the covariances seen from the pool's center C, ln(C^(-1/2) A C^(-1/2)), with off-diagonal
    entries times sqrt(2). The distance to the center is exact, and so is that of two that commute as seen from it.
    Other distances are too short, by less the closer both are to the center. Affine maps rotate all vectors equally.
    O(n p^3).

    Parameters:
        covariances: positive definite, see `whiten`.
        at: the center, if it is known.

    References: Arsigny, Fillard, Pennec, Ayache (2006), "Log-Euclidean metrics for fast and simple calculus on
    diffusion tensors", Magnetic Resonance in Medicine. Tuzel, Porikli, Meer (2008), "Pedestrian detection via
    classification on Riemannian manifolds", PAMI.

    Example:
        >>> vectors = tangent(np.array([np.diag([1.0, 4.0]), np.diag([4.0, 4.0]), np.diag([4.0, 1.0])]))
        >>> (np.linalg.norm(vectors - vectors[0], axis=1) / math.log(4.0)).round(3).tolist()
        [0.0, 1.0, 1.414]

    """
    logarithms = _composed(*_seen(covariances, centre(covariances) if at is None else at))
    i, j = np.triu_indices(covariances.shape[1])
    found: NDArray[np.float64] = logarithms[:, i, j] * np.where(i == j, 1.0, math.sqrt(2.0))
    return found


def _seen(covariances: Matrices, at: Matrices) -> tuple[NDArray[np.float64], Matrices]:
    """Return the eigenvalues and eigenvectors of ln(C^(-1/2) A C^(-1/2)), and the root of C."""
    values, vectors = np.linalg.eigh(at)
    inverse = vectors / np.sqrt(values)
    seen, axes = np.linalg.eigh(inverse.T @ covariances @ inverse)
    return np.log(seen), axes


def _composed(values: NDArray[np.float64], vectors: Matrices) -> Matrices:
    """Return the symmetric matrices of eigenvalues and eigenvectors."""
    found: Matrices = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return found
