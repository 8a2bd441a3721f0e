"""BenchMARL trains on a macro environment with action masks, through our export to PettingZoo."""

import sys
from pathlib import Path

import jax
import pytest

from benchmarks.random_play import random_returns

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "other-learners.md"

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_a_short_run_beats_random_play(tmp_path, monkeypatch):
    pytest.importorskip("benchmarl", reason="install it by hand: pip install benchmarl (it brings PyTorch)")
    from benchmarks.benchmarl_run import train

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    code = GUIDE.read_text().partition("```python\n# my_tasks.py\n")[2].partition("```")[0]
    (tmp_path / "my_tasks.py").write_text(code)
    monkeypatch.delitem(sys.modules, "my_tasks", raising=False)
    returns = train("my_tasks:task", frames=10_000)
    import my_tasks

    assert len(returns) == 10
    assert returns[-1] > random_returns(my_tasks.task, 256, jax.random.key(0)).mean() + 0.3
