import os
import subprocess
import sys
from pathlib import Path

import pytest

from cooptions.cli.compilation import machine
from cooptions.files import user_cache

PROGRAM = """
import sys
from cooptions.cli.compilation import keep_compiled
import jax
keep_compiled(sys.argv[1] == "on")
key = jax.random.key(0)
values = jax.jit(lambda x: jax.numpy.tanh(x @ x.T).sum(0))(jax.random.normal(key, (64, 64)))
print(jax.config.jax_compilation_cache_dir, values.tobytes().hex() if hasattr(values, "tobytes") else values)
"""


def run(tmp_path, wanted="on", **variables):
    environment = {name: value for name, value in os.environ.items() if name != "COOPTIONS_CACHE"}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), **variables}
    command = [sys.executable, "-c", PROGRAM, wanted]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment)


def test_programs_are_kept_at_the_printed_path_and_give_the_same_bits(tmp_path):
    cold = run(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert cold.stderr.count("\n") == 1
    assert str(tmp_path / "cooptions" / "compiled" / machine()) in cold.stderr
    warm, without = run(tmp_path), run(tmp_path, "off")
    assert warm.stdout == cold.stdout
    assert warm.stdout.split()[1:] == without.stdout.split()[1:]
    assert without.stderr == ""


@pytest.mark.parametrize("variables", [{"COOPTIONS_CACHE": "off"}, {"JAX_COMPILATION_CACHE_DIR": "elsewhere"}])
def test_it_can_be_turned_off_or_set_otherwise(variables, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(tmp_path, **variables)
    assert done.stderr == ""
    assert not (tmp_path / "cooptions").exists()


def test_an_unwritable_cache_is_reported_and_skipped(tmp_path):
    (tmp_path / "file").touch()
    done = run(tmp_path, COOPTIONS_CACHE=str(tmp_path / "file"))
    assert "compiled programs are not kept" in done.stderr
    assert done.stdout.startswith("None")


def test_the_cache_is_the_users(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    if sys.platform.startswith("linux"):
        assert user_cache() == Path("/somewhere")
