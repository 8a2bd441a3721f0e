"""Every test runs with shapes and types checked at run time."""

import fcntl
import gc
import os
import shutil

# Four devices for the tests of sharding; most of the suite's time is compilation, so that is made quick, not thorough.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1",
)

os.environ["COOPTIONS_CACHE"] = "off"  # tests do not share the compilation cache

# No test reaches the real hub: there is no server at this address, and `hub` uses another.
off = ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS", "HF_HUB_DISABLE_XET")
os.environ.update({"HF_ENDPOINT": "http://127.0.0.1:9", **dict.fromkeys(off, "1")})

from jaxtyping import install_import_hook  # noqa: E402

install_import_hook("cooptions", "beartype.beartype")

import jax  # noqa: E402 (after the hook)
import pytest  # noqa: E402

gc.set_threshold(10_000)  # compilation creates little garbage, and the collector took a twelfth of the time


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_programs():
    """Drop compiled programs after each test file, because they hold memory maps, whose number is limited."""
    yield
    jax.clear_caches()


@pytest.fixture
def hub(monkeypatch):
    """A model hub on this machine with write access. No other hub can be reached."""
    import socket

    from hub_server import TOKEN, serve
    from huggingface_hub import close_session

    connect = socket.socket.connect

    def stay(self, address):
        assert self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1"), f"a test asks {address}"
        return connect(self, address)

    found, server = serve()
    monkeypatch.setattr(socket.socket, "connect", stay)
    for name, value in {"HF_ENDPOINT": found.address, "HF_TOKEN": TOKEN, "NO_PROXY": "127.0.0.1,localhost"}.items():
        monkeypatch.setenv(name, value)
    close_session()
    yield found
    close_session()
    server.shutdown()
    server.server_close()


WALK = ["--walk.transitions", "200", "--walk.num-envs", "10"]
BRIEFLY = ["--steps", "640", "--learning.evaluations", "1", "--learning.episodes", "1"]
DISCOVERY = ["--laplacian.num-eigenfunctions", "1", "--representation.steps", "20", "--representation.batch", "32"]
OPTIONS = ["--options.learner.steps", "1280", "--options.learner.batch", "8", "--options.num-starts", "8"]


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A function that runs a command with `--out` once for all processes of pytest, and gives each its own copy."""
    from cooptions.cli.main import main

    own = tmp_path_factory.getbasetemp()
    common = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def copy_of(name, *words):
        original = common / "originals" / name
        finished = original.with_suffix(".finished")
        with (common / f"{words[0]}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not finished.exists():
                main([*words, "--out", str(original)])
                finished.touch()
        return shutil.copytree(original, tmp_path_factory.mktemp("runs") / name)

    return copy_of


@pytest.fixture(scope="session")
def walked(made):
    """A run directory with a walk."""
    return made("walk", "walk", "grid-5x5-2p", *WALK)


@pytest.fixture(scope="session")
def learned(made):
    """A run directory with every stage."""
    return made("whole [/b]", "run", "grid-5x5-2p", *WALK, *DISCOVERY, *OPTIONS, *BRIEFLY)
