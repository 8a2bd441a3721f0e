import json


def test_list_is_readable_and_machine_readable(printed):
    assert "lbf-15x15-4p-3f" in printed("list")
    catalogue = json.loads(printed("list", "--json"))
    assert "overcooked-counter_circuit" in catalogue["scenarios"]
    assert "quick" in catalogue["presets"]
    assert catalogue["representations"]["hit"].startswith("Relative representation from the hitting times")
