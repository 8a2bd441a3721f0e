"""The contents of a campaign: line-ups of rows, claims and figures. `reading` loads them from a file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cooptions.campaigns.figures import AbstractFigure
from cooptions.campaigns.plan import Places
from cooptions.campaigns.rows import Row, Seeding
from cooptions.campaigns.verdicts import Claim
from cooptions.errors import ConfigError, require


@dataclass(frozen=True)
class Lineup:
    """A named group of rows (methods in scenarios) with their seeds."""

    name: str
    rows: tuple[Row, ...]
    seeding: Seeding

    @property
    def places(self) -> tuple[str, ...]:
        """Its scenarios, as named in tables."""
        return tuple(dict.fromkeys(row.place for row in self.rows))

    @property
    def labels(self) -> tuple[str, ...]:
        """Its methods, as named in tables."""
        return tuple(dict.fromkeys(row.label for row in self.rows))


@dataclass(frozen=True)
class Campaign:
    """The contents of a campaign file."""

    name: str
    lineups: tuple[Lineup, ...]
    """The line-ups, in the order in which they run."""
    claims: tuple[Claim, ...] = ()
    figures: tuple[AbstractFigure, ...] = ()
    fraction: float = 1.0
    """The fraction of every row's steps to train for. Schedules over training are shortened accordingly."""
    runs: Path = Path("runs")
    """The folder for run directories."""
    results: Path = Path("results")
    """The folder for scores and pictures."""
    pages: tuple[Path, ...] = ()
    """Markdown pages whose generated parts are updated."""

    def __post_init__(self) -> None:
        require(0 < self.fraction <= 1, f"fraction must lie in (0, 1], not {self.fraction:g}")
        require(len(self.lineups) > 0, f"{self.name}: no rows: give scenarios and methods, or lineups")

    @property
    def places(self) -> Places:
        return Places(self.runs, self.results)

    @property
    def wanted(self) -> dict[Row, Seeding]:
        """Every row once, in order, with the union of the seeds that the line-ups request."""
        wanted: dict[Row, Seeding] = {}
        for lineup in self.lineups:
            for row in lineup.rows:
                wanted[row] = wanted[row].widened(lineup.seeding) if row in wanted else lineup.seeding
        return wanted

    @property
    def learned(self) -> tuple[Lineup, ...]:
        """The line-ups whose rows train a learner and so have scores."""
        return tuple(lineup for lineup in self.lineups if lineup.rows[0].learns)

    def only(
        self, lineups: Sequence[str] = (), methods: Sequence[str] = (), scenarios: Sequence[str] = ()
    ) -> "Campaign":
        """The campaign restricted to these rows. Claims and figures stay."""
        names = [lineup.name for lineup in self.lineups]
        for name in lineups:
            require(name in names, f"lineups: unknown {name!r}; there are {', '.join(names)}")

        def passes(row: Row) -> bool:
            of_method = not methods or bool({row.method, row.label} & set(methods))
            return of_method and (not scenarios or bool({row.scenario, row.place} & set(scenarios)))

        kept = [
            replace(lineup, rows=tuple(row for row in lineup.rows if passes(row)))
            for lineup in self.lineups
            if not lineups or lineup.name in lineups
        ]
        left = tuple(lineup for lineup in kept if lineup.rows)
        if not left:
            rows = ", ".join(dict.fromkeys(str(row) for row in self.wanted))
            raise ConfigError(f"lineups, methods, scenarios: nothing is left of {rows}")
        return replace(self, lineups=left)
