import numpy as np
import pytest

from cooptions.errors import LARGEST, ConfigError, CooptionsError, require_number, require_whole, require_widths

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("value", [NAN, INF, -INF, True, "1", None, np.float32("nan")])
@pytest.mark.parametrize("bounds", [{}, {"at_least": 0}, {"at_most": 1}, {"above": 0}, {"at_least": 0, "at_most": 1}])
def test_non_finite_numbers_are_out_of_bounds(value, bounds):
    with pytest.raises(Exception, match="rate"):
        require_number("rate", value, **bounds)


def test_nan_is_not_called_negative():
    with pytest.raises(ConfigError, match="rate must be a number, not nan"):
        require_number("rate", NAN, at_least=0)


@pytest.mark.parametrize(
    ("bounds", "good", "bad", "message"),
    [
        ({"at_least": 0}, 0, -1e-9, "rate must not be negative, not -1e-09"),
        ({"at_least": 2}, 2, 1, "rate must be at least 2, not 1"),
        ({"above": 0}, 1e-9, 0, "rate must be positive, not 0"),
        ({"above": 0, "below": 1}, 0.5, 1.0, "rate must lie between 0 and 1, not 1.0"),
        ({"at_least": 0, "at_most": 1}, 1.0, 1.1, r"rate must lie in \[0, 1\], not 1.1"),
    ],
)
def test_bounds_are_named(bounds, good, bad, message):
    require_number("rate", good, **bounds)
    with pytest.raises(ConfigError, match=message):
        require_number("rate", bad, **bounds)


@pytest.mark.parametrize("value", [0, -3, LARGEST + 1, 10**30])
def test_integers_have_a_limit(value):
    require_whole("num", LARGEST)
    with pytest.raises(ConfigError, match=f"num must be at (least 1|most {LARGEST}), not {value}"):
        require_whole("num", value)
    with pytest.raises(ConfigError, match="hidden must"):
        require_widths("hidden", (8, value))


def test_messages_are_one_printable_line():
    assert str(CooptionsError("a\nb\x1b[31m\u202ec")) == "a b\\x1b[31m\\u202ec"
    assert str(CooptionsError("run-é.yaml: no")) == "run-é.yaml: no"
