"""The notebook runs from the first cell to the last."""

import os
from pathlib import Path

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    """Cells tagged `install` are left out: the package under test is there already."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if "install" not in cell.metadata.get("tags", [])]
    client = nbclient.NotebookClient(
        notebook, timeout=3_600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    try:
        client.execute()
    finally:
        nbformat.write(notebook, tmp_path / path.name)  # with outputs, and when each cell began and ended
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/gif" in output.get("data", {}) for output in shown) == 2
    assert sum("image/png" in output.get("data", {}) for output in shown) == 2
