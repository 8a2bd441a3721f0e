"""The operations that option sets and teams share as folders: read, check, write and upload."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cooptions.errors import ArtifactError
from cooptions.files import shown
from cooptions.options.sharing.hub import HubName, read_shared, upload
from cooptions.options.sharing.sealed import MANIFEST, Place, Sealed, entries, read_sealed, write_sealed

CARD = "README.md"


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder that can be shared."""

    format: str
    """Its name in the manifest, with the version of the format."""
    noun: str
    """Its name in messages."""
    article: str
    files: tuple[str, ...]
    """The required files."""
    folders: tuple[str, ...]
    """The optional folders."""
    identity: Callable[[Place, Mapping[str, bytes]], Any]
    """The content that identifies a folder, without provenance and measurements."""

    def read(self, place: Place) -> dict[str, bytes]:
        """Read the files of a folder on the disk or on the hub, after all checks that do not interpret them."""
        files = read_shared(place, kind=self.format).files
        self.require_files(place, files)
        return files

    def require_files(self, place: Place, files: Mapping[str, bytes]) -> None:
        """Raise `ArtifactError` if a required file is missing or a file does not belong to this kind."""
        for name in self.files:
            if name not in files:
                raise ArtifactError(f"{place}: no {name}: not {self.article} {self.noun}")
        for name in set(files) - {*self.files}:
            if not self._may_have(name):
                raise ArtifactError(
                    f"{place}/{name}: no file of {self.article} {self.noun}; remove it and its entry in the manifest"
                )

    def write(self, path: Path, files: Mapping[str, bytes], *, overwrite: bool = False) -> None:
        """Write a folder atomically.

        An existing folder with the same identity is updated. Any other content is refused, unless `overwrite` is true
        and it is a folder of this kind, possibly damaged.
        """
        present = entries(path) if path.exists() else set()
        if present and overwrite:
            foreign = sorted(name for name in present - {*self.files, MANIFEST} if not self._may_have(name))
            if foreign:
                raise ArtifactError(
                    f"{path}: not overwritten: {shown(foreign[0])} is no file of {self.article} {self.noun}"
                )
        elif present:
            self._require_same(path, files)
        write_sealed(path, files, kind=self.format)

    def push(self, name: str, files: Mapping[str, bytes], *, private: bool = False) -> str:
        """Upload a folder and return its name at the new commit."""
        return str(upload(HubName.parse(name), Sealed(self.format, dict(files)), private=private))

    def _may_have(self, name: str) -> bool:
        folder, slash, _ = name.partition("/")
        return bool(slash) and folder in self.folders

    def _require_same(self, path: Path, files: Mapping[str, bytes]) -> None:
        try:
            there = read_sealed(path, kind=self.format).files
        except ArtifactError as error:
            raise ArtifactError(f"{error}; not overwritten: save elsewhere, or pass overwrite=True") from None
        if self.identity(path, there) != self.identity(path, files):
            raise ArtifactError(f"{path}: holds another {self.noun}; save elsewhere, or pass overwrite=True")
