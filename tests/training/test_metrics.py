import numpy as np
import pytest

from cooptions.errors import ArtifactError
from cooptions.training.metrics import MetricsFile, diverged_at, finite_so_far, line_of

ROWS = [{"step": step, "loss": [0.5, 1.0 if step < 20 else float("nan")]} for step in (10, 20, 30)]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "fit.jsonl").write_bytes(b"".join(map(line_of, ROWS)))
    return tmp_path / "fit.jsonl"


def test_rows_are_read_without_their_checksums(path):
    np.testing.assert_equal(MetricsFile(path).rows(), ROWS)


def test_every_flipped_bit_is_refused(path):
    content = path.read_bytes()
    for bit in range(8 * (len(content) - 1)):  # without the end of the last line, which a crash may have cut off
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(ArtifactError, match=r"fit.jsonl: line \d is damaged"):
            MetricsFile(path).rows()


def test_rows_without_checksums_are_read(path):
    path.write_text('{"step": 10, "loss": [0.5]}\n')
    assert MetricsFile(path).rows() == [{"step": 10, "loss": [0.5]}]


def test_the_step_at_which_a_seed_diverged():
    assert diverged_at(ROWS, 0) is None
    assert diverged_at(ROWS, 1) == 20
    assert diverged_at([], 1) is None
    assert finite_so_far(ROWS, 2).tolist() == [True, False]


@pytest.mark.parametrize("row", [{"loss": [1.0]}, {"step": "ten", "loss": [1.0]}, {"step": 10, "loss": ["much"]}])
def test_invalid_rows_are_damaged(row, tmp_path):
    (tmp_path / "fit.jsonl").write_bytes(line_of(row))
    with pytest.raises(ArtifactError, match="line 1 is damaged"):
        MetricsFile(tmp_path / "fit.jsonl").rows()


def test_a_line_that_nests_without_end_is_damaged(tmp_path):
    (tmp_path / "fit.jsonl").write_bytes(b'{"step": 10, "loss": ' + b"[" * 99999 + b"\n")
    with pytest.raises(ArtifactError, match="line 1 is damaged"):
        MetricsFile(tmp_path / "fit.jsonl").rows()
