import io
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from cooptions.errors import ConfigError
from cooptions.plots.curves import PALETTE, method_styles, plot_learning_curves, plot_option_counts
from cooptions.scores.statistics import Bootstrap, Scores, final_iqm, iqm_curve

FEW = Bootstrap(50)


def scores_of(name, scenario="lbf-8x8-2p-2f", *, shape=(4, 3, 5), level=0.5):
    values = level + 0.1 * np.random.default_rng(len(name)).random(shape)
    return Scores(name, scenario, "percent_eaten", np.arange(1, shape[1] + 1) * 500_000, values)


def drawn(figure) -> list[Any]:
    """Render a figure as PDF, which must raise no warning and keep its letters as text."""
    content = io.BytesIO()
    figure.savefig(content, format="pdf")
    assert b"/Type /Font" in content.getvalue()
    assert b"/Type3" not in content.getvalue()
    return figure.axes


def test_curves_show_the_iqm_of_every_method_in_its_scenario():
    first, second = scores_of("IQL"), scores_of("IQL+IARO", level=0.2)
    elsewhere = scores_of("IQL+IARO", "overcooked-forced_coord")
    figure = plot_learning_curves([first, second, elsewhere], title="two", bootstrap=FEW)
    axes = drawn(figure)
    assert [ax.get_title() for ax in axes] == ["lbf-8x8-2p-2f", "overcooked-forced_coord"]
    x, y = axes[0].lines[1].get_data()
    assert x.tolist() == [0.5, 1.0, 1.5]
    assert axes[0].get_xlabel() == "environment steps (millions)"
    assert np.array_equal(y, iqm_curve(second, bootstrap=FEW).iqm)
    band = axes[0].collections[1].get_paths()[0].vertices[:, 1]
    curve = iqm_curve(second, bootstrap=FEW)
    assert (band.min(), band.max()) == pytest.approx((curve.low.min(), curve.high.max()))
    assert to_hex(axes[0].lines[1].get_color()) == to_hex(axes[1].lines[0].get_color())
    assert to_hex(axes[0].lines[1].get_color()) != to_hex(axes[0].lines[0].get_color())
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["IQL", "IQL+IARO"]
    assert "diverged" not in axes[0].get_xlabel()


def test_curves_say_which_seeds_are_missing():
    broken, lost = scores_of("IQL"), scores_of("VDN")
    broken.values[1, 2] = np.nan
    lost.values[:] = np.nan
    axes = drawn(plot_learning_curves([broken, lost, scores_of("IPPO", shape=(1, 1, 2))], bootstrap=FEW))
    assert "diverged seeds, left out: IQL 1 of 4, VDN 4 of 4" in axes[0].get_xlabel().replace("\n", " ")


def test_curves_say_which_seeds_the_environment_did_not_score():
    broken = scores_of("IQL")
    broken.values[1, 2] = np.inf
    (ax,) = drawn(plot_learning_curves([broken], bootstrap=FEW))
    assert "no numbers, left out: IQL 1 of 4" in ax.get_xlabel().replace("\n", " ")
    assert "diverged" not in ax.get_xlabel()


@pytest.mark.parametrize(("num", "sizes"), [(1, [1]), (6, [6]), (7, [4, 3]), (12, [6, 6]), (13, [4, 5, 4])])
def test_a_panel_holds_at_most_six_methods(num, sizes):
    methods = [scores_of(f"method {index}", level=index / num) for index in range(num)]
    figure = plot_learning_curves(methods, bootstrap=FEW)
    drawn(figure)
    assert [len(ax.lines) for ax in figure.axes] == sizes
    assert len({ax.get_ylim() for ax in figure.axes}) == 1
    assert figure.axes[0].get_ylim()[1] > (num - 1) / num
    assert len(figure.legends[0].get_texts()) == num


@pytest.mark.parametrize("largest", [900, 12_800, 127_000, 999_999, 1_280_000, 20_000_000])
def test_ticks_of_steps_do_not_collide(largest):
    each = scores_of("IQL", shape=(2, 12, 3))
    each = replace(each, steps=np.linspace(largest / 12, largest, 12).astype(int))
    figure = plot_learning_curves([each, replace(each, scenario="b"), replace(each, scenario="c")], bootstrap=FEW)
    figure.savefig(io.BytesIO(), format="png")
    for ax in figure.axes:
        boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
        low, high = ax.get_window_extent().x0, ax.get_window_extent().x1
        inside = [box for box in boxes if low - 1 <= (box.x0 + box.x1) / 2 <= high + 1]
        assert len(inside) >= 2
        assert all(left.x1 + 4 < right.x0 for left, right in itertools.pairwise(inside))


@pytest.mark.parametrize(("num_panels", "rows"), [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2)])
def test_panels_are_laid_out_in_rows(num_panels, rows):
    figure = plot_learning_curves([scores_of("IQL", f"lbf-{index}") for index in range(num_panels)], bootstrap=FEW)
    assert len(figure.axes) == num_panels
    assert len({round(ax.get_position().y0, 3) for ax in figure.axes}) == rows


def test_option_counts_are_bars_in_rising_order():
    counts = {20: scores_of("many", level=0.8), 0: scores_of("none"), 2: scores_of("two", level=0.6, shape=(1, 2, 4))}
    counts[20].values[0] = np.nan
    (ax,) = drawn(plot_option_counts(list(counts.items()), bootstrap=FEW))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "2", "20"]
    ordered = [final_iqm(counts[count], bootstrap=FEW) for count in (0, 2, 20)]
    assert [bar.get_height() for bar in ax.patches] == [each.value for each in ordered]
    segments = ax.collections[0].get_segments()
    assert [segment[:, 1].tolist() for segment in segments] == [
        pytest.approx([each.low, each.high]) for each in (ordered[0], ordered[2])
    ]
    assert "20 options 1 of 4" in ax.get_xlabel()


def test_styles_are_distinct_and_end():
    styles = method_styles([f"method {index % 21}" for index in range(30)])
    assert len({tuple(style.values()) for style in styles.values()}) == len(styles) == 21
    assert [style["color"] for style in styles.values()][: len(PALETTE)] == list(PALETTE)
    with pytest.raises(ConfigError, match="names: at most 21"):
        method_styles([str(index) for index in range(22)])
    with pytest.raises(ConfigError, match="scores: none"):
        plot_learning_curves([])
