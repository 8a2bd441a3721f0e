import multiprocessing
import os
import platform

import pytest

from cooptions.errors import ArtifactError, Interrupted
from cooptions.runs import lock
from cooptions.runs.lock import hold


def _die(path):
    with hold(path, print):
        os._exit(9)


def test_a_lock_names_its_holder_and_is_empty_afterwards(tmp_path):
    with hold(tmp_path / "lock", print):
        assert (tmp_path / "lock").read_text() == f"process {os.getpid()} on {platform.node()}"
        with pytest.raises(ArtifactError, match=f"held by process {os.getpid()} on"), hold(tmp_path / "lock", print):
            pass
    assert (tmp_path / "lock").read_text() == ""


def test_an_interrupted_process_leaves_an_empty_lock(tmp_path):
    with pytest.raises(Interrupted), hold(tmp_path / "lock", print):
        raise Interrupted("stopped")
    assert (tmp_path / "lock").read_text() == ""


def test_the_lock_of_a_dead_process_is_taken_over_with_a_warning(tmp_path):
    process = multiprocessing.get_context("spawn").Process(target=_die, args=(tmp_path / "lock",))
    process.start()
    process.join()
    told = []
    with hold(tmp_path / "lock", told.append):
        pass
    assert told == [
        f"{tmp_path}/lock: was left by process {process.pid} on {platform.node()}, which did not end in order"
    ]


@pytest.mark.parametrize("left", ["process 7 on elsewhere", "process 7", "\x1b]0;title\x07", "x" * 10_000])
def test_a_lock_of_another_machine_is_free_if_the_file_system_says_so(tmp_path, left):
    (tmp_path / "lock").write_text(left)
    told = []
    with hold(tmp_path / "lock", told.append):
        assert len(told) == 1
        assert told[0].isprintable()


@pytest.mark.parametrize(
    ("left", "free"),
    [
        (f"process {2**22 + 1} on {platform.node()}", True),
        (f"process {os.getppid()} on {platform.node()}", False),
        ("process 7 on elsewhere", False),
        ("", True),
    ],
)
def test_without_file_locks_the_name_decides(tmp_path, monkeypatch, left, free):
    monkeypatch.setattr(lock, "_take", lambda descriptor: None)
    (tmp_path / "lock").write_text(left)
    if free:
        with hold(tmp_path / "lock", print):
            pass
    else:
        with (
            pytest.raises(ArtifactError, match=r"held by process \d+ on .*, or delete .*/lock if that"),
            hold(tmp_path / "lock", print),
        ):
            pass


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "precious")
    with (
        pytest.raises(ArtifactError, match="is a link, which is not followed: delete it"),
        hold(tmp_path / "lock", print),
    ):
        pass
    assert (tmp_path / "precious").read_text() == "precious"


def test_special_files_are_refused(tmp_path):
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(ArtifactError, match="no regular file"), hold(tmp_path / "lock", print):
        pass
