"""Where the walk went."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from cooptions.figures.walk import draw_visits
from cooptions.types import Feature


@pytest.mark.parametrize(
    ("feature", "limits"),
    [(Feature.coordinate("x", 5), (-0.5, 4.5)), (Feature.continuous("x", -3.0, 3.0), (-3.0, 3.0))],
    ids=["cells", "continuous"],
)
def test_the_map_of_visits_has_the_coordinates_of_the_features(feature, limits):
    ax = Figure().subplots()
    image = draw_visits(ax, (feature, feature), np.zeros((10, 2), np.float32))
    assert ax.get_xlim() == limits
    assert ax.get_ylim() == limits[::-1]
    assert np.asarray(image.get_array()).max() == 1.0
