"""Laplacian estimators: the slowest functions of z along a random walk (paper, Sections 2.2 and 3.2)."""

from cooptions.laplacian.allo import Allo as Allo
from cooptions.laplacian.base import AbstractLaplacian as AbstractLaplacian
from cooptions.laplacian.base import Pairs as Pairs
from cooptions.laplacian.canonical import Basis as Basis
from cooptions.laplacian.canonical import Canonical as Canonical
from cooptions.laplacian.canonical import References as References
from cooptions.laplacian.canonical import canonicalise as canonicalise
from cooptions.laplacian.canonical import num_to_fit as num_to_fit
from cooptions.laplacian.exact import Exact as Exact
from cooptions.laplacian.kronecker import Kronecker as Kronecker
from cooptions.laplacian.nystrom import Nystrom as Nystrom

Laplacian = Allo | Nystrom | Exact | Kronecker
"""What a configuration may name. To add one, write a class like these and list it in both places."""

LAPLACIANS: dict[str, type[AbstractLaplacian]] = {
    "allo": Allo,
    "nystrom": Nystrom,
    "exact": Exact,
    "kronecker": Kronecker,
}
