"""Read and write weights as safetensors. Untrusted files must have exactly the arrays of the expected pytree."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save as format_tensors

from cooptions.errors import ArtifactError
from cooptions.files import fill, named_leaves, shown
from cooptions.options.sharing.sealed import Place

Tree = TypeVar("Tree")

TYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
    "int64": "I64", "float16": "F16", "float32": "F32", "float64": "F64",
}  # fmt: skip
"""The names of data types in safetensors."""


def format_tree(tree: Any) -> bytes:
    """A pytree of arrays as the bytes of a safetensors file, with its leaves by name."""
    return format_tensors({name: np.ascontiguousarray(leaf) for name, leaf in named_leaves(tree)})


def read_tree(file: Place, content: bytes, like: Tree, *, of: str) -> Tree:
    """Read a pytree with the structure, types and shapes of `like`. All numbers must be finite.

    `of` is the name used in errors for what the arrays belong to.
    """
    arrays = read_arrays(file, content, dict(named_leaves(like)), of=of)
    for name, array in arrays.items():
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            raise ArtifactError(f"{file}: {name} is not finite: training diverged, or the file is not as it was made")
    return fill(like, arrays)


def read_arrays(file: Place, content: bytes, expected: Mapping[str, Any], *, of: str) -> dict[str, np.ndarray]:
    """Read the arrays of a file, which must have exactly the expected names, types and shapes."""
    try:
        tensors = dict(deserialize(content))
    except SafetensorError as error:
        raise ArtifactError(f"{file}: not a safetensors file: {shown(str(error))}") from None
    for name in sorted(set(expected) ^ set(tensors)):
        problem = "missing" if name in expected else f"not of {of}"
        raise ArtifactError(f"{file}: {shown(name)} is {problem}")
    return {name: _array(file, name, tensors[name], like, of) for name, like in expected.items()}


def _array(file: Place, name: str, tensor: Any, like: Any, of: str) -> np.ndarray:
    kind = TYPES[np.dtype(like.dtype).name]
    if tensor["dtype"] != kind or tuple(tensor["shape"]) != like.shape:
        there = f"{tensor['dtype']} {shown(tensor['shape'])}"
        raise ArtifactError(f"{file}: {name} is {there}, expected {kind} {list(like.shape)} for {of}")
    return np.frombuffer(tensor["data"], np.dtype(like.dtype).newbyteorder("<")).reshape(like.shape)
