"""The guide to campaigns: its files are valid, and the first one runs with a user's environment."""

import re
import sys
from pathlib import Path

import pytest

from cooptions.campaigns.reading import parse_campaign
from cooptions.campaigns.results import read_results
from cooptions.cli.main import main
from cooptions.errors import ConfigError

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "campaigns.md").read_text()


def _fenced(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, flags=re.DOTALL | re.MULTILINE)


FILES = _fenced("yaml")
(MODULE,) = _fenced("python")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the reader's module and campaign file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "corridor", raising=False)
    (tmp_path / "corridor.py").write_text(MODULE)
    (tmp_path / "corridor.yaml").write_text(FILES[0])
    yield tmp_path
    monkeypatch.delitem(sys.modules, "corridor", raising=False)


def test_every_file_is_a_campaign(folder):
    campaigns = [parse_campaign(text.encode(), trust=True) for text in FILES]
    assert [len(campaign.wanted) for campaign in campaigns] == [6, 4]
    assert [claim.left for claim in campaigns[1].claims] == [("iql+hit@small",), ("iql",)]


def test_the_error_message_is_that_of_the_guide(folder):
    with pytest.raises(ConfigError) as refused:
        parse_campaign(FILES[0].replace("iql+hit,", "iql+hti,").encode(), "corridor.yaml", trust=True)
    assert str(refused.value) in GUIDE


def test_a_file_alone_imports_nothing(folder, capsys):
    with pytest.raises(SystemExit):
        main(["campaign", "corridor.yaml"])
    assert "corridor.yaml:2: scenarios: 'corridor:env' is code from outside" in capsys.readouterr().err
    assert "corridor" not in sys.modules


@pytest.mark.slow
def test_the_campaign_runs_on_an_environment_of_ones_own(fake, folder, capsys):
    main(["campaign", "corridor.yaml", "--trust", "--plan"])
    assert "12 of 12 blocks are missing" in capsys.readouterr().out
    assert not (folder / "runs").exists()
    main(["campaign", "corridor.yaml", "--trust"])
    results = read_results(folder / "results/corridor")
    places = {"corridor-env", "grid-6x6-2p,task=meet"}
    assert {(each.scenario, len(each.seeds)) for each in results} == {(place, 10) for place in places}
    report = (folder / "runs/corridor/report.html").read_text()
    assert "helps: options beat the same learner without them" in report
    assert {path.name for path in (folder / "results/corridor").glob("*.png")} == {
        "curves-corridor-env.png", "curves-grid-6x6-2p,task=meet.png", "all.png",
    }  # fmt: skip
