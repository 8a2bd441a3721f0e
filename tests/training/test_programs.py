"""Equal stages share compiled programs, and there are never too many programs."""

import jax
import pytest
from toy_stage import Regression, data

from cooptions.training import programs
from cooptions.training.loop import train

compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **details: compiled.append(event) if event.endswith("backend_compile_duration") else None
)


def _train(seed):
    keys = jax.random.split(jax.random.key(seed), 2)
    return train(Regression(), data(2), keys, name="toy", num_steps=20, log_steps=10)


def test_a_second_training_of_an_equal_stage_compiles_nothing():
    _train(0)
    before = len(compiled)
    assert before > 0
    _train(1)
    assert len(compiled) == before


@pytest.mark.parametrize(("allowed", "kept"), [(121, 1), (119, 0)])
def test_programs_are_dropped_before_there_are_too_many(allowed, kept, monkeypatch):
    double = jax.jit(lambda x: 2 * x)
    double(1.0)
    monkeypatch.setattr(programs, "maps_held", lambda: 60)
    monkeypatch.setattr(programs, "maps_allowed", lambda: allowed)
    programs.make_room_for_programs()
    assert double._cache_size() == kept


def test_memory_maps_are_counted():
    assert 0 <= programs.maps_held() < programs.maps_allowed()
