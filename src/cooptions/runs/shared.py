"""Upload and download option sets and teams, as the command line does."""

from collections.abc import Mapping
from pathlib import Path

from cooptions.errors import ArtifactError
from cooptions.options.sharing.cards import LICENSE, addressed
from cooptions.options.sharing.hub import HubName, read_hub
from cooptions.options.sharing.kinds import CARD, FolderKind
from cooptions.options.sharing.storage import DESCRIPTION as SET_DESCRIPTION
from cooptions.options.sharing.storage import OPTION_SETS
from cooptions.options.sharing.storage import describe as describe_set
from cooptions.runs.option_sets import option_set_path
from cooptions.runs.run import Run
from cooptions.runs.team import team_of_run
from cooptions.runs.team_storage import DESCRIPTION as TEAM_DESCRIPTION
from cooptions.runs.team_storage import TEAMS, push_team
from cooptions.runs.team_storage import describe as describe_team

KINDS = {kind.format: kind for kind in (OPTION_SETS, TEAMS)}
"""The kinds of folders on the hub, by format."""


def push(
    path: Path,
    name: HubName,
    *,
    team: bool = False,
    seed: int = 0,
    license: str = "",
    private: bool = False,
    trust: bool = False,
) -> str:
    """Upload an option set or a team, from its folder or from a run. Returns its name at the new commit.

    Without a `license`, a folder keeps the one on its card.
    """
    for kind, description in ((OPTION_SETS, SET_DESCRIPTION), (TEAMS, TEAM_DESCRIPTION)):
        if (path / description).exists():
            return _push_folder(path, name, kind, license, private)
    with Run.reopen(path, trust=trust) as run:
        if team:
            return push_team(str(name), team_of_run(run, seed), license=license or LICENSE, private=private)
        folder = option_set_path(run, seed)
    if not folder.exists():
        raise ArtifactError(
            f"{folder}: no option set: `cooptions options {path}` writes it; --team pushes what was learned"
        )
    return _push_folder(folder, name, OPTION_SETS, license, private)


def pull(name: HubName, path: Path, *, overwrite: bool = False) -> str:
    """Download a folder from the hub to the disk. Returns a line that describes it."""
    found = read_hub(name, kind=tuple(KINDS))
    kind = KINDS[found.kind]
    kind.require_files(str(name), found.files)
    told = _told(str(name), kind, found.files)
    kind.write(path, found.files, overwrite=overwrite)
    return f"{kind.noun}: {path} ({told})"


def _push_folder(path: Path, name: HubName, kind: FolderKind, license: str, private: bool) -> str:
    """Upload a folder. Only its card changes: it names the new address and, if given, the license."""
    files = kind.read(path)
    _ = _told(str(path), kind, files)  # raises if the folder could not be pulled again
    card = addressed(files[CARD].decode(errors="replace"), str(name), license)
    return kind.push(str(name), {**files, CARD: card.encode()}, private=private)


def _told(place: str, kind: FolderKind, files: Mapping[str, bytes]) -> str:
    """A short description of a folder's content."""
    if kind is OPTION_SETS:
        options = describe_set(place, files).options
        return f"{len(options)} options: {', '.join(option.name for option in options)}"
    team = describe_team(place, files)
    return f"{team.name} in {team.scenario or team.task}"
