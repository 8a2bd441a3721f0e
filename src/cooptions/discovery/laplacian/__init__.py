"""Laplacian estimators: the slowest functions of z along a random walk (paper, Sections 2.2 and 3.2)."""

from cooptions.discovery.laplacian.allo import Allo as Allo
from cooptions.discovery.laplacian.base import AbstractLaplacian as AbstractLaplacian
from cooptions.discovery.laplacian.base import Pairs as Pairs
from cooptions.discovery.laplacian.canonical import Basis as Basis
from cooptions.discovery.laplacian.canonical import Canonical as Canonical
from cooptions.discovery.laplacian.canonical import References as References
from cooptions.discovery.laplacian.canonical import canonicalise as canonicalise
from cooptions.discovery.laplacian.canonical import num_to_fit as num_to_fit
from cooptions.discovery.laplacian.exact import Exact as Exact
from cooptions.discovery.laplacian.kronecker import Kronecker as Kronecker
from cooptions.discovery.laplacian.nystrom import Nystrom as Nystrom

Laplacian = Allo | Nystrom | Exact | Kronecker
"""What a configuration may name. To add one, write a class like these and list it in both places."""

LAPLACIANS: dict[str, type[AbstractLaplacian]] = {
    "allo": Allo,
    "nystrom": Nystrom,
    "exact": Exact,
    "kronecker": Kronecker,
}
